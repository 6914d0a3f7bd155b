//! An experiment file from elsewhere is code, and so is a plan of a fleet: knee shows what it would run, and runs it only when asked
//! to. The user's own files and the experiments that come with knee run at once.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Ended, Home};

/// An experiment that leaves a mark where `{MARK}` stands.
const EXPERIMENT: &str = "blocks = 1\naxes = { cpus = 1 }\n[[load]]\n[load.command]\n\
    run = 'sleep 0.01'\nprepare = ['touch {MARK}']\nversion = 'sleep --version'\n";

/// Runs `knee` with arguments about an experiment in a folder that is not the user's; says also whether
/// the experiment did something.
fn with_strange_file(arguments: impl Fn(&str) -> String) -> (Ended, bool) {
    let (home, elsewhere) = (Home::new(), tempfile::tempdir().unwrap());
    let (file, mark) = (elsewhere.path().join("x.toml"), home.path("mark"));
    fs::write(&file, EXPERIMENT.replace("{MARK}", &mark.display().to_string())).unwrap();
    let ended = home.run(&arguments(&file.display().to_string()));
    (ended, mark.exists())
}

/// Whether a text names the programs of the experiment.
fn names_programs(text: &str) -> bool {
    let lines =
        ["version       sleep --version", "prepare       touch /", "command       sleep 0.01"];
    lines.iter().all(|line| text.contains(line))
}

#[test]
fn describe_and_plan_show_all_programs_and_run_none() {
    for arguments in ["show FILE", "run FILE --plan"] {
        let (ended, did_something) = with_strange_file(|file| arguments.replace("FILE", file));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        assert!(names_programs(&ended.stdout) && !did_something, "{}", ended.stdout);
    }
}

#[test]
fn a_strange_file_is_refused_without_a_terminal_and_without_yes() {
    for arguments in ["run FILE", "explain FILE", "run FILE --json"] {
        let (ended, did_something) = with_strange_file(|file| arguments.replace("FILE", file));
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stdout);
        assert!(names_programs(&ended.stderr) && !did_something, "{}", ended.stderr);
        for part in ["does not lie below a folder of yours", "no terminal to ask on", "add --yes"] {
            assert!(ended.stderr.contains(part), "{}", ended.stderr);
        }
    }
    let (ended, did_something) = with_strange_file(|file| format!("run {file} --yes"));
    assert!(ended.status.success() && did_something, "{}", ended.stderr);
}

#[test]
fn own_files_and_those_that_come_with_knee_are_run_at_once() {
    let home = Home::new();
    let (file, mark) = (home.path("x.toml"), home.path("mark"));
    fs::write(&file, EXPERIMENT.replace("{MARK}", &mark.display().to_string())).unwrap();
    let ended = home.run("run x.toml");
    assert!(ended.status.success() && mark.exists(), "{}", ended.stderr);
    let built_in = "run first-look --cpus 1 --blocks 1 --seconds 0.01";
    assert!(home.run(built_in).status.success());
    // What everybody may write to is nobody's own.
    fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let ended = home.run("run x.toml");
    assert!(ended.stderr.contains("x.toml can be written by every user"), "{}", ended.stderr);
}

#[test]
fn a_strange_plan_of_a_fleet_is_checked_at_once_and_measured_only_with_yes() {
    let (home, elsewhere) = (Home::new(), tempfile::tempdir().unwrap());
    let fleet = elsewhere.path().join("fleet").display().to_string();
    let line = "fleet plan getppid --cpus 1 --seconds 0.01 --blocks 1";
    let planned = home.run(&format!("{line} {fleet}"));
    assert!(planned.stdout.contains("1 chunk of 1 block"), "{}{}", planned.stdout, planned.stderr);
    assert!(home.run(&format!("fleet chunk {fleet} --check")).status.success());
    let asked = home.run(&format!("fleet chunk {fleet}"));
    assert_eq!(asked.status.code(), Some(2), "{}", asked.stderr);
    assert!(asked.stderr.contains("add --yes"), "{}", asked.stderr);
    assert!(home.run(&format!("fleet chunk {fleet} --yes")).status.success());
}
