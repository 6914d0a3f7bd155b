//! Answers about made-up points: which causes count, when there is none, and what is refused.

use records::{Obtained, ProfileKind};

use super::super::trust::{LedgerCheck, LookCost};
use super::super::{Ledger, LedgerRow, LedgerUnit};
use super::*;

/// A point with two rows, in ns per operation. Profiling made operations longer by these shares:
/// quartiles and, between them, the median.
fn point(user_ns: f64, call_ns: f64, cost: Option<(f64, f64)>) -> Explained {
    let units = [1.0, 1.004, 0.996, 1.002, 0.998];
    let row = |name: &str, ns: f64| {
        let ns = units.map(|noise| (1000.0 * ns * noise) as u64).to_vec();
        LedgerRow::new(name, Obtained::Exact, ns)
    };
    let rows = vec![row("user code", user_ns), row("system call read", call_ns)];
    let root = LedgerRow::from_parts("all", Obtained::Exact, rows);
    let unit = |(block, ns): (usize, &u64)| LedgerUnit {
        operations: 1000,
        budget_ns: *ns,
        block: Some(block as u32),
    };
    let units = root.ns.iter().enumerate().map(unit).collect();
    let cost = cost.map(|quartiles| LookCost {
        kind: ProfileKind::Time,
        pairs: 5,
        median: (quartiles.0 + quartiles.1) / 2.0,
        quartiles,
        above: if quartiles.0 > super::super::COST_MAX { 5 } else { 3 },
    });
    Explained {
        point: 0,
        ledger: Some(Ledger::of_runs(units, root)),
        coarse: false,
        counts: Default::default(),
        waits: Default::default(),
        wall: None,
        costs: cost.into_iter().collect(),
        check: LedgerCheck::default(),
        unavailable_probes: Default::default(),
        failures: Default::default(),
        emulated: false,
        hot_instructions: Default::default(),
        parallel: false,
        run_lengths: None,
    }
}

/// A point whose operations take 1 us, while other tasks use a second CPU, or keep its tasks from theirs for
/// some ns.
fn beside_others(others_ns: f64, waited_ns: f64) -> Explained {
    let point = point(1000.0, 0.0, None);
    let ledger = point.ledger.expect("it has one");
    let noise = [1.003, 0.998, 1.001, 0.995, 1.002];
    let ns = noise.map(|noise| (1000.0 * others_ns * noise) as u64).to_vec();
    let others = LedgerRow::new(OTHERS, Obtained::Exact, ns).belonging_to_time();
    let rows = ledger.root.rows.into_iter().chain([others]).collect();
    let root = LedgerRow::from_parts("all", Obtained::Exact, rows);
    let budgets = ledger.units.into_iter().zip(&root.ns);
    let units = budgets.map(|(unit, ns)| LedgerUnit { budget_ns: *ns, ..unit }).collect();
    let waits = [("behind other tasks".to_string(), waited_ns)];
    Explained { ledger: Some(Ledger::of_runs(units, root)), waits: waits.into(), ..point }
}

#[track_caller]
fn check(before: &Explained, after: &Explained, force: bool, causes: &[&str], refused: bool) {
    let answer = answer(before, after, force).expect("both have a ledger");
    let named: Vec<&str> = answer.causes.iter().map(|cause| cause.path[0].as_str()).collect();
    assert_eq!((named.as_slice(), answer.refused), (causes, refused));
}

#[test]
fn a_cause_well_beyond_the_disturbance_counts_however_much_profiling_cost() {
    let quiet = Some((0.01, 0.02));
    check(&point(100.0, 500.0, quiet), &point(200.0, 500.0, quiet), false, &["user code"], false);
    // 10 % on both sides cancels but for the longer operations: 27 ns at most, and the cause has 100.
    let costly = Some((0.09, 0.11));
    check(&point(100.0, 500.0, costly), &point(200.0, 500.0, costly), false, &["user code"], false);
    // 80 % on one side only: most of the difference may be profiling.
    let dear = Some((0.7, 0.9));
    check(&point(100.0, 500.0, quiet), &point(200.0, 500.0, dear), false, &[], true);
    check(&point(100.0, 500.0, quiet), &point(200.0, 500.0, dear), true, &["user code"], false);
}

#[test]
fn other_tasks_are_a_cause_only_as_far_as_runnable_tasks_waited_for_them() {
    let alone = beside_others(100.0, 5.0);
    check(&alone, &beside_others(2000.0, 1800.0), false, &["other tasks"], false);
    // They ran on a CPU that the workload did not want.
    check(&alone, &beside_others(2000.0, 10.0), false, &[], false);
}

#[test]
fn a_refusal_needs_evidence() {
    // The median is above 5 %, but so is half of it by chance.
    let unsure = Some((-0.05, 0.2));
    check(&point(100.0, 500.0, unsure), &point(200.0, 500.0, unsure), false, &["user code"], false);
    // No clean run tells what profiling cost: nothing is refused for it.
    check(&point(100.0, 500.0, None), &point(200.0, 500.0, None), false, &["user code"], false);
    check(&point(100.0, 500.0, unsure), &point(100.0, 500.0, unsure), false, &[], false);
}

#[test]
fn runs_as_long_as_each_other_to_a_hundredth_look_bound_by_time() {
    let lasting = |seconds: &[f64]| Explained {
        run_lengths: analysis::Spread::from_values(seconds),
        ..point(100.0, 500.0, None)
    };
    let bound = |a: &[f64], b: &[f64]| {
        answer(&lasting(a), &lasting(b), false).expect("both have a ledger").bound_by_time
    };
    assert!(bound(&[2.001, 2.003, 2.002], &[2.002, 2.001, 2.004]));
    assert!(bound(&[2.001, 2.303, 2.002], &[2.002, 2.001, 2.004]), "one was disturbed");
    assert!(!bound(&[2.001, 2.103, 2.102], &[2.002, 2.001, 2.004]), "not regular");
    assert!(!bound(&[2.001, 2.003, 2.002], &[2.102, 2.101, 2.104]), "not as long");
    assert!(!bound(&[2.001], &[2.001]), "too few runs");
}

#[test]
fn runs_of_milliseconds_are_too_short() {
    let lasting = |seconds: f64| Explained {
        run_lengths: analysis::Spread::from_values(&[seconds; 3]),
        ..point(100.0, 500.0, None)
    };
    let short = |a: f64, b: f64| answer(&lasting(a), &lasting(b), false).unwrap().too_short_s;
    assert_eq!(short(0.5, 0.001), Some(0.001));
    assert_eq!(short(0.5, 0.4), None);
    assert_eq!(answer(&point(1.0, 1.0, None), &lasting(0.5), false).unwrap().too_short_s, None);
}
