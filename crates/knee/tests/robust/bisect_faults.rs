//! Bisections that are killed, and builds that hang, fill the disk or differ each time; series and screenings.

use std::fs;
use std::process::Command;
use std::time::Duration;

use rand::RngExt;

use crate::bisect::{BENCH, Project, check_status};
use crate::home::Home;
use crate::random::{choices, times};
use crate::skip::{is_root, skip};

/// A folder of steps whose level rises by three hundredths at `change`, and the command that bisects it. Runs spread by
/// one hundredth, and sleep so that there is time to kill them.
fn steps(home: &Home, change: usize) -> Command {
    fs::create_dir(home.path("steps")).unwrap();
    for step in 1..=60 {
        let level = if step >= change { 103 } else { 100 };
        fs::write(home.path(&format!("steps/{step}")), format!("{level}")).unwrap();
    }
    let script = "sleep 0.05; noise=$(od -An -N2 -tu2 /dev/urandom); \
        echo \"cost: $(( $(cat {step}) * 1000 + noise % 3000 ))\"";
    let mut command =
        home.knee("bisect --steps steps --cpus 1 --no-confirm --json --shell --value");
    command.args(["cost: {}", "--command", script]);
    command
}

fn named(stdout: &str) -> serde_json::Value {
    let value: serde_json::Value = serde_json::from_str(stdout).expect(stdout);
    value["named"].clone()
}

#[test]
fn one_bisection_that_is_killed_again_and_again_ends_in_the_same_answer() {
    let mut random =
        choices("one_bisection_that_is_killed_again_and_again_ends_in_the_same_answer");
    let wanted = times("KNEE_BISECT_KILLS", 12);
    let change = random.random_range(2..60);
    let undisturbed = Home::new();
    let ended =
        undisturbed.start(&mut steps(&undisturbed, change)).end_within(Duration::from_secs(300));
    check_status(&ended, 0);
    let home = Home::new();
    let mut command = steps(&home, change);
    let mut kills = 0;
    while kills < wanted {
        let mut running = home.start(&mut command);
        std::thread::sleep(Duration::from_millis(random.random_range(0..500)));
        if running.has_ended() {
            break;
        }
        running.signal(libc::SIGKILL);
        drop(running);
        home.wait_for_quiet();
        kills += 1;
        // Killed before the first line of its log, there is nothing to go on with.
        if home.run("bisect log").status.success() {
            command = home.knee("bisect --resume --no-confirm --json");
        }
    }
    let again = home.start(&mut command).end_within(Duration::from_secs(300));
    check_status(&again, 0);
    assert_eq!(named(&again.stdout), named(&ended.stdout), "after {kills} kills\n{}", again.stderr);
    home.check_nothing_is_left();
    println!("{kills} kills of one bisection");
}

/// A project of which each commit is built by `build.sh`.
fn with_builds(commits: usize, change: usize, build: impl Fn(usize) -> String) -> Project {
    Project::new(commits, |commit| {
        let level = if commit >= change { 110 } else { 100 };
        vec![
            ("bench.sh".to_string(), BENCH.to_string()),
            ("level".to_string(), level.to_string()),
            ("number".to_string(), commit.to_string()),
            ("build.sh".to_string(), build(commit)),
        ]
    })
}

fn bisect(project: &Project, more: &str) -> Command {
    let mut command = project.command(more);
    command.args(["--build", "sh build.sh"]);
    command
}

#[test]
fn a_build_that_hangs_is_skipped_and_its_neighbours_are_tested() {
    let build = |commit| if commit == 10 { "sleep 1000" } else { "cp number made" }.to_string();
    let project = with_builds(21, 14, build);
    let mut command = bisect(&project, "--build-timeout 2 --no-confirm");
    let ended = project.home.start(&mut command).end_within(Duration::from_secs(300));
    check_status(&ended, 0);
    let culprit = project.short(14);
    assert!(ended.stdout.starts_with(&format!("{culprit} is where")), "{}", ended.stdout);
    let is_skipped = format!("{} is skipped: its build did not end within 2 s", project.short(10));
    assert!(ended.stderr.contains(&is_skipped), "{}", ended.stderr);
    project.home.check_nothing_is_left();
}

