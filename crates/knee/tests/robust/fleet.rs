//! A fleet: chunks measured by several processes, one of which is killed, give the runs that one
//! `knee run` gives.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use records::{Opened, Run};

use crate::home::{Home, entries};
use crate::process::wait_for;
use crate::skip::{is_root, skip};

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
    let mut killed = home.knee("fleet chunk fleet").spawn().expect("starting knee");
    let begun = home.path("fleet/beats/0000.1");
    wait_for("a run", || std::fs::read_to_string(&begun).ok().filter(|runs| runs != "0"));
    killed.kill().expect("killing knee");
    killed.wait().expect("waiting for knee");
    // Its process is seen to be gone: nobody waits for the lease.
    let mut second = home.knee("fleet chunk fleet").spawn().expect("starting knee");
    let first = home.run("fleet chunk fleet");
    assert!(first.status.success(), "{}", first.stderr);
    assert!(second.wait().expect("waiting for knee").success());
    assert!(home.run("fleet chunk fleet 0").status.success(), "done already");
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
    let planned: Vec<_> = runs(&joined).into_iter().filter(|run| run.0 < 8).collect();
    assert_eq!(planned, wanted);
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
    refused("fleet chunk nowhere", "knee fleet plan");
    refused("fleet plan getppid", "no directory");
    refused("fleet plan getppid --cpus all fleet", "name counts");
    refused("fleet plan getppid --cpus adaptive fleet", "name --cpus");
    refused("fleet plan getppid --cpus 1 --equal-runs fleet", "--variant");
    assert!(home.run("fleet plan getppid --cpus 1 --blocks 2 fleet").status.success());
    refused("fleet plan getppid --cpus 1 fleet", "never changes");
    refused("fleet chunk fleet 99", "0 to");
    refused("fleet collect fleet", "--partial");
    let plan = home.path("fleet/plan.json");
    let text = std::fs::read_to_string(&plan).expect("reading the plan");
    let version = format!("\"knee\": \"{}\"", env!("CARGO_PKG_VERSION"));
    for (from, to, advice) in [
        (version.as_str(), "\"knee\": \"99.0\"", "install that one"),
        ("\"architecture\": \"", "\"architecture\": \"not-", "plan those hosts"),
        ("\"kernel\": \"", "\"kernel\": \"99.", "is older than"),
        ("\"format\": 3", "\"format\": 9", "use the knee that planned it"),
    ] {
        std::fs::write(&plan, text.replacen(from, to, 1)).expect("changing the plan");
        refused("fleet chunk fleet", advice);
    }
}

/// Plans that have every flag of the help between them.
const PLANS: &[&str] = &[
    "getppid --cpus 1 --tasks 2 --dir /tmp --seconds 0.1 --up-down --warmup 1 --latency --explain --seed 3 \
     --stop-grace 3 --yes --chunk 5s --lease 1m --blocks 4",
    "getppid --cpus 1 --variant a=as=processes --variant b=as=threads --equal-runs --smallest-effect 5% --metric cpu_s",
    "--command true --cpus 1 --value {} --better higher",
    "--command true --cpus 1 --prepare true --shell --ignore-failure --operations 3 --timeout 5",
    "--command {n} --axis n=true,echo --operations-from ops:{} --cpus 1",
    "lock_mcs --dose inside=0,100ns,200ns --cpus 1 --tasks-per-cpu 1 --as threads --placement compact",
    "lock_mcs --set hold_ns=5 --cpus 1",
    "create_files --cpus 1 --fs ext4 --on loop --size 1G --policy aged --age filled=50%,rounds=1",
    "getppid --cpus 1 --kernel a=/bin/true --kernel b=/bin/true --cmdline a=quiet --runs-per-boot 2 --modules /tmp \
     --sockets 1 --cores 1 --threads 1 --numa-distance 10,20 --host-cpus 0 --guest-memory 512M --guest-cpu max \
     --accelerator tcg --patience 9 --git . --config /dev/null --config-from /dev/null --with typical --without types \
     --compiler gcc --jobs 2 --scratch /tmp",
];

#[test]
fn every_flag_in_the_help_of_plans_is_accepted() {
    let home = Home::new();
    let help = home.run("fleet plan --help").stdout;
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let flags: Vec<&str> = flags.map(|flag| flag.split([' ', '=']).next().unwrap()).collect();
    assert!(flags.len() > 40, "{flags:?}");
    let of_all = ["records", "width", "color", "quiet", "no-pager", "help"];
    for flag in flags.into_iter().filter(|flag| !of_all.contains(flag)) {
        let has = |plan: &&&str| plan.split(' ').any(|word| word == format!("--{flag}"));
        assert!(PLANS.iter().any(|plan| has(&plan)), "--{flag} stands in no plan");
    }
    for (number, plan) in PLANS.iter().enumerate() {
        let ended = home.run(&format!("fleet plan {plan} fleet-{number}"));
        assert!(ended.status.success(), "{plan}: {}", ended.stderr);
    }
}

