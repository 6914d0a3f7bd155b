//! Sweeps as chunks: what hosts computed together prints, byte for byte, what one host prints.

use std::fs;

use crate::home::Home;
use crate::process::wait_for;

/// A simulation of a lock and a mechanism, in pieces that take little time.
pub const SIMULATION: &str =
    "simulate ticket,mcs,file_locks:after --cpus 1-4 --draws 1 --length 50us --baseline mcs";

#[test]
fn chunks_of_every_verb_print_what_the_verb_prints() {
    let home = Home::new();
    for (number, line) in [
        SIMULATION,
        "simulate mcs --cpus 1,2 --draws 0 --length 50us --json",
        "replay I1 cna-lock2 --draws 1",
        "replay I4 --draws 0 --json",
        "selfcheck --trials 20 --json",
        "selfcheck --scale --only cliffs,fragile --trials 2",
        "selfcheck --scale --only knees --trials 1 --json",
    ]
    .iter()
    .enumerate()
    {
        let here = home.run(line);
        let planned = home.run(&format!("fleet sweep {number} {line}"));
        assert!(planned.status.success(), "{line}: {}", planned.stderr);
        let early = home.run(&format!("fleet collect {number}"));
        assert_eq!(early.status.code(), Some(2), "{line}");
        assert!(early.stderr.contains("are not done"), "{line}: {}", early.stderr);
        let mut other = home.knee(&format!("chunk {number}")).spawn().expect("starting knee");
        assert!(home.run(&format!("chunk {number}")).status.success());
        assert!(other.wait().expect("waiting for knee").success());
        let collected = home.run(&format!("fleet collect {number}"));
        assert_eq!(collected.stdout, here.stdout, "{line}");
        assert_eq!(collected.status.code(), here.status.code(), "{line}: {}", collected.stderr);
    }
    home.wait_for_quiet();
}

#[test]
fn pieces_of_a_process_that_was_killed_are_kept() {
    let home = Home::new();
    // One chunk of pieces, of which the first are done long before the last.
    let line = "simulate ticket --cpus 1-64 --draws 0 --length 1ms";
    assert!(home.run(&format!("fleet sweep --lease 1h fleet {line}")).status.success());
    // All pieces as one chunk.
    let plan = home.path("fleet/plan.json");
    let mut text: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&plan).expect("reading a plan")).expect("JSON");
    text["chunks"] = serde_json::json!([{"first_block": 0, "blocks": 64, "estimated_s": 0.0}]);
    fs::write(&plan, text.to_string()).expect("changing the plan");
    let pieces = home.path("fleet/records/0000.1/pieces");
    let mut killed = home.knee("chunk fleet").spawn().expect("starting knee");
    wait_for("some pieces", || (fs::read_dir(&pieces).ok()?.count() > 2).then_some(()));
    killed.kill().expect("killing knee");
    killed.wait().expect("waiting for knee");
    let kept = fs::read_dir(&pieces).expect("listing pieces").flatten();
    let kept = kept.filter(|piece| !piece.file_name().to_string_lossy().starts_with('.')).count();
    assert!(kept < 64, "it was killed too late to tell");
    let ended = home.run("chunk fleet");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("{kept} kept")), "{kept}: {}", ended.stderr);
    assert_eq!(home.run("fleet collect fleet").stdout, home.run(line).stdout);
    assert!(home.run("fleet status fleet").stdout.contains("1 of 1 chunk done"));
}

#[test]
fn what_other_hosts_cannot_compute_is_refused_before_anything_is_made() {
    let home = Home::new();
    let refused = |arguments: &str, advice: &str| {
        let ended = home.run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments}");
        assert!(ended.stderr.contains(advice), "{arguments}: {}", ended.stderr);
    };
    refused("fleet sweep d run getppid", "those are simulate, replay and selfcheck");
    refused("fleet sweep d selfcheck --host", "--host compares operations of this host");
    refused("fleet sweep d simulate ticket --cpus 1 --trace 3", "--trace is for this host");
    refused("simulate ticket --cpus 1 --trace 3 --on ssh:a", "--trace is for this host");
    refused("simulate ticket --on nowhere", "must be ssh:HOST");
    refused("simulate ticket --wait", "name them with --on slurm");
    refused("replay --on ssh:a", "name incidents");
    fs::write(home.path("evil.c"), "int evil;").expect("writing a file");
    refused("fleet sweep d simulate evil.c --cpus 1", "is a file of this host");
    assert!(!home.path("d").exists());
    // Nor does a plan that a stranger changed.
    assert!(home.run("fleet sweep d simulate ticket --cpus 1").status.success());
    let plan = home.path("d/plan.json");
    let text = fs::read_to_string(&plan).expect("reading a plan");
    fs::write(&plan, text.replace("\"ticket\"", "\"evil.c\"")).expect("changing a plan");
    refused("chunk d", "is a file of this host");
    let host = include_str!("../../../../hosts/generic-2s.toml");
    fs::write(home.path("mine.toml"), host).expect("writing a host");
    refused("fleet sweep e simulate ticket --host mine.toml --cpus 1", "is a file of this host");
}
