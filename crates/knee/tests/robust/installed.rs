//! What `make install` puts beside the binary: completions of shells, and manual pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::home::{Home, entries};
use crate::skip::skip;

/// The verbs that `knee --help` shows, which leaves out the internal ones.
fn verbs(home: &Home) -> Vec<String> {
    let help = home.run("--help").stdout;
    let listed = help.lines().take_while(|line| !line.starts_with("Options"));
    // The description of a verb goes on in lines that are indented further.
    let names = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_string()).collect()
}

#[test]
fn completions_name_every_verb() {
    let home = Home::new();
    let verbs = verbs(&home);
    assert!(verbs.iter().any(|verb| verb == "run") && verbs.len() > 10, "{verbs:?}");
    for shell in ["bash", "zsh", "fish"] {
        let ended = home.run(&format!("completions {shell}"));
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        for verb in &verbs {
            assert!(ended.stdout.contains(verb), "{shell}: no '{verb}' in:\n{}", ended.stdout);
        }
    }
    let ended = home.run("completions csh");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("[possible values: bash"), "{}", ended.stderr);
}

#[test]
fn every_verb_has_a_manual_page() {
    let home = Home::new();
    let ended = home.run(&format!("man-pages {}", home.path("measured").display()));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for verb in verbs(&home) {
        if verb == "help" {
            continue;
        }
        let page = home.path("measured").join(format!("knee-{verb}.1"));
        let text = fs::read_to_string(&page).unwrap_or_else(|why| panic!("{verb}: {why}"));
        assert!(text.contains(".TH") && text.contains("SYNOPSIS"), "{text}");
    }
    assert!(home.path("measured").join("knee.1").exists());
    assert!(!home.path("measured").join("knee-worker.1").exists(), "it is internal");
    let ended = home.run("man-pages nowhere");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("nowhere"), "{}", ended.stderr);
}

#[test]
fn make_installs_the_binary_completions_and_manual_pages() {
    let home = Home::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut make = Command::new("make");
    make.arg("-C").arg(root).arg("install").arg("DESTDIR=").env_remove("MAKEFLAGS");
    make.arg(format!("KNEE={}", env!("CARGO_BIN_EXE_knee")));
    make.arg(format!("PREFIX={}", home.path("measured").display()));
    let Ok(made) = make.output() else { return skip("make install", "there is no make") };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    for file in [
        "bin/knee",
        "share/bash-completion/completions/knee",
        "share/zsh/site-functions/_knee",
        "share/fish/vendor_completions.d/knee.fish",
        "share/man/man1/knee.1",
        "share/man/man1/knee-run.1",
    ] {
        let found = fs::metadata(home.path("measured").join(file));
        assert!(found.is_ok_and(|found| found.len() > 0), "{file}");
    }
    assert!(entries(&home.path("measured")).len() == 2, "bin and share");
}
