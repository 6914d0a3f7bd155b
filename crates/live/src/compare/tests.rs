//! What moved between small observations.

use records::live::{CpuUse, ObservedLock, ObservedThread, ObservedWindow, StateTime, ThreadState};

use super::*;

const WINDOW_NS: u64 = 1_000_000;

/// Noise of a window, in thousandths of it; the same for all quantities.
fn noise(window: usize) -> u64 {
    (window as u64 * 7 + 3) % 11
}

/// Windows in which two threads of a pool wait for a lock in so many thousandths of the time, and run otherwise.
fn look(windows: usize, waits: u64, operations: Option<f64>) -> Observation {
    let wait_ns: Vec<u64> = (0..windows).map(|w| (waits + noise(w)) * WINDOW_NS / 1000).collect();
    let run_ns: Vec<u64> = wait_ns.iter().map(|ns| WINDOW_NS - ns).collect();
    let state = |state, ns: &[u64]| StateTime { state, ns: ns.to_vec(), times: 1 };
    let thread = |number: u32| ObservedThread {
        task: number,
        name: format!("worker-{number}"),
        states: vec![state(ThreadState::Lock(0), &wait_ns), state(ThreadState::Running, &run_ns)],
        ..ObservedThread::default()
    };
    let window = |subject_ns: &u64| ObservedWindow {
        ns: WINDOW_NS,
        operations: operations.map(|n| n + noise(*subject_ns as usize) as f64 / 10.0),
        cpus: CpuUse {
            subject_ns: 2 * subject_ns,
            idle_ns: 2 * (WINDOW_NS - subject_ns),
            ..CpuUse::default()
        },
    };
    Observation {
        subject: "server".to_string(),
        online_cpus: 2,
        allowed_cpus: 2,
        windows: run_ns.iter().map(window).collect(),
        operations_from: operations.map(|_| "uprobe:serve".to_string()),
        threads: vec![thread(1), thread(2)],
        locks: vec![ObservedLock {
            name: "table_lock".to_string(),
            waits: 10,
            waits_begun: vec![5; windows],
            wait_ns: wait_ns.iter().map(|ns| 2 * ns).collect(),
            contended_ns: wait_ns,
            ..ObservedLock::default()
        }],
        ..Observation::default()
    }
}

fn verdict_of(
    comparison: &LiveComparison,
    quantity: LiveQuantity,
    name: &str,
) -> Option<LiveVerdict> {
    let is_it = |change: &&LiveChange| change.quantity == quantity && change.name == name;
    comparison.quantities.iter().find(is_it).expect("it is compared").verdict
}

#[test]
fn a_lock_that_more_threads_wait_for_has_grown_with_all_that_follows() {
    let comparison = compare(&look(20, 120, Some(50.0)), &look(20, 710, Some(30.0)));
    assert_eq!(comparison.no_verdict, None);
    let of = |quantity, name| verdict_of(&comparison, quantity, name).unwrap();
    assert_eq!(of(LiveQuantity::Cause, "table_lock"), LiveVerdict::Grew);
    assert_eq!(of(LiveQuantity::WaitingForLocks, "worker-#"), LiveVerdict::Grew);
    assert_eq!(of(LiveQuantity::Running, "worker-#"), LiveVerdict::Shrank);
    assert_eq!(of(LiveQuantity::OperationRate, "operations"), LiveVerdict::Shrank);
    assert_eq!(of(LiveQuantity::LockWaits, "table_lock"), LiveVerdict::Same);
    let first = &comparison.quantities[0];
    assert!(first.verdict.unwrap().has_moved());
    let (low, high) = first.interval.unwrap();
    assert!(low < first.difference && first.difference < high);
    // Each lock is compared once.
    let locks = comparison.quantities.iter().filter(|c| c.quantity == LiveQuantity::LockContended);
    assert_eq!(locks.count(), 0);
}

#[test]
fn equal_looks_have_not_moved() {
    let comparison = compare(&look(20, 300, Some(50.0)), &look(20, 301, Some(50.0)));
    let verdicts: Vec<_> = comparison.quantities.iter().map(|c| c.verdict.unwrap()).collect();
    assert!(verdicts.len() >= 6, "{verdicts:?}");
    assert!(verdicts.iter().all(|verdict| *verdict == LiveVerdict::Same), "{comparison:#?}");
}

#[test]
fn a_lock_that_was_not_there_has_grown() {
    let mut before = look(12, 0, None);
    before.locks.clear();
    before.threads.iter_mut().for_each(|thread| drop(thread.states.remove(0)));
    let comparison = compare(&before, &look(12, 500, None));
    assert_eq!(verdict_of(&comparison, LiveQuantity::Cause, "table_lock"), Some(LiveVerdict::Grew));
    assert!(comparison.quantities.iter().all(|c| c.quantity != LiveQuantity::OperationRate));
}

#[test]
fn few_windows_and_unlike_looks_have_no_verdict() {
    let check = |before: &Observation, after: &Observation, expected: &str| {
        let comparison = compare(before, after);
        let why = comparison.no_verdict.expect("there is no verdict");
        assert!(why.contains(expected), "{why}");
        assert!(!comparison.quantities.is_empty());
        assert!(comparison.quantities.iter().all(|c| c.verdict.is_none() && c.interval.is_none()));
    };
    check(
        &look(20, 120, None),
        &look(3, 710, None),
        "the look after has 3 windows, and a verdict needs 10",
    );
    let sampled = Observation { means: ObservedBy::Proc, ..look(20, 710, None) };
    check(&look(20, 120, None), &sampled, "one look saw every switch");
    let empty = compare(&Observation::default(), &look(20, 1, None));
    assert!(empty.no_verdict.is_some_and(|why| why.contains("has 0 windows")));
}

#[test]
fn what_else_differs_is_noted() {
    let after = Observation { online_cpus: 4, quota_cpus: Some(1.5), ..look(20, 300, None) };
    let comparison = compare(&look(20, 300, Some(9.0)), &after);
    let expected = [
        "online: 2 CPUs before, 4 CPUs after",
        "quota: none before, 1.50 CPUs after",
        "operations are counted by: uprobe:serve before, nothing after",
    ];
    assert_eq!(comparison.notes, expected);
}
