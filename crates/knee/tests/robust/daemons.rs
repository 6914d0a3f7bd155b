//! Daemons of variants: each runs beside the runs of its variant alone, its time is told, and whatever becomes of knee,
//! none is left.

use std::fs;

use records::{Outcome, Run};

use crate::home::{Ended, Home, Running};
use crate::process::wait_for;

/// Starts an experiment of some variants.
fn start<'a>(home: &'a Home, variants: &str, seconds: f64) -> Running<'a> {
    let text = format!(
        "blocks = 2\n[axes]\ncpus = 1\nseconds = {seconds:?}\n[[load]]\nworkload = 'getppid'\n{variants}"
    );
    fs::write(home.path("x.toml"), text).unwrap();
    home.start(&mut home.knee("run x.toml --json"))
}

/// A variant with this daemon, a line for a shell, and more lines about it.
fn beside(home: &Home, shell: &str, more: &str) -> String {
    let shell = shell.replace("{home}", &home.path("").display().to_string());
    format!(
        "[[variant]]\nname = 'beside'\n[variant.daemon]\nrun = ['sh', '-c', '''{shell}''']\n{more}\n"
    )
}

/// Compares no daemon with this one.
fn run(home: &Home, shell: &str, more: &str, seconds: f64) -> Ended {
    let variants = format!("[[variant]]\nname = 'alone'\n{}", beside(home, shell, more));
    start(home, &variants, seconds).end()
}

/// The runs of a variant.
fn of_variant(home: &Home, variant: &str) -> Vec<Run> {
    let opened = home.record();
    let is_of = |run: &Run| opened.record.points[run.point as usize].variant == variant;
    opened.runs.iter().filter(|run| is_of(run)).cloned().collect()
}

#[test]
fn a_daemon_runs_beside_its_variant_alone_and_its_time_is_told() {
    let home = Home::new();
    let daemon = "echo up; trap 'echo >> {home}/ended; exit' TERM; while :; do :; done";
    let variants = format!(
        "[[variant]]\nname = 'alone'\n{}",
        beside(&home, daemon, "ready = { line = '^up$' }")
    );
    let ended = start(&home, &variants, 1.0).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let beside = of_variant(&home, "beside");
    let times = |run: &Run| ["daemon.cpu_s", "daemon.user_s"].map(|name| run.value(name).unwrap());
    let times: Vec<[f64; 2]> = beside.iter().map(times).collect();
    assert!(times.iter().all(|[cpu, user]| user <= cpu), "{times:?}");
    // Its CPU may be the run's own, and the host busy.
    assert!(times.iter().any(|[cpu, user]| *cpu > 0.05 && *user > 0.0), "{times:?}");
    for run in of_variant(&home, "alone") {
        assert!(run.finished() && run.value("daemon.cpu_s").is_none(), "{run:?}");
    }
    let ends = fs::read_to_string(home.path("ended")).unwrap();
    assert_eq!(ends.lines().count(), beside.len(), "each of its runs stops it by SIGTERM");
    let shown = home.run("compare");
    assert!(shown.stdout.contains("daemon sh -c"), "{}{}", shown.stdout, shown.stderr);
    home.check_nothing_is_left();
}

/// The runs beside the daemon failed for a reason with these parts; the others finished.
#[track_caller]
fn check_fails(shell: &str, more: &str, seconds: f64, parts: &[&str]) {
    let home = Home::new();
    let ended = run(&home, shell, more, seconds);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(of_variant(&home, "alone").iter().all(Run::finished));
    let runs = of_variant(&home, "beside");
    assert!(runs.len() >= 2, "a run of each block");
    for run in runs {
        let Outcome::Failed { reason } = &run.outcome else { panic!("it finished: {run:?}") };
        for part in parts {
            assert!(reason.contains(part), "no '{part}' in: {reason}");
        }
    }
    home.check_nothing_is_left();
}

#[test]
fn a_daemon_that_ends_early_or_is_never_ready_fails_its_runs_with_its_last_words() {
    check_fails(
        "sleep 0.7; echo no such device >&2; exit 3",
        "",
        // So long that a busy host, too, lets it end meanwhile.
        1.5,
        &["the daemon sh ended with status 3 while the run went on", "no such device"],
    );
    check_fails(
        "echo no root >&2; exit 1",
        "",
        0.1,
        &["the daemon sh ended with status 1 before it was ready", "no root"],
    );
    check_fails(
        "echo starting; sleep 600",
        "ready = { line = '^up$' }\nready_timeout_s = 2",
        0.1,
        &["was not ready after 2 s", "matches '^up$'", "starting"],
    );
}

/// Ends knee by this signal while a daemon runs, which has a child in another session.
#[track_caller]
fn check_ended(signal: i32) {
    let home = Home::new();
    let daemon =
        "trap 'echo > {home}/ended; exit' TERM; (setsid sleep 611 &); while :; do sleep 0.01; done";
    let running = start(&home, &beside(&home, daemon, ""), 600.0);
    // The task is the child of a worker, which is knee's.
    let task = || {
        home.processes()
            .iter()
            .any(|process| process.ticks > 20 && process.program.ends_with("knee"))
    };
    wait_for("a task at work", || task().then_some(()));
    running.signal(signal);
    running.end();
    home.wait_for_quiet();
    assert!(home.path("ended").exists(), "it was asked to end");
    assert_eq!(home.run("run getppid --cpus 1 --blocks 1 --seconds 0.01").status.code(), Some(0));
    home.check_nothing_is_left();
}

#[test]
fn however_knee_ends_no_daemon_is_left() {
    check_ended(libc::SIGINT);
    check_ended(libc::SIGTERM);
    check_ended(libc::SIGKILL);
}

#[test]
fn a_daemon_that_is_not_there_is_refused_before_anything_is_measured() {
    let home = Home::new();
    let ended = home.run("run getppid --variant a= --variant b=daemon=scx_nowhere");
    assert_eq!(ended.status.code(), Some(2));
    for part in ["the daemon of variant 'b'", "no program 'scx_nowhere' is in PATH"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert!(home.records().is_empty());
    home.check_nothing_is_left();
}
