//! `knee gate` as a pull request's job calls it: on repositories made here, whose programs print their costs, so that answers
//! are known and no test depends on the speed of a host.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::bisect::Project;
use crate::home::{Ended, entries};
use crate::process::wait_for;
use crate::skip::skip;

/// Lists its cases, or prints the cost of one with noise of about 1 %. `costs` has a line for each case.
const BENCH: &str = "[ -s costs ] || exit 1\n\
    if [ \"$1\" = --list ]; then cut -d' ' -f1 costs; exit; fi\n\
    noise=$(od -An -N2 -tu2 /dev/urandom)\n\
    level=$(grep \"^$1 \" costs | cut -d' ' -f2)\n\
    echo \"cost: $(( level * 1000 + noise % 3000 ))\"\n";

/// A repository whose commits have these costs of cases.
fn project(commits: &[&[(&str, u32)]]) -> Project {
    Project::new(commits.len(), |commit| {
        let costs = commits[commit].iter().map(|(case, level)| format!("{case} {level}\n"));
        vec![
            ("bench.sh".to_string(), BENCH.to_string()),
            ("costs".to_string(), costs.collect()),
            (format!("notes/{commit}.md"), commit.to_string()),
        ]
    })
}

/// Gates the newest commit against the first.
fn gate(project: &Project, more: &[&str]) -> Ended {
    gate_of(project, &["--command", "sh bench.sh {case}"], more)
}

fn gate_of(project: &Project, command: &[&str], more: &[&str]) -> Ended {
    let mut knee = project.home.knee("gate --git project --head main --cpus 1 --count --json");
    knee.args(["--base", &project.ids[0], "--value", "cost: {}"]);
    knee.args(command).args(["--cases", "sh bench.sh --list"]).args(more);
    project.home.start(&mut knee).end_within(Duration::from_secs(300))
}

fn answer(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr))
}

/// The cases of an answer with what is said of each.
fn said(answer: &serde_json::Value) -> Vec<(&str, &str)> {
    let text = |value: &'_ serde_json::Value| value.as_str().unwrap().to_string().leak() as &str;
    let cases = answer["cases"].as_array().unwrap();
    cases.iter().map(|case| (text(&case["case"]), text(&case["is"]))).collect()
}

