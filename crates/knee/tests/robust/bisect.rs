//! `knee bisect` as its users drive it: on repositories made here, whose commits print their level, so that answers are
//! known and no test depends on the speed of a host.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rand::RngExt;

use crate::home::{Ended, Home, entries};
use crate::random::{choices, times};

/// Prints the level of the commit with noise of about 1 %.
pub const BENCH: &str = "noise=$(od -An -N2 -tu2 /dev/urandom)\n\
    echo \"cost: $(( $(cat level) * 1000 + noise % 3000 ))\"\n";

/// A repository with a line of commits. `files` gives what each commit has, from commit 0.
pub struct Project {
    pub home: Home,
    /// The commit ids, oldest first.
    pub ids: Vec<String>,
}

impl Project {
    pub fn new(commits: usize, files: impl Fn(usize) -> Vec<(String, String)>) -> Project {
        let home = Home::new();
        let folder = home.path("project");
        git(&home, Path::new("."), &["init", "-q", "-b", "main", "project"]);
        let mut stream = String::new();
        for commit in 0..commits {
            let message = format!("commit {commit}");
            stream += &format!(
                "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata {}\n{message}\n",
                1_700_000_000 + commit,
                message.len()
            );
            for (name, text) in files(commit) {
                stream += &format!("M 100644 inline {name}\ndata {}\n{text}\n", text.len());
            }
        }
        let mut import = Command::new("git");
        import.args(["fast-import", "--quiet"]).current_dir(&folder).stdin(Stdio::piped());
        let mut child = import.spawn().expect("starting git");
        child.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        git(&home, &folder, &["reset", "-q", "--hard", "main"]);
        let ids = git(&home, &folder, &["rev-list", "--reverse", "main"]);
        Project { ids: ids.lines().map(str::to_string).collect(), home }
    }

    /// A line of 12 commits, of which the eighth merges a branch of 6 that begins at the third. The fourth of the branch
    /// raises the level by a tenth. Returns the project, the merge and the culprit.
    fn with_merge() -> (Project, String, String) {
        let mut project = Project::with_change(4, 9);
        let folder = project.folder();
        let git = |arguments: &[&str]| git(&project.home, &folder, arguments).trim().to_string();
        let commit = |name: &str| {
            fs::write(folder.join(name), name).unwrap();
            git(&["add", "."]);
            git(&["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", name]);
            git(&["rev-parse", "HEAD"])
        };
        git(&["checkout", "-q", "-b", "branch", "main~1"]);
        for number in 1..=3 {
            commit(&format!("branch-{number}"));
        }
        fs::write(folder.join("level"), "110").unwrap();
        let culprit = commit("branch-4");
        commit("branch-5");
        commit("branch-6");
        git(&["checkout", "-q", "main"]);
        (5..=7).for_each(|number| drop(commit(&format!("main-{number}"))));
        let who = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        git(&[&who[..], &["merge", "-q", "--no-ff", "-m", "merge", "branch"]].concat());
        let merge = git(&["rev-parse", "HEAD"]);
        (9..=12).for_each(|number| drop(commit(&format!("main-{number}"))));
        project.ids = vec![project.ids[0].clone(), git(&["rev-parse", "HEAD"])];
        (project, merge, culprit)
    }

    /// Commits whose level rises by a tenth at `change`.
    fn with_change(commits: usize, change: usize) -> Project {
        Project::new(commits, |commit| {
            let level = if commit >= change { 110 } else { 100 };
            vec![
                ("bench.sh".to_string(), BENCH.to_string()),
                ("level".to_string(), level.to_string()),
                (format!("notes/{commit}"), commit.to_string()),
            ]
        })
    }

    fn folder(&self) -> PathBuf {
        self.home.path("project")
    }

    pub fn short(&self, commit: usize) -> &str {
        &self.ids[commit][..12]
    }

    /// Bisects all commits with these arguments more.
    fn bisect(&self, more: &str) -> Ended {
        self.home.start(&mut self.command(more)).end_within(Duration::from_secs(300))
    }

    pub fn command(&self, more: &str) -> Command {
        let (good, bad) = (&self.ids[0], &self.ids[self.ids.len() - 1]);
        let mut command = self.home.knee(&format!(
            "bisect --git project --good {good} --bad {bad} --cpus 1 {more} --value"
        ));
        command.args(["cost: {}", "--command", "sh bench.sh"]);
        command
    }