#[test]
fn builds_that_differ_each_time_are_told_and_searched_all_the_same() {
    let project = with_builds(21, 14, |_| "date +%N > made; cp bench.sh again".to_string());
    let mut command = bisect(&project, "--product made --no-confirm");
    let ended = project.home.start(&mut command).end_within(Duration::from_secs(300));
    check_status(&ended, 0);
    assert!(ended.stderr.contains("two builds of the good end differ"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with(project.short(14)), "{}", ended.stdout);
}

#[test]
fn a_build_that_fills_the_disk_blames_no_commit_and_resuming_goes_on() {
    if !is_root() {
        return skip("builds on a full disk", "only root may mount one");
    }
    let project = with_builds(21, 14, |commit| {
        // From the second test on: the ends leave room.
        let size = if [0, 20].contains(&commit) { 1 } else { 90 };
        format!("head -c {size}M /dev/zero > made && cp number made")
    });
    let builds = project.home.path("cache/knee/bisect");
    fs::create_dir_all(&builds).unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        let status = command.args(["-t", "tmpfs", "-o", options, "none"]).arg(&builds).status();
        assert!(status.expect("starting mount").success(), "mounting with {options}");
    };
    mount("size=80m,mode=700");
    let mut command = bisect(&project, "--no-confirm");
    let ended = project.home.start(&mut command).end_within(Duration::from_secs(300));
    check_status(&ended, 2);
    assert!(
        ended.stderr.contains("MB left: make room, then go on with --resume"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("is skipped"), "{}", ended.stderr);
    mount("remount,size=400m");
    let mut command = project.home.knee("bisect --resume --no-confirm");
    let ended = project.home.start(&mut command).end_within(Duration::from_secs(300));
    let unmounted = Command::new("umount").arg(&builds).status();
    assert!(unmounted.expect("starting umount").success());
    check_status(&ended, 0);
    assert!(ended.stdout.starts_with(project.short(14)), "{}", ended.stdout);
}

#[test]
fn a_series_says_what_each_patch_does() {
    // An equal build, a rise, a commit that cannot be built.
    let project = Project::new(5, |commit| {
        let level = if commit >= 2 { 120 } else { 100 };
        let build = if commit == 3 { "false" } else { "cp level made" };
        vec![
            ("bench.sh".to_string(), BENCH.to_string()),
            ("level".to_string(), level.to_string()),
            ("build.sh".to_string(), build.to_string()),
            ("number".to_string(), commit.to_string()),
        ]
    });
    let range = format!("{}..{}", project.ids[0], project.ids[4]);
    let series = |more: &str| {
        let mut command =
            project.home.knee(&format!("bisect series {range} --git project --cpus 1 {more}"));
        command.args(["--product", "made", "--build", "sh build.sh"]);
        command.args(["--value", "cost: {}", "--command", "sh bench.sh"]);
        project.home.start(&mut command).end_within(Duration::from_secs(300))
    };
    let ended = series("--blocks 12 --json");
    check_status(&ended, 1);
    let value: serde_json::Value = serde_json::from_str(&ended.stdout).expect(&ended.stdout);
    let patches = &value["patches"];
    assert_eq!(patches[0]["equal_build"], true, "{patches:#}");
    assert_eq!(patches[1]["own"]["is"], "changed", "{patches:#}");
    let change = patches[1]["own"]["change"].as_f64().unwrap();
    assert!((0.15..0.25).contains(&change), "{patches:#}");
    let why = patches[2]["not_measured"].as_str().unwrap();
    assert!(why.contains("its build ended with"), "{why}");
    assert_eq!(patches[3]["equal_build"], true, "{patches:#}");
    let table = series("--blocks 4").stdout;
    assert!(table.contains("equal build") && table.contains("not measured"), "{table}");
    let mail = series("--blocks 4 --resume --view mail").stdout;
    assert!(mail.starts_with("Series:") && mail.contains("equal build"), "{mail}");
    let refused = project.home.run("bisect series main --git project --command true");
    check_status(&refused, 2);
    assert!(refused.stderr.contains("'main' must be BASE..TIP"), "{}", refused.stderr);
}

#[test]
fn a_screening_finds_the_option_that_matters() {
    let home = Home::new();
    fs::write(
        home.path("measured/bench.sh"),
        "noise=$(od -An -N2 -tu2 /dev/urandom)\n\
         echo \"cost: $(( ($1 == 2 ? 120000 : 100000) + noise % 3000 ))\"\n",
    )
    .unwrap();
    let options = "--option a=1,2 --option b=x,y --option c=on,off";
    let mut command =
        home.knee(&format!("bisect screen {options} --cpus 1 --dir measured --json --value"));
    let script = format!("sh {} {{a}} {{b}} {{c}}", home.path("measured/bench.sh").display());
    command.args(["cost: {}", "--command", &script]);
    let ended = home.start(&mut command).end_within(Duration::from_secs(300));
    check_status(&ended, 0);
    // The runs come first, a line each.
    let last = ended.stdout.lines().last().expect("an answer");
    let value: serde_json::Value = serde_json::from_str(last).expect(last);
    let cell = &value["cells"][0];
    let sizes: Vec<f64> =
        cell["effects"].as_array().unwrap().iter().map(|e| e["size"].as_f64().unwrap()).collect();
    assert!((0.1..0.3).contains(&sizes[0]), "{value:#}");
    assert!(sizes[1].abs() < 0.05 && sizes[2].abs() < 0.05, "{value:#}");
    let mut command =
        home.knee(&format!("bisect screen {options} --cpus 1 --dir measured --view mail --value"));
    command.args(["cost: {}", "--command", &script]);
    let mail = home.start(&mut command).end_within(Duration::from_secs(300)).stdout;
    assert!(mail.starts_with("Screening: ") && mail.contains("has an effect"), "{mail}");
    let check = |arguments: &str, why: &str| {
        let ended = home.run(&format!("bisect screen {arguments}"));
        check_status(&ended, 2);
        assert!(ended.stderr.contains(why), "{arguments}: {}", ended.stderr);
    };
    check("--option a=1 --command true", "two values");
    check("--option a=1,1 --command true", "two different values");
    check(
        "posix01 --option as=processes,threads --value x{}",
        "--value reads the output of a command",
    );
}