#[test]
fn a_case_that_is_slower_fails_the_gate_and_the_others_are_left_alone() {
    // A name is a word of a line, and nothing in a comment but itself.
    const STRANGE: &str = "sort/1|\"u<8>'@me";
    let base: &[(&str, u32)] = &[("parse", 100), (STRANGE, 200), ("old", 100)];
    let head: &[(&str, u32)] = &[("parse", 100), (STRANGE, 214), ("new", 100)];
    let project = project(&[base, head]);
    let comment = project.home.path("comment.md");
    let page = project.home.path("page.html");
    let files = [comment.to_str().unwrap(), page.to_str().unwrap()];
    let ended = gate(&project, &["--comment", files[0], "--html", files[1]]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let answer = answer(&ended);
    assert_eq!(said(&answer), [("parse", "harmless"), (STRANGE, "worse")]);
    assert_eq!(answer["only_base"], serde_json::json!(["old"]));
    assert_eq!(answer["only_head"], serde_json::json!(["new"]));
    let comment = fs::read_to_string(comment).unwrap();
    let seen = comment.split("<details>").next().unwrap();
    let name = |bar: &str| format!("sort/1{bar}\"u&lt;8>'@<!-- -->me");
    assert!(seen.contains(&format!("1 of 2 cases is worse: {} +", name("\\|"))), "{comment}");
    assert!(seen.contains(&format!("| {} |", name("\\|"))), "{comment}");
    assert!(seen.lines().filter(|line| !line.is_empty()).count() <= 12, "{comment}");
    assert!(fs::read_to_string(page).unwrap().contains("sort/1"));
    project.home.check_nothing_is_left();
}

#[test]
fn what_a_runner_can_tell_is_learned_from_the_base_against_itself() {
    let project = project(&[&[("a", 20), ("b", 20)], &[("a", 40), ("b", 20)]]);
    let ended = gate(&project, &["--smallest-effect", "auto", "--budget", "20s"]);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let answer = answer(&ended);
    assert_eq!(said(&answer)[0], ("a", "worse"));
    let smallest = answer["smallest_effect"].as_f64().unwrap();
    assert!((0.01..=0.9).contains(&smallest) && smallest != 0.02, "{smallest}");
    assert!(answer["learned"]["runs"].as_u64().unwrap() >= 8, "{answer}");
    let records = answer["records"].as_array().unwrap().len();
    assert!(records >= 2, "the first record is of the base against itself");
    project.home.check_nothing_is_left();
}

#[test]
fn equal_code_is_not_run_and_what_cannot_be_judged_is_said() {
    let costs: &[(&str, u32)] = &[("parse", 100)];
    let check = |project: &Project, more: &[&str], why: &str, status: i32| {
        let ended = gate(project, more);
        assert_eq!(ended.status.code(), Some(status), "{}", ended.stderr);
        assert_eq!(answer(&ended)["nothing"]["why"], why, "{}", ended.stdout);
    };
    let same = project(&[costs, costs]);
    check(&same, &["--build", "cp costs bench.bin"], "same_code", 0);
    let broken = project(&[costs, &[("parse", 101)]]);
    check(&broken, &["--build", "grep -q 'parse 100' costs"], "not_built", 0);
    let other = project(&[costs, &[("sort", 100)]]);
    check(&other, &[], "no_case", 0);
    check(&project(&[costs, &[]]), &[], "not_listed", 0);
    check(&project(&[costs]), &[], "no_change", 0);
    same.home.check_nothing_is_left();
}

#[test]
fn a_gate_that_was_killed_goes_on_and_finds_its_builds_again() {
    let project = project(&[&[("a", 100), ("b", 100)], &[("a", 120), ("b", 100)]]);
    let build = ["--build", "echo built >> ../../../built; cp costs made"];
    let mut knee = project.home.knee("gate --git project --head main --cpus 1 --count --json");
    knee.args(["--base", &project.ids[0], "--value", "cost: {}"]);
    knee.args(["--command", "sh bench.sh {case}", "--cases", "sh bench.sh --list"]).args(build);
    let running = project.home.start(&mut knee);
    let runs = || {
        project
            .home
            .growing()
            .iter()
            .filter_map(|folder| fs::read_to_string(folder.join("runs.ndjson")).ok())
            .map(|text| text.lines().count())
            .sum::<usize>()
    };
    wait_for("some runs", || (runs() > 6).then_some(()));
    running.signal(libc::SIGKILL);
    running.end();
    project.home.wait_for_quiet();
    let ended = gate(&project, &build);
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    assert_eq!(said(&answer(&ended)), [("a", "worse"), ("b", "harmless")]);
    match &project.home.records()[..] {
        [record] => assert_eq!(record.record.sessions.len(), 2, "the record went on"),
        records if ended.is_refused() => {
            skip("a killed gate that goes on", &ended.stderr);
            assert_eq!(records.len(), 2, "the first one is kept as it was");
        }
        records => panic!("{} records, and no reason: {}", records.len(), ended.stderr),
    }
    let built = fs::read_to_string(found(&project, "built")).unwrap();
    assert_eq!(built.lines().count(), 2, "each commit was built once");
}

/// The file that a build wrote above its folder.
fn found(project: &Project, name: &str) -> PathBuf {
    project.home.path("cache").join("knee").join(name)
}

#[test]
fn builds_are_of_one_repository_and_of_the_compilers_that_made_them() {
    let project = project(&[&[("a", 100)], &[("a", 100)]]);
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.args(words).current_dir(project.home.path("")).env("HOME", project.home.path(""));
        assert!(git.output().unwrap().status.success(), "{words:?}");
    };
    let other = "a fork's \"copy\" of $HOME";
    git(&["clone", "-q", "project", other]);
    git(&["-C", "project", "worktree", "add", "-q", "--detach", "../beside", "main"]);
    let gate = |repository: &str, flags: &str, builds: usize| {
        let mut knee = project.home.knee("gate --head main --cpus 1 --count --json");
        knee.args(["--git", repository, "--base", &project.ids[0], "--value", "cost: {}"]);
        knee.args(["--command", "sh bench.sh {case}", "--cases", "sh bench.sh --list"]);
        knee.args(["--build", "echo built >> ../../../built; cp costs made"]).env("CFLAGS", flags);
        let ended = project.home.start(&mut knee).end_within(Duration::from_secs(300));
        assert_eq!(answer(&ended)["nothing"]["why"], "same_code", "{}", ended.stderr);
        let built = fs::read_to_string(found(&project, "built")).unwrap();
        assert_eq!(built.lines().count(), builds, "{repository} {flags}");
        ended.stderr
    };
    gate("project", "-O2", 2);
    gate(other, "-O2", 4);
    gate("project", "-O2", 4);
    gate("beside", "-O2", 4);
    assert!(gate("project", "-O3", 6).contains("settings changed since the last gate"));
    let kept = || {
        let entries = entries(&found(&project, "bisect"));
        entries.iter().filter(|entry| entry.is_dir()).count()
    };
    assert_eq!(kept(), 2);
    fs::remove_dir_all(project.home.path(other)).unwrap();
    gate("project", "-O3", 6);
    assert_eq!(kept(), 1, "builds of a repository that is gone");
    project.home.check_nothing_is_left();
}