    /// All files of the repository and its work tree.
    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut folders = vec![self.folder()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    all.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        all
    }
}

fn git(home: &Home, folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(arguments).env("HOME", home.path("")).current_dir(home.path("").join(folder));
    let output = command.output().expect("starting git");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn check_status(ended: &Ended, status: i32) {
    let Ended { stdout, stderr, .. } = ended;
    assert_eq!(ended.status.code(), Some(status), "{stdout}\n{stderr}");
}

/// Checks that a search ended, and returns whether its last comparison confirmed what it named.
///
/// On a busy host that comparison gives no verdict: where other programs disturb one side more often than
/// chance allows (p < 0.05), which chance alone does in one comparison of twenty, or leave too few blocks.
fn has_confirmed(ended: &Ended) -> bool {
    let reasons = [
        "one variant was disturbed more often",
        "that the host did not disturb",
        "NOT COMPARED: the host disturbed",
        "\"confirmed\": \"disturbed\"",
    ];
    // With --json, metrics that nobody asked about may give such reasons, too.
    let is_confirmed = ended.status.success();
    let is_withdrawn = reasons.iter().any(|reason| ended.stdout.contains(reason));
    check_status(ended, i32::from(!is_confirmed && is_withdrawn));
    is_confirmed
}

#[test]
fn the_culprit_is_named_and_confirmed_and_the_repository_is_not_touched() {
    let project = Project::with_change(41, 23);
    fs::write(project.folder().join("level"), "dirty").unwrap();
    let before = project.contents();
    let ended = project.bisect("");
    let is_confirmed = has_confirmed(&ended);
    let culprit = project.short(23);
    assert!(
        ended.stdout.starts_with(&format!("{culprit} is where value changed")),
        "{}",
        ended.stdout
    );
    // With its parent, and taken back on the tip, which a busy host may leave without a verdict.
    let times_confirmed = ended.stdout.matches("CONFIRMED by runs").count();
    let times_disturbed = ended.stdout.matches("NOT COMPARED: the host disturbed").count();
    assert!(times_confirmed + times_disturbed == 2 || !is_confirmed, "{}", ended.stdout);
    assert!(ended.stderr.contains("uncommitted changes"), "{}", ended.stderr);
    assert!(project.contents() == before, "the repository was changed");
    let builds = project.home.path("cache/knee/bisect");
    assert!(entries(&builds).is_empty(), "builds are left in {}", builds.display());
    project.home.check_nothing_is_left();
}

#[test]
fn a_log_is_one_of_git_bisect() {
    let project = Project::with_change(30, 12);
    check_status(&project.bisect("--no-confirm"), 0);
    let log = project.home.run("bisect log");
    check_status(&log, 0);
    let first_bad = format!("# first bad commit: [{}] commit 12\n", project.ids[12]);
    assert!(log.stdout.ends_with(&first_bad), "{}", log.stdout);
    assert_eq!(log.stdout.matches("\n# forecast: ").count(), 1, "{}", log.stdout);
    fs::write(project.home.path("log"), &log.stdout).unwrap();
    let replayed = git(&project.home, Path::new("project"), &["bisect", "replay", "../log"]);
    assert!(
        replayed.contains(&format!("{} is the first bad commit", project.ids[12])),
        "{replayed}"
    );
    // What git leaves open, knee closes.
    let open: String = log.stdout.lines().take(3).map(|line| format!("{line}\n")).collect();
    fs::write(project.home.path("log"), open).unwrap();
    let mut replay = project.home.knee("bisect replay log --git project --cpus 1 --json --value");
    replay.args(["cost: {}", "--command", "sh bench.sh"]);
    let ended = project.home.start(&mut replay).end();
    has_confirmed(&ended);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["named"], serde_json::json!([project.ids[12]]));
}

#[test]
fn ends_that_do_not_differ_are_not_reproduced() {
    // Noise by the number of the run, in steps of the golden ratio: by chance alone, noise of its own would show a
    // difference in one of fifty tests.
    let bench = "n=$(( $(cat \"$HOME/runs\" 2> /dev/null || echo 0) + 1 ))\n\
        echo $n > \"$HOME/runs\"\n\
        echo \"cost: $(( 100000 + n * 1854 % 3000 ))\"\n";
    let project = Project::new(20, |commit| {
        vec![
            ("bench.sh".to_string(), bench.to_string()),
            (format!("notes/{commit}"), commit.to_string()),
        ]
    });
    let ended = project.bisect("--ends-runs 24");
    check_status(&ended, 3);
    assert!(ended.stdout.starts_with("NOT REPRODUCED: "), "{}", ended.stdout);
}

