//! Searches on made-up curves: blocks are a function of the record and of earlier runs, and the budget holds.

use std::path::Path;

use host::{Cpu, Topology};
use records::Experiment;

use super::*;
use crate::schedule::block;

/// The record of a search on a host with this number of CPUs.
fn record(toml: &str, cpus: u32) -> Record {
    let experiment =
        Experiment::read(&format!("{toml}\n[[load]]\nworkload = 'getppid'\n")).unwrap();
    let golden = "../store/tests/golden/v1/20261120-115530-7f3a9c";
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    let mut record = store::open(&golden).unwrap().record;
    let cpu = |cpu| Cpu { cpu, core: cpu, llc: cpu / 8 * 8, node: 0, package: 0 };
    record.topology = Topology { cpus: (0..cpus).map(cpu).collect() };
    let usable = crate::Usable {
        topology: record.topology.clone(),
        at_once: None,
        directory: |path| Ok(path.to_path_buf()),
        without_history: None,
    };
    record.points = crate::points(&experiment, &[], &usable).unwrap();
    record.variants.clear();
    record.sessions.truncate(1);
    record.experiment = experiment;
    record
}

/// A run of 1 s of a curve by Amdahl's law, two of which in a row differ by 2 %.
fn run(record: &Record, number: u32, block: u32, point: usize) -> Run {
    let cpus = f64::from(record.points[point].cpus);
    let rate =
        cpus / (1.0 + 0.3 * (cpus - 1.0)) * if block.is_multiple_of(2) { 1e6 } else { 1.02e6 };
    let line = format!(
        r#"{{"run":{number},"point":{point},"block":{block},"started":"{}","state":"finished","metrics":{{"operations_per_s":{rate}}},"counters":{{}}}}"#,
        jiff_time(number)
    );
    Run::read(&line).unwrap()
}

fn jiff_time(second: u32) -> String {
    format!("2026-11-24T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// All runs of a search, block by block.
fn searched(record: &Record) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for number in 0.. {
        let before: Vec<&Run> = runs.iter().collect();
        let planned = block(record, &before, number);
        if planned.is_empty() {
            return runs;
        }
        for assignment in planned {
            runs.push(run(record, runs.len() as u32, number, assignment.point));
        }
    }
    unreachable!("the blocks of a search end")
}

#[test]
fn a_search_begins_with_the_edges_and_ends_with_a_known_knee() {
    let record = record("seed = 3\n[adaptive]\nbudget_s = 1000", 48);
    assert_eq!(first_counts(&record), [1, 2, 4, 8, 16, 32, 48]);
    let runs = searched(&record);
    assert!(runs.len() < 150, "{} runs", runs.len());
    // The knee is 90 % of 1 / 0.3, at 21 CPUs.
    let at = |cpus: std::ops::RangeInclusive<u32>| {
        runs.iter().filter(|run| cpus.contains(&record.points[run.point as usize].cpus)).count()
    };
    assert!(at(1..=1) >= 2 && at(48..=48) >= 2 && runs.len() > 14, "{} runs", runs.len());
}

/// The block that an interrupted search was in continues, and later blocks are those of a search in one go.
#[test]
fn later_blocks_follow_from_earlier_runs_alone() {
    let record = record("seed = 3\n[adaptive]\nknee_within = 0.05", 12);
    let runs = searched(&record);
    assert!(runs.iter().any(|run| run.block == 2), "{} runs", runs.len());
    for number in 0..3 {
        let before: Vec<&Run> = runs.iter().filter(|run| run.block < number).collect();
        let mut again: Vec<usize> =
            block(&record, &before, number).iter().map(|a| a.point).collect();
        let mut then: Vec<usize> =
            runs.iter().filter(|run| run.block == number).map(|run| run.point as usize).collect();
        assert_eq!(again, then, "block {number}");
        again.sort_unstable();
        again.dedup();
        then.sort_unstable();
        assert_eq!(again, then, "block {number} has each point once");
    }
}

#[test]
fn a_budget_ends_a_search_and_a_new_session_takes_none_of_it() {
    let mut record = record("[adaptive]\nbudget_s = 20\nknee_within = 0.001", 48);
    let runs = searched(&record);
    // Runs of 1 s, of which the last of each block counts with what is around it.
    assert!((18..=20).contains(&runs.len()), "{} runs", runs.len());
    let two: Vec<&Run> = runs[..2].iter().collect();
    assert!((run_lengths_s(&record, &two)[&0] - 1.0).abs() < 1e-9);
    let mut second = record.sessions[0].clone();
    second.first_run = 1;
    record.sessions.push(second);
    assert!((run_lengths_s(&record, &two)[&0] - (1.0 + AROUND_S)).abs() < 1e-9);
    record.experiment.adaptive.as_mut().unwrap().budget_s = 10.0;
    let why = check_budget(&record).unwrap_err().to_string();
    assert!(
        why.starts_with("a budget of 10 s is too short: two runs at each of the first"),
        "{why}"
    );
}

#[test]
fn what_a_search_cannot_hold_is_refused() {
    let refused = |toml: &str| {
        let toml = format!("{toml}\n[[load]]\nworkload = 'getppid'\n");
        format!("{:#}", Experiment::read(&toml).unwrap_err())
    };
    for (toml, says) in [
        ("[axes]\ncpus = 4\n[adaptive]", "chooses the CPU counts itself"),
        ("[axes]\ntasks = 4\n[adaptive]", "one task a CPU"),
        ("latency = true\n[adaptive]", "rates alone"),
        ("[adaptive]\nbudget_s = 0", "budget_s is 0"),
        ("[adaptive]\nknee_within = 10", "knee_within is 10"),
        ("[compare]\nmetric = 'idle_percent'\n[adaptive]", "operations_per_s"),
        ("[adaptive]\n[[variant]]\nname='a'\n[[variant]]\nname='b'", "each curve by itself"),
    ] {
        let why = refused(toml);
        assert!(why.starts_with("in [adaptive]: ") && why.contains(says), "{why}");
    }
}