#[test]
fn cases_that_are_too_many_for_the_budget_all_run_and_the_most_suspicious_run_on() {
    let costs = |slow: u32| -> Vec<(String, u32)> {
        let cost = |case: u32| if case == 7 { slow } else { 100 };
        (0..24).map(|case| (format!("case{case}"), cost(case))).collect()
    };
    let [base, head] = [costs(100), costs(150)];
    let of = |costs: &'_ [(String, u32)]| -> Vec<(&'static str, u32)> {
        costs.iter().map(|(case, cost)| (&*case.clone().leak(), *cost)).collect()
    };
    let project = project(&[&of(&base), &of(&head)]);
    // Eight blocks take 24 * 2 * 8 * 0.05 s at least.
    let sleeping = ["--command", "sh -c 'sleep 0.05; sh bench.sh \"$0\"' {case}"];
    let ended = gate_of(&project, &sleeping, &["--budget", "18s", "--no-layouts"]);
    let answer = answer(&ended);
    assert_eq!(said(&answer).len(), 24, "all cases are named: {answer}");
    assert!(answer["needs_s"].as_f64().unwrap() > 18.0, "{answer}");
    assert_eq!(answer["out_of_budget"], true, "{answer}");
    let blocks = |case: &serde_json::Value| case["blocks"].as_u64().unwrap();
    let cases = answer["cases"].as_array().unwrap();
    if blocks(&cases[7]) == 0 {
        return skip("the most suspicious cases of many run on", "a busy host: it did not run");
    }
    assert!(blocks(&cases[7]) == cases.iter().map(blocks).max().unwrap(), "{answer}");
    assert!(cases.iter().any(|case| case["is"] == "cannot_tell"), "{answer}");
    project.home.check_nothing_is_left();
}

#[test]
fn a_case_that_fails_at_times_is_named_and_judged() {
    let flaky = "[ -s costs ] || exit 1\n\
        if [ \"$1\" = --list ]; then cut -d' ' -f1 costs; exit; fi\n\
        if [ $1 = b ] && [ -e flaky ]; then echo x >> runs; [ $(( $(wc -l < runs) % 3 )) != 0 ] || { echo no input >&2; exit 1; }; fi\n\
        echo \"cost: $(( 100000 + $(od -An -N2 -tu2 /dev/urandom) % 3000 ))\"\n";
    let project = Project::new(2, |commit| {
        let file = |name: &str, text: &str| (name.to_string(), text.to_string());
        let mut files = vec![file("bench.sh", flaky), file("costs", "a 1\nb 1\n")];
        files.extend((commit == 1).then(|| file("flaky", "yes")));
        files
    });
    let comment = project.home.path("comment.md");
    let ended = gate(&project, &["--comment", comment.to_str().unwrap(), "--budget", "30s"]);
    let answer = answer(&ended);
    let [steady, failing] = [0, 1].map(|case| &answer["cases"][case]);
    assert_eq!((&steady["failed"], &failing["is"]), (&0.into(), &"harmless".into()), "{answer}");
    let comment = fs::read_to_string(comment).unwrap();
    let said =
        format!("1 of 2 cases fails at times: b: {} runs of head failed.", failing["failed"]);
    assert!(comment.contains(&said), "{comment}");
}

#[test]
fn wrong_words_say_what_to_do() {
    let project = project(&[&[("a", 100)], &[("a", 101)]]);
    let check = |words: &[&str], expected: &str| {
        let mut knee = project.home.knee("gate --git project --head main");
        let ended = project.home.start(knee.args(words)).end();
        assert_eq!(ended.status.code(), Some(2), "{words:?}");
        assert!(ended.stderr.contains(expected), "{words:?}: {}", ended.stderr);
    };
    check(&["--base", "nowhere", "--command", "true"], "nowhere");
    let to_main = |words: &[&'static str], expected: &str| {
        check(&[&["--base", "main"], words].concat(), expected);
    };
    to_main(&["--command", "./b {case}"], "name the cases with --case A,B");
    to_main(&["--command", "./b", "--case", "a,b"], "--command has no {case}");
    to_main(&["--harness", "googlebenchmark=x"], "did you mean \"google-benchmark\"?");
    to_main(&["--command", "true", "--comment", "no/c.md"], "no/c.md cannot be written: make its");
    to_main(&["--harness", "go"], "--harness go=PROGRAM: name the test binary");
    let to_first = |words: &[&str], expected: &str| {
        check(&[&["--base", &project.ids[0]], words].concat(), expected);
    };
    to_first(&["--harness", "go=bnch.test"], "cases cannot be listed: the build made no bnch.test");
    let mut git = Command::new("git");
    git.args(["commit-tree", "-m", "x", "main^{tree}"]).current_dir(project.home.path("project"));
    let who = [("NAME", "A"), ("EMAIL", "a@example.org")];
    for (name, value) in who {
        git.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
    }
    let apart = String::from_utf8(git.output().unwrap().stdout).unwrap();
    let unrelated = ["--base", apart.trim(), "--command", "true"];
    check(&unrelated, "have no common ancestor here: fetch the whole history");
    let none = ["--command", "sh bench.sh {case}", "--cases", "sh bench.sh --list"];
    to_first(
        &[&none[..], &["--only", "^b"]].concat(),
        "no case of base or head matches --only '^b'",
    );
    to_first(&["--command", "sh {case}", "--cases", "true"], "neither base nor head has a case");
    let missing = ["--command", "./b {case}", "--cases", "./b --list"];
    to_first(&missing, "cases cannot be listed: `sh -c ./b --list` ended with exit status: 127");
}