#[test]
fn ends_with_equal_builds_are_not_measured() {
    let project = Project::new(9, |commit| {
        vec![
            ("a.sh".to_string(), "echo > made".to_string()),
            ("number".to_string(), commit.to_string()),
        ]
    });
    let ended = project.bisect("--build true --product a.sh");
    check_status(&ended, 3);
    assert!(ended.stdout.contains("both ends load equal code and data"), "{}", ended.stdout);
    let forms =
        [("mail", "Bisection: "), ("markdown", "## Bisection: "), ("html", "<!doctype html>")];
    for (form, start) in forms {
        let ended = project.bisect(&format!("--build true --product a.sh --view {form}"));
        check_status(&ended, 3);
        assert!(ended.stdout.starts_with(start), "{}", ended.stdout);
        assert!(ended.stdout.contains("NOT REPRODUCED"), "{}", ended.stdout);
    }
}

#[test]
fn a_folder_of_records_may_be_relative_and_stand_before_the_action() {
    let project = Project::new(3, |commit| {
        let text = format!("int main(void) {{ return 0; }} /* {commit} */\n");
        vec![("p.c".to_string(), text)]
    });
    let (home, ids) = (&project.home, &project.ids);
    let (good, bad) = (&ids[0], &ids[2]);
    let mut command = home.knee(&format!(
        "bisect --git project --good {good} --bad {bad} --records rel --no-confirm --command ./p --build"
    ));
    let ended = home.start(command.arg("cc -o p p.c")).end_within(Duration::from_secs(300));
    // Both ends are built, and only comments differ.
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    for place in ["bisect --records rel log", "--records rel bisect log"] {
        let log = home.run(place);
        assert!(log.status.success() && log.stdout.contains(good), "{place}: {}", log.stderr);
    }
    let refused = home.run("bisect --git project log");
    assert_eq!(refused.status.code(), Some(2));
    assert!(refused.stderr.contains("--git <DIR> does not go with `log`"), "{}", refused.stderr);
}

#[test]
fn commits_that_fail_are_skipped_and_leave_a_set() {
    let project = Project::new(30, |commit| {
        let level = if commit >= 15 { 110 } else { 100 };
        let bench = match commit {
            // A value of which no share can be taken.
            14 => "echo 'cost: 0'".to_string(),
            13..17 => format!("{BENCH}exit 125"),
            _ => BENCH.to_string(),
        };
        vec![
            ("bench.sh".to_string(), bench + "\n"),
            ("level".to_string(), level.to_string()),
            ("number".to_string(), commit.to_string()),
        ]
    });
    let ended = project.bisect("--json");
    check_status(&ended, 1);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["answer"]["why"], "untestable", "{}", ended.stdout);
    let changes = value["answer"]["changes"].as_array().unwrap();
    let mut changes: Vec<u64> = changes.iter().map(|c| c[0].as_u64().unwrap()).collect();
    changes.sort_unstable();
    assert_eq!(changes, [13, 14, 15, 16, 17]);
}

#[test]
fn a_commit_that_leaves_the_build_equal_is_neither_measured_nor_named() {
    let project = Project::new(60, |commit| {
        let level = if commit >= 30 { 110 } else { 100 };
        vec![
            ("bench.sh".to_string(), BENCH.to_string()),
            ("source".to_string(), format!("{level} {}", commit / 6)),
            ("build.sh".to_string(), "cut -d' ' -f1 source > level; cp source made".to_string()),
            ("README".to_string(), commit.to_string()),
        ]
    });
    let (good, bad) = (&project.ids[0], &project.ids[59]);
    let mut command = project.home.knee(&format!(
        "bisect --git project --good {good} --bad {bad} --cpus 1 --product made --json --no-confirm"
    ));
    command.args(["--build", "sh build.sh", "--value", "cost: {}", "--command", "sh bench.sh"]);
    let ended = project.home.start(&mut command).end();
    has_confirmed(&ended);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(value["named"], serde_json::json!([project.ids[30]]), "{}", ended.stderr);
}

