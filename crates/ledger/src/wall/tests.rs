//! Answers about programs on two CPUs whose time by the clock is known.

use super::*;
use crate::{Explained, LedgerCheck, answer, gain_bound};

/// A program on two CPUs, all in ns.
#[derive(Clone, Copy, Default)]
struct Program {
    user: u64,
    /// How long any of its tasks ran.
    active: u64,
    sleep: u64,
    behind_others: u64,
    /// How long a task slept for this, or was kept from a CPU by it.
    kept: Option<(&'static str, u64)>,
}

/// Five profiled runs of it, a little noisy.
fn explained(program: Program) -> Explained {
    const NOISE: [u64; 5] = [1000, 1004, 996, 1002, 998];
    let each = |ns: u64| NOISE.map(|noise| ns * noise / 1000).to_vec();
    let exact = |name: &str, ns| LedgerRow::new(name, Obtained::Exact, each(ns));
    let wall_ns = program.active + program.sleep + program.behind_others;
    let work = LedgerRow::from_parts(WORK, Obtained::Exact, vec![exact("user code", program.user)]);
    let rest = (2 * wall_ns).saturating_sub(program.user);
    let idle = vec![exact(UNUSED[0], rest).belonging_to_time()];
    let idle = LedgerRow::from_parts(IDLE, Obtained::Exact, idle);
    let root = LedgerRow::from_parts("all", Obtained::Exact, vec![work, idle]);
    let unit = |(block, ns): (usize, &u64)| LedgerUnit {
        operations: 1,
        budget_ns: *ns,
        block: Some(block as u32),
    };
    let ledger = Ledger::of_runs(root.ns.iter().enumerate().map(unit).collect(), root);
    let gap = |name: &str, ns: u64| Share { name: name.to_string(), ns, times: 1 };
    let unit = |noise: u64| {
        let noisy = |ns: u64| ns * noise / 1000;
        WallUnit {
            wall_ns: noisy(wall_ns) + 100,
            active_ns: noisy(program.active),
            work_ns: [noisy(program.user), 0, 0],
            gaps: vec![
                gap("sleep (nanosleep)", noisy(program.sleep)),
                gap(OTHER_TASK, noisy(program.behind_others)),
            ],
            kept: program.kept.iter().map(|(name, ns)| gap(name, noisy(*ns))).collect(),
        }
    };
    let wall = WallTime {
        ns: wall_ns as f64,
        cpu_ns: Some(program.user as f64),
        cpus_in_use: program.user as f64 / program.active as f64,
        taken: 0.0,
        units: NOISE.map(unit).to_vec(),
    };
    Explained {
        point: 0,
        ledger: Some(ledger),
        coarse: false,
        counts: Default::default(),
        waits: Default::default(),
        wall: Some(wall),
        costs: Vec::new(),
        check: LedgerCheck::default(),
        unavailable_probes: Default::default(),
        failures: Default::default(),
        emulated: false,
        hot_instructions: Default::default(),
        parallel: false,
        run_lengths: None,
    }
}

/// The first cause and its size, and the change of the time that is the program's own.
#[track_caller]
fn check(before: Program, after: Program, first: &str, own_ns: f64, gain: f64) {
    let (before, after) = (explained(before), explained(after));
    let most =
        before.wall.as_ref().unwrap().cpus_in_use.max(after.wall.as_ref().unwrap().cpus_in_use);
    for side in [&before, &after] {
        let ledger = wall_ledger(side.ledger.as_ref().unwrap(), side.wall.as_ref().unwrap(), most);
        assert_eq!(ledger.unwrap().broken(), None);
    }
    let answer = answer(&before, &after, false).unwrap();
    let cause = answer.causes.first().expect("there is a cause");
    assert_eq!(cause.path.join(" > "), first);
    assert!((cause.own_ns / own_ns - 1.0).abs() < 0.02, "{} not {own_ns}", cause.own_ns);
    let sum: f64 = answer.causes.iter().map(|cause| cause.own_ns).sum();
    assert!((sum / answer.change.own_ns - 1.0).abs() < 0.02, "causes add up to {sum}");
    let most = gain_bound(&answer, cause).unwrap().at_most.unwrap_or(f64::INFINITY);
    assert!(most >= gain, "at most {most}, but it gains {gain}");
}

const MS: u64 = 1_000_000;

#[test]
fn an_unused_cpu_is_no_part_of_the_time() {
    // gzip -1 against gzip -9, on one of two CPUs.
    let gzip = |ms: u64| Program { user: ms * MS, active: ms * MS, ..Program::default() };
    check(gzip(94), gzip(230), "the workload > user code", 136e6, 136.0 / 94.0);
    // Seven times as fast without it.
    check(gzip(100), gzip(715), "the workload > user code", 615e6, 6.15);
}

#[test]
fn two_tasks_on_one_cpu_lose_parallelism_to_affinity() {
    let two = Program { user: 200 * MS, active: 100 * MS, ..Program::default() };
    let kept = Program { active: 200 * MS, kept: Some((AFFINITY, 200 * MS)), ..two };
    check(two, kept, "lost parallelism > affinity to other CPUs", 100e6, 1.0);
    let locked = Program { kept: Some(("futex", 190 * MS)), ..kept };
    check(two, locked, "lost parallelism > futex", 100e6, 1.0);
    let in_turn = Program { kept: None, ..kept };
    check(two, in_turn, "lost parallelism > fewer tasks at a time", 100e6, 1.0);
}

#[test]
fn a_sleep_of_the_whole_program_is_all_of_its_time() {
    let awake = Program { user: 50 * MS, active: 50 * MS, ..Program::default() };
    let asleep = Program { sleep: 30 * MS, ..awake };
    check(awake, asleep, "idle > sleep (nanosleep)", 30e6, 0.6);
}

#[test]
fn what_other_programs_take_is_no_cause_of_its_own_time() {
    let alone = Program { user: 50 * MS, active: 50 * MS, ..Program::default() };
    let beside = Program { behind_others: 40 * MS, ..alone };
    let answer = answer(&explained(alone), &explained(beside), false).unwrap();
    let of_workload = |cause: &crate::Cause| cause.path[0] != OTHERS;
    assert!(!answer.causes.iter().any(of_workload), "{:?}", answer.causes);
}
