//! The user's defaults for flags of `knee run`: below the flags of the command line, above nothing else.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::home::{Ended, Home};

/// `knee` with these arguments in a home with these defaults.
fn with_defaults(toml: &str, arguments: &str) -> (Home, Ended) {
    let home = Home::new();
    fs::create_dir_all(home.path("config/knee")).unwrap();
    fs::write(home.path("config/knee/defaults.toml"), toml).unwrap();
    let ended = home.start(home.knee(arguments).env("XDG_CONFIG_HOME", home.path("config"))).end();
    (home, ended)
}

const DEFAULTS: &str =
    "blocks = 2\nseconds = 0.02\ncpus = 1\nas = ['processes', 'threads']\nlatency = false";

/// The numbers of runs of a workload, and the line about defaults.
#[track_caller]
fn check(arguments: &str, runs: usize, line: &str) {
    let (home, ended) = with_defaults(DEFAULTS, arguments);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(home.record().runs.len(), runs, "{}", ended.stderr);
    let said = ended.stderr.lines().find(|line| line.starts_with("defaults of"));
    let said = said.and_then(|line| line.split_once(": ")).map_or("", |(_, words)| words);
    assert_eq!(said, line);
    // The record says how to do it again elsewhere.
    let command = home.record().record.sessions[0].command.join(" ");
    assert!(command.ends_with(line), "{command}");
}

#[test]
fn defaults_apply_unless_the_command_line_gives_or_excludes_them() {
    let forms = "--as=processes --as=threads";
    check("run getppid", 4, &format!("{forms} --blocks=2 --cpus=1 --seconds=0.02"));
    check("run getppid --blocks 1 --as threads", 1, "--cpus=1 --seconds=0.02");
    check("run getppid --operations 10", 4, &format!("{forms} --blocks=2 --cpus=1"));
}

#[test]
fn experiments_say_themselves_what_they_measure() {
    let (home, ended) = with_defaults("blocks = 2", "run first-look --plan --json");
    assert!(ended.status.success() && !ended.stderr.contains("defaults of"), "{}", ended.stderr);
    drop(home);
}

#[test]
fn defaults_that_cannot_be_used_are_named_with_their_file() {
    let refused = |toml: &str, part: &str| {
        let (_, ended) = with_defaults(toml, "run getppid");
        assert_eq!(ended.status.code(), Some(2), "{toml}");
        assert!(ended.stderr.contains("defaults.toml"), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    };
    refused(
        "block = 2",
        "block is not a flag of `knee run` that can have a default; did you mean \"blocks\"?",
    );
    refused("yes = true", "yes is not a flag of `knee run` that can have a default");
    refused("i-own-this-device = true", "is not a flag of `knee run` that can have a default");
    refused("blocks = ", "TOML parse error");
    let (home, _) = with_defaults(DEFAULTS, "list");
    let file = home.path("config/knee/defaults.toml");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
    let mut command = home.knee("run getppid");
    let ended = home.start(command.env("XDG_CONFIG_HOME", home.path("config"))).end();
    assert!(ended.stderr.contains("it can be written by every user"), "{}", ended.stderr);
}