#[test]
fn steps_of_a_folder_are_bisected() {
    let home = Home::new();
    fs::create_dir(home.path("steps")).unwrap();
    for step in 1..=20 {
        let level = if step >= 8 { 120 } else { 100 };
        fs::write(home.path(&format!("steps/config-{step}")), format!("{level}")).unwrap();
    }
    let script = "noise=$(od -An -N2 -tu2 /dev/urandom); \
        echo \"cost: $(( $(cat {step}) * 1000 + noise % 3000 ))\"";
    let mut command = home.knee("bisect --steps steps --cpus 1 --shell --value");
    command.args(["cost: {}", "--command", script]);
    let ended = home.start(&mut command).end();
    has_confirmed(&ended);
    assert!(ended.stdout.starts_with("config-8 is where value changed"), "{}", ended.stdout);
}

#[test]
fn along_first_parents_the_merge_is_found_and_then_the_commit_that_it_brought() {
    let (project, merge, culprit) = Project::with_merge();
    let ended = project.bisect("--first-parent --no-confirm --json");
    check_status(&ended, 0);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect(&ended.stdout);
    assert_eq!(value["named"], serde_json::json!([merge]), "{}", ended.stderr);
    assert_eq!(value["commits"].as_array().unwrap().len(), 12, "one of each first parent");
    let inside = &value["inside_merge"];
    assert_eq!(inside["named"], serde_json::json!([culprit]), "{}", ended.stderr);
    assert_eq!(inside["commits"].as_array().unwrap().len(), 7, "the branch and where it began");
}

#[test]
fn what_cannot_be_bisected_is_refused_with_advice() {
    let project = Project::with_change(5, 2);
    git(&project.home, Path::new("project"), &["branch", "side", "HEAD~2"]);
    let [first, last] = [0, 4].map(|commit| project.ids[commit].clone());
    let check = |arguments: &str, why: &str| {
        let ended = project.home.run(&format!("bisect {arguments}"));
        check_status(&ended, 2);
        assert!(ended.stderr.contains(why), "{arguments}: {}", ended.stderr);
    };
    check("", "nothing to bisect: give --git DIR");
    check("--resume", "no bisection in");
    check("log", "no bisection in");
    check("--git measured --good a --bad b", "is not in a git repository");
    check(&format!("--git project --good {first}"), "--bad is missing");
    check(&format!("--git project --good {first} --bad {last}"), "--command LINE is missing");
    let command = "--command true";
    check(&format!("--git project --good {first} --bad nix {command}"), "no revision 'nix'");
    check(&format!("--git project --good {last} --bad {first} {command}"), "are they swapped?");
    check(&format!("--git project --good {first} --bad {first} {command}"), "are one commit");
    check(
        &format!("--git project --good {first} --bad {last} {command} --build false"),
        "the good end",
    );
    check(&format!("--git project --good {first} --bad {last} --command ./app"), "made no ./app");
    check(&format!("--git project --good {first} --bad {last} --command false"), "the good end");
    check(&format!("--git project --good {first} --bad {last} {command} --metric nix"), "nix");
    let run = format!("--git project --good {first} --bad {last} --run getppid");
    check(&format!("{run} {command}"), "either kernels or a program");
    check(&run, "add --kernel-build, or name a folder of kernels");
    check("--steps measured --command true", "at least 2 are needed");
    fs::write(project.home.path("log"), "no log\n").unwrap();
    check("replay log --git project --command true", "line 1 is not of a log of git bisect");
    let slow = format!("--git project --good {first} --bad {last} {command} --build-timeout 0.2");
    let mut command = project.home.knee(&format!("bisect {slow} --build"));
    let ended = project.home.start(command.arg("sleep 100")).end();
    check_status(&ended, 2);
    assert!(ended.stderr.contains("did not end within 0.2 s"), "{}", ended.stderr);
}