#[test]
fn hosts_that_measure_other_cpus_have_records_that_say_so() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        return skip("records of several kinds of host", "needs two CPUs");
    }
    let home = Home::new();
    let planned = home.run(&format!("fleet plan {EXPERIMENT} fleet --chunk 2s"));
    assert!(planned.status.success(), "{}", planned.stderr);
    for (chunk, cpu) in [("0", "0"), ("", "1")] {
        let mut command = Command::new("taskset");
        let knee = home.knee("").get_program().to_owned();
        command.args(["-c", cpu]).arg(knee).args(["fleet", "chunk", "fleet"]);
        command.args((!chunk.is_empty()).then_some(chunk));
        home.move_in(&mut command);
        let ended = home.start(&mut command).end();
        assert!(ended.status.success(), "{}", ended.stderr);
    }
    let collected = home.run("fleet collect fleet");
    assert!(
        collected.stderr.contains("the CPUs measured (here 1, elsewhere 0)"),
        "{}",
        collected.stderr
    );
    let mut blocks = 0;
    for record in home.records() {
        blocks += record.record.blocks_planned();
        let warnings = &record.record.warnings;
        assert!(
            warnings.iter().any(|one| one.text.contains("of 8 blocks are here")),
            "{warnings:?}"
        );
        let shown = home.run(&format!("show {}", record.record.id)).stdout;
        let runs = format!("{} runs", record.runs.len());
        assert!(shown.contains(&format!("whole: {runs}")), "{shown}");
        let listed = home.run("list").stdout;
        // A record that misses some is listed as "3 of 6 runs".
        assert!(listed.contains(&format!("getppid  {runs}")), "{listed}");
    }
    assert_eq!(blocks, 8);
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
    let ended = home.run("fleet chunk fleet");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("no directory /no/such"), "{}", ended.stderr);
}

/// Waits until a chunk has shown so many runs, or more.
fn wait_for_beat(home: &Home, claim: &str, runs: u64) {
    let beat = home.path(&format!("fleet/beats/{claim}"));
    let shown = || fs::read_to_string(&beat).ok()?.parse::<u64>().ok();
    wait_for("runs of a chunk", || shown().filter(|shown| *shown >= runs));
}

#[test]
fn a_full_store_frees_the_chunk_and_keeps_its_whole_blocks() {
    if !is_root() {
        return skip("a full store of a fleet", "only root may mount one");
    }
    let home = Home::new();
    fs::create_dir(home.path("fleet")).expect("making a directory");
    let mount = |arguments: &[&str]| {
        let status =
            Command::new(arguments[0]).args(&arguments[1..]).arg(home.path("fleet")).status();
        assert!(status.expect("starting a program").success(), "{arguments:?}");
    };
    mount(&["mount", "-t", "tmpfs", "-o", "size=8m", "none"]);
    assert!(home.run(&format!("fleet plan {EXPERIMENT} fleet --chunk 10m")).status.success());
    let refused = home.run("fleet chunk fleet");
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("MiB free"), "{}", refused.stderr);
    let status = home.run("fleet status fleet").stdout;
    assert!(status.contains("cannot measure") && status.contains("1 free"), "{status}");
    mount(&["mount", "-t", "tmpfs", "-o", "remount,size=64m", "none"]);
    assert!(home.run("fleet chunk fleet --check").status.success());
    assert!(!home.run("fleet status fleet").stdout.contains("cannot measure"));
    let measuring = home.start(&mut home.knee("fleet chunk fleet"));
    wait_for_beat(&home, "0000.1", 4);
    let filler = home.path("fleet/filler");
    // Ends where nothing is left.
    assert!(fs::write(&filler, vec![0; 64 << 20]).is_err());
    let ended = measuring.end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("No space left"), "{}", ended.stderr);
    fs::remove_file(&filler).expect("removing a file");
    let ended = home.run("fleet chunk fleet");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(home.path("fleet/claims/0000.2").exists());
    assert!(home.run("fleet collect fleet").status.success());
    let mut found = runs(&home.record());
    found.sort();
    let number = found.len();
    found.dedup();
    assert!(number >= 16 && number == found.len(), "a run counts once: {found:?}");
    mount(&["umount"]);
}

#[test]
fn a_signal_keeps_whole_blocks_and_frees_the_chunk() {
    let home = Home::new();
    let experiment = EXPERIMENT.replace("--seconds 0.01", "--seconds 0.05");
    let planned = home.run(&format!("fleet plan {experiment} fleet --chunk 10m --lease 600s"));
    assert!(planned.status.success(), "{}", planned.stderr);
    let measuring = home.start(&mut home.knee("fleet chunk fleet"));
    wait_for_beat(&home, "0000.1", 4);
    measuring.signal(libc::SIGTERM);
    let ended = measuring.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    let status = home.run("fleet status fleet --json").stdout;
    assert!(status.contains("\"free\": 1"), "{status}");
    let ended = home.run("fleet chunk fleet");
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stderr.contains("kept"), "{}", ended.stderr);
    home.wait_for_quiet();
}

/// The samples of the last chunk that was measured.
fn samples_of_last_chunk(home: &Home) -> PathBuf {
    let folder = |path: PathBuf| entries(&path).into_iter().find(|entry| entry.is_dir());
    let mut part = entries(&home.path("fleet/records")).into_iter().max().expect("a claim");
    while !part.join("samples.parquet").exists() {
        part = folder(part).expect("a record");
    }
    part.join("samples.parquet")
}

#[test]
fn collecting_that_fails_or_is_interrupted_leaves_nothing_half_done() {
    let home = Home::new();
    assert!(home.run(&format!("fleet plan {EXPERIMENT} fleet --chunk 2s")).status.success());
    assert!(home.run("fleet chunk fleet").status.success());
    let samples = samples_of_last_chunk(&home);
    let whole = fs::read(&samples).expect("reading samples");
    fs::write(&samples, b"damaged").expect("damaging samples");
    let failed = home.run("fleet collect fleet");
    assert_eq!(failed.status.code(), Some(2), "{}", failed.stderr);
    assert!(home.growing().is_empty() && home.records().is_empty());
    fs::write(&samples, whole).expect("mending samples");
    let collecting = home.start(&mut home.knee("fleet collect fleet"));
    collecting.signal(libc::SIGTERM);
    collecting.end();
    // Whether the signal came before or after, there is a whole record or none.
    assert!(home.growing().is_empty());
    assert!(home.run("fleet collect fleet").status.success());
    assert!(home.records().iter().all(|record| record.record.warnings.is_empty()));
}
