//! What a run says of the host once all is put back: nothing where all is as before, and each
//! thing that it had to leave.

use std::fs::{self, File};
use std::path::PathBuf;

use records::HostChange;

use crate::file_systems::{check_nothing_is_left, kinds};
use crate::home::{Ended, Home, entries};
use crate::process::wait_for;
use crate::skip::{is_root, skip};

/// What the last session of the one record says changed.
fn changes(home: &Home) -> Vec<HostChange> {
    let record = home.record().record;
    let last = record.sessions.last().expect("a record has a session");
    last.host_changes.clone().expect("a session that ended has looked at the host")
}

#[track_caller]
fn check_as_before(arguments: &str) {
    let home = Home::new();
    let ended = home.run(&format!("run {arguments} --cpus 1 --blocks 1 --seconds 0.02"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(changes(&home), []);
    for said in [&ended.stdout, &ended.stderr] {
        assert!(!said.contains("left behind") && !said.contains("meanwhile, not by"), "{said}");
    }
}

#[test]
fn a_run_that_puts_everything_back_says_nothing_of_it() {
    check_as_before("create_files");
    if is_root() && PathBuf::from("/proc/sys/vm/stat_interval").exists() {
        check_as_before("getppid --variant a= --variant b=sysctl.vm.stat_interval=7");
    }
    for (kind, size) in kinds("the host after file systems").into_iter().take(2) {
        check_as_before(&format!("create_files --fs {kind},tmpfs --size {size}"));
    }
}

/// The run says what it leaves, in its record and on standard error.
#[track_caller]
fn check_left(home: &Home, ended: &Ended, parts: &[&str]) {
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    let changes = changes(home);
    assert!(changes.iter().all(|change| change.by_knee && !change.advice.is_empty()));
    for part in parts {
        let told = changes.iter().any(|change| change.text.contains(part));
        assert!(told, "no '{part}' in {changes:?}");
        let said = |line: &&str| line.starts_with("left behind: ") && line.contains(part);
        assert!(ended.stderr.lines().any(|line| said(&line)), "{part}: {}", ended.stderr);
    }
    let shown = home.run(&format!("show {}", home.record().record.id));
    assert!(shown.stdout.contains("left behind: "), "{}", shown.stdout);
}

#[test]
fn a_mount_that_is_busy_at_the_end_is_told() {
    if !is_root() {
        return skip("a busy mount", "only root may mount");
    }
    let home = Home::new();
    let script = home.path("script");
    fs::write(
        &script,
        "mkdir \"$1/m\" && mount -t tmpfs theirs \"$1/m\" && echo x > \"$1/m/file\"\n\
         while [ ! -e \"$1/go\" ]; do sleep 0.02; done\n",
    )
    .unwrap();
    let mut command = home.knee("run --cpus 1 --blocks 1 --json");
    command.args(["--command", &format!("sh {} {{scratch}}", script.display())]);
    let running = home.start(&mut command);
    let scratch = || {
        let directory = home.scratch().pop()?;
        let run = entries(&directory).pop()?;
        run.join("m/file").exists().then_some(run)
    };
    let scratch = wait_for("the command to mount", scratch);
    let held = File::open(scratch.join("m/file")).unwrap();
    fs::write(scratch.join("go"), "").unwrap();
    let ended = running.end();
    check_left(&home, &ended, &["is mounted on", "the directory", "the journal"]);
    drop(held);
    let cleaned = home.run("doctor --clean");
    assert!(cleaned.stdout.contains("removed"), "{}", cleaned.stdout);
    check_nothing_is_left(&home);
}

#[test]
fn a_file_system_of_a_run_that_is_busy_is_told() {
    if kinds("a busy file system").iter().all(|(kind, _)| *kind != "ext4") {
        return;
    }
    let home = Home::new();
    let command =
        "run create_files --cpus 1 --tasks 2 --seconds 0.5 --blocks 1 --fs ext4 --size 128M";
    // Two points: of a record without a run nothing would be kept.
    let mut running = home.start(&mut home.knee(&format!("{command} --set size_bytes=0,1 --json")));
    running.wait_for_runs(1);
    assert!(!running.has_ended(), "{}", home.said("stderr"));
    running.wait_for_tasks(2, 1);
    // Its mounts are seen by it alone, but it can be looked through.
    let directory = home.scratch().pop().unwrap();
    let seen = PathBuf::from(format!("/proc/{}/root", running.id()))
        .join(directory.strip_prefix("/").unwrap().join("mounted-0"));
    let held = File::open(&seen).unwrap();
    let ended = running.end();
    check_left(
        &home,
        &ended,
        &["is mounted on", "the loop device", "the directory", "the journal"],
    );
    drop(held);
    wait_for("the mount namespace to be gone", || {
        let cleaned = home.run("doctor --clean");
        (!cleaned.stdout.contains("stays")).then_some(())
    });
    check_nothing_is_left(&home);
}

#[test]
fn a_setting_that_somebody_else_changed_is_not_blamed_on_knee() {
    let path = PathBuf::from("/proc/sys/vm/dirtytime_expire_seconds");
    if !is_root() || !path.exists() {
        return skip("a setting that others change", "only root may change one");
    }
    let before = fs::read_to_string(&path).unwrap();
    let home = Home::new();
    let setting = "sysctl.vm.dirtytime_expire_seconds";
    // A variant gives it 43201; the command changes it in a run of the other one.
    let mut command = home.knee("run --cpus 1 --blocks 1 --json");
    command.args(["--command", &format!("sh -c 'echo 43202 > {}'", path.display())]);
    command.args(["--variant", "a="]);
    command.args(["--variant", &format!("b={setting}=43201")]);
    let ended = home.start(&mut command).end();
    let after = fs::read_to_string(&path).unwrap();
    fs::write(&path, &before).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let changes = changes(&home);
    if after == before {
        assert_eq!(changes, [])
    } else {
        assert!(matches!(&changes[..], [one] if !one.by_knee), "{changes:?}")
    }
}