#[test]
fn a_bisection_is_told_that_a_branch_is_gone_and_refused_without_its_commits() {
    let project = Project::with_change(5, 2);
    let git = |arguments: &[&str]| git(&project.home, Path::new("project"), arguments);
    git(&["branch", "side", "main"]);
    git(&["reset", "-q", "--hard", "main~2"]);
    let [first, last] = [0, 4].map(|commit| project.short(commit));
    let mut command = project
        .home
        .knee(&format!("bisect --git project --good {first} --bad side --command false"));
    check_status(&project.home.start(&mut command).end(), 2);
    git(&["branch", "-q", "-D", "side"]);
    let ended = project.home.run("bisect --resume");
    let gone = format!("side is gone: the bisection goes on with {last}, as it began");
    assert!(ended.stderr.contains(&gone), "{}", ended.stderr);
    git(&["reflog", "expire", "--expire=now", "--all"]);
    git(&["gc", "-q", "--prune=now"]);
    let ended = project.home.run("bisect --resume");
    check_status(&ended, 2);
    let gone = format!("the bad end {last} is gone from the repository");
    assert!(ended.stderr.contains(&gone), "{}", ended.stderr);
}

#[test]
fn a_bisection_goes_on_within_other_limits_but_otherwise_as_it_began() {
    let project = Project::with_change(41, 23);
    let ended = project.bisect("--max-runs 12 --no-confirm");
    check_status(&ended, 1);
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("--max-runs allow no more"), "{}", ended.stdout);
    let refused = project.home.run("bisect --resume --cpus 2");
    check_status(&refused, 2);
    assert!(refused.stderr.contains("--cpus"), "{}", refused.stderr);
    let ended = project.home.run("bisect --resume --max-runs 400 --no-confirm");
    check_status(&ended, 0);
    let named = format!("{} is where value changed", project.short(23));
    assert!(ended.stdout.starts_with(&named), "{}\n{}", ended.stdout, ended.stderr);
}

#[test]
fn a_build_that_a_kill_cut_off_is_made_again() {
    let bench = BENCH.replace("level", "made");
    let project = Project::new(9, |commit| {
        let level = if commit >= 5 { "110" } else { "100" };
        vec![("bench.sh".to_string(), bench.clone()), ("level".to_string(), level.to_string())]
    });
    let build = "while [ -e \"$HOME/hangs\" ]; do sleep 0.1; done; cp level made";
    let mut command = project.command("--no-confirm --product made");
    command.args(["--build", build]);
    check_status(&project.home.start(&mut command).end(), 0);
    // The builds are removed by now; those that are compared are made again.
    fs::write(project.home.path("hangs"), "").unwrap();
    let running = project.home.start(&mut project.home.knee("bisect --resume"));
    let builds = project.home.path("cache/knee/bisect");
    let begun = || entries(&builds).iter().any(|builds| entries(builds).len() >= 2);
    while !begun() {
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(libc::SIGKILL);
    drop(running);
    project.home.wait_for_quiet();
    fs::remove_file(project.home.path("hangs")).unwrap();
    has_confirmed(&project.home.run("bisect --resume"));
}

#[test]
fn a_plan_builds_nothing() {
    let project = Project::with_change(41, 23);
    let ended = project.bisect("--plan");
    check_status(&ended, 0);
    assert!(ended.stdout.starts_with("40 candidates from "), "{}", ended.stdout);
    assert!(!project.home.path("records/bisections").exists());
}

#[test]
fn kills_at_any_instant_end_in_the_same_answer() {
    let mut random = choices("kills_at_any_instant_end_in_the_same_answer");
    let wanted = times("KNEE_BISECT_KILLS", 12);
    let mut kills = 0;
    while kills < wanted {
        let change = random.random_range(1..40);
        let project = Project::with_change(41, change);
        let mut command = project.command("");
        loop {
            let mut running = project.home.start(&mut command);
            std::thread::sleep(Duration::from_millis(random.random_range(100..2500)));
            if kills == wanted || running.has_ended() {
                let ended = running.end_within(Duration::from_secs(300));
                has_confirmed(&ended);
                let named = format!("{} is where value changed", project.short(change));
                assert!(ended.stdout.starts_with(&named), "{}\n{}", ended.stdout, ended.stderr);
                break;
            }
            running.signal(libc::SIGKILL);
            drop(running);
            project.home.wait_for_quiet();
            kills += 1;
            // Killed before the first line of its log, there is nothing to go on with.
            let has_begun = project.home.run("bisect log").status.success();
            command =
                if has_begun { project.home.knee("bisect --resume") } else { project.command("") };
        }
        project.home.check_nothing_is_left();
    }
    println!("{kills} kills, every answer right");
}