/// A program with two cases whose loops are fixed.
fn counted_bench(loops: [u32; 2]) -> String {
    let [a, b] = loops;
    format!(
        "#include <string.h>\n#include <unistd.h>\nstatic volatile unsigned sum;\n\
         __attribute__((noinline)) void parse(void) {{ for (unsigned n = 0; n < {a}; n++) sum += n; }}\n\
         __attribute__((noinline)) void encode(void) {{ for (unsigned n = 0; n < {b}; n++) sum += n; getppid(); }}\n\
         int main(int argc, char **argv) {{ strcmp(argv[1], \"parse\") ? encode() : parse(); return 0; }}\n"
    )
}

/// Whether the host lacks one of the programs that a test needs.
fn is_lacking(programs: &[&str], test: &str) -> bool {
    let is_there = |program: &&&str| Command::new(program).arg("--version").output().is_ok();
    let lacking = programs.iter().find(|program| !is_there(program));
    lacking.inspect(|program| skip(test, &format!("no {program}"))).is_some()
}

#[test]
fn a_gate_that_was_killed_leaves_no_program_under_emulation() {
    if is_lacking(&["cc", "qemu-x86_64"], "a killed gate by counts") {
        return;
    }
    let project = Project::new(2, |commit| {
        let loops = 40_000_000_000 + commit as u64;
        let text = format!(
            "int main(void) {{ for (volatile long n = 0; n < {loops}; n++); return 0; }}\n"
        );
        vec![("bench.c".to_string(), text)]
    });
    let mut knee = project.home.knee("gate --git project --head main --exact --command ./bench");
    let running = project.home.start(knee.args([
        "--base",
        &project.ids[0],
        "--build",
        "cc -o bench bench.c",
    ]));
    let home = format!("HOME={}", project.home.path("").display());
    let is_count = |folder: &PathBuf| {
        let has = |file: &str, text: &str| {
            let found = fs::read(folder.join(file)).unwrap_or_default();
            String::from_utf8_lossy(&found).split('\0').any(|one| one.trim_end_matches('/') == text)
        };
        has("cmdline", "qemu-x86_64") && has("environ", home.trim_end_matches('/'))
    };
    let counts = || entries(Path::new("/proc")).iter().filter(|folder| is_count(folder)).count();
    wait_for("a count", || (counts() > 0).then_some(()));
    running.signal(libc::SIGKILL);
    running.end();
    wait_for("the end of all counts", || (counts() == 0).then_some(()));
}

#[test]
fn one_percent_more_instructions_is_found_and_nothing_else() {
    if is_lacking(&["cc", "qemu-x86_64"], "a gate by counts") {
        return;
    }
    let project = Project::new(2, |commit| {
        let loops = [[100_000, 100_000], [101_000, 100_000]][commit];
        vec![("bench.c".to_string(), counted_bench(loops))]
    });
    let mut knee =
        project.home.knee("gate --git project --head main --exact --json --case parse,encode");
    knee.args(["--base", &project.ids[0], "--build", "cc -O1 -g -o bench bench.c"]);
    let ended = project.home.start(knee.args(["--command", "./bench {case}"])).end();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let answer = answer(&ended);
    let [parse, encode] = [0, 1].map(|case| &answer["counted"][case]);
    assert_eq!((&parse["is"], &encode["is"]), (&"more".into(), &"same".into()), "{answer}");
    assert_eq!(parse["functions"][0]["name"], "parse@bench", "{parse}");
    let change = parse["change"].as_f64().unwrap();
    assert!((0.008..=0.01).contains(&change), "{change}");
    project.home.check_nothing_is_left();
}
