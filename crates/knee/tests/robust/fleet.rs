//! A fleet: chunks measured by several processes, one of which is killed, give the runs that one
//! `knee run` gives.

use records::{Opened, Run};

use crate::home::Home;
use crate::process::wait_for;

const EXPERIMENT: &str = "getppid --cpus 1 --seconds 0.01 --variant p=as=processes --variant t=as=threads \
                          --blocks 8 --seed 7";

/// What is the same in both records: which runs there are, in which order.
fn runs(record: &Opened) -> Vec<(u32, u32, bool)> {
    record.runs.iter().map(|run: &Run| (run.block, run.point, run.placebo)).collect()
}

#[test]
fn chunks_give_the_runs_of_one_execution_though_a_process_is_killed() {
    let home = Home::new();
    let planned = home.run(&format!("fleet plan {EXPERIMENT} fleet --chunk 2s --lease 600s"));
    assert!(planned.status.success(), "{}", planned.stderr);
    let mut killed = home.knee("chunk fleet").spawn().expect("starting knee");
    let begun = home.path("fleet/beats/0000.1");
    wait_for("a run", || std::fs::read_to_string(&begun).ok().filter(|runs| runs != "0"));
    killed.kill().expect("killing knee");
    killed.wait().expect("waiting for knee");
    // Its process is seen to be gone: nobody waits for the lease.
    let mut second = home.knee("chunk fleet").spawn().expect("starting knee");
    let first = home.run("chunk fleet");
    assert!(first.status.success(), "{}", first.stderr);
    assert!(second.wait().expect("waiting for knee").success());
    assert!(home.run("chunk fleet 0").status.success(), "done already");
    let status = home.run("fleet status fleet").stdout;
    assert!(status.contains("0 claimed, 0 free"), "{status}");
    let collected = home.run("fleet collect fleet --label joined");
    assert!(collected.status.success(), "{}", collected.stderr);
    let joined = home.record();
    let sessions = &joined.record.sessions;
    assert!(sessions.iter().all(|session| session.node.is_some()));
    let alone = Home::new();
    alone.run(&format!("run {EXPERIMENT}"));
    let wanted: Vec<_> = runs(&alone.record()).into_iter().filter(|run| run.0 < 8).collect();
    assert_eq!(runs(&joined), wanted);
    let compared = home.run("compare joined");
    assert!(compared.status.success(), "{}", compared.stderr);
    home.wait_for_quiet();
}

#[test]
fn hosts_that_do_not_fit_and_plans_that_cannot_be_cut_are_refused_with_advice() {
    let home = Home::new();
    let refused = |arguments: &str, advice: &str| {
        let ended = home.run(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments}");
        assert!(ended.stderr.contains(advice), "{arguments}: {}", ended.stderr);
    };
    refused("chunk nowhere", "knee fleet plan");
    refused("fleet plan getppid", "no directory");
    refused("fleet plan getppid --cpus all fleet", "name counts");
    refused("fleet plan getppid --cpus adaptive fleet", "name --cpus");
    assert!(home.run("fleet plan getppid --cpus 1 --blocks 2 fleet").status.success());
    refused("fleet plan getppid --cpus 1 fleet", "never changes");
    refused("chunk fleet 99", "0 to");
    refused("fleet collect fleet", "--partial");
    let plan = home.path("fleet/plan.json");
    let text = std::fs::read_to_string(&plan).expect("reading the plan");
    let version = format!("\"knee\": \"{}\"", env!("CARGO_PKG_VERSION"));
    for (from, to, advice) in [
        (version.as_str(), "\"knee\": \"99.0\"", "install that one"),
        ("\"architecture\": \"", "\"architecture\": \"not-", "plan those hosts"),
        ("\"kernel\": \"", "\"kernel\": \"99.", "is older than"),
        ("\"format\": 1", "\"format\": 9", "use the knee that planned it"),
    ] {
        std::fs::write(&plan, text.replacen(from, to, 1)).expect("changing the plan");
        refused("chunk fleet", advice);
    }
}

#[test]
fn a_host_without_the_directory_of_a_command_is_refused() {
    let home = Home::new();
    let planned = home.run("fleet plan --command true --cpus 1 --blocks 2 fleet");
    assert!(planned.status.success(), "{}", planned.stderr);
    let plan = home.path("fleet/plan.json");
    let text = std::fs::read_to_string(&plan).expect("reading the plan");
    let here = format!("\"directory\": \"{}\"", home.path("").display());
    let here = here.replace("/\"", "\"");
    assert!(text.contains(&here), "{here} in {text}");
    std::fs::write(&plan, text.replace(&here, "\"directory\": \"/no/such\"")).expect("changing it");
    let ended = home.run("chunk fleet");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no directory /no/such"), "{}", ended.stderr);
}
