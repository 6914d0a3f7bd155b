//! Recorded operations on described hosts: what they share stops them, and nothing else does.

use described_hosts::{DescribedHost, Draw};
use engines::simulated::NS;
use records::operations::{
    Copies, RecordedLine, RecordedLock, RecordedLockKind, RecordedOperation, RecordedOperations,
    RecordedStep,
};
use studies::operations::point;
use studies::simulations::Conditions;

fn host() -> DescribedHost {
    // A ns for each instruction; other costs only for operations that have some.
    let host = described_hosts::find("icelake-2s").unwrap();
    [
        ("instruction", 1000.0),
        ("call", 500_000.0),
        ("fault", 250_000.0),
        ("own_line", 10_000.0),
        ("copied_line", 20_000.0),
        ("stream", 5000.0),
    ]
    .iter()
    .fold(host, |host, (name, ps)| host.with_value(&format!("costs.{name}"), *ps))
}

/// Two tasks that do this after 1000 instructions each time, on one line.
fn recorded(
    steps: &[RecordedStep],
    copies: Copies,
    kind: Option<RecordedLockKind>,
) -> RecordedOperations {
    let steps = steps.iter().enumerate();
    let steps = steps.map(|(index, step)| (if index == 0 { 1000 } else { 200 }, *step)).collect();
    let operation = RecordedOperation { steps, ..RecordedOperation::default() };
    RecordedOperations {
        operation: "a test".to_string(),
        lines: vec![RecordedLine { member: "a.b".to_string(), copies }],
        locks: kind.map(|kind| RecordedLock { line: 0, kind }).into_iter().collect(),
        tasks: vec![vec![operation.clone()], vec![operation]],
        ..RecordedOperations::default()
    }
}

/// Operations a second, in millions.
fn rate(recorded: &RecordedOperations, cpus: usize, apart: &[usize]) -> f64 {
    let host = host();
    let conditions = Conditions::new(&host, 1, 400_000 * NS);
    point(recorded, &conditions, cpus, apart).unwrap().middle.rate() / 1e6
}

#[test]
fn a_shared_line_stops_operations_and_lines_of_their_own_do_not() {
    use RecordedStep::{Atomic, Compare, OwnAtomic};
    let near = |found: f64, expected: f64, what: &str| {
        assert!((found / expected - 1.0).abs() < 0.05, "{what}: {found}, expected {expected}");
    };
    let nothing = recorded(&[], Copies::One, None);
    let empty = || RecordedOperation { then: 1000, ..RecordedOperation::default() };
    let nothing = RecordedOperations { tasks: vec![vec![empty()]], ..nothing };
    near(rate(&nothing, 1, &[]), 1.0, "1000 instructions of 1 ns on one CPU");
    near(rate(&nothing, 48, &[]), 48.0, "as many on each of 48");
    let entering =
        RecordedOperation { then: 400, own_lines: 10, copied_lines: 25, entries: 2, ..empty() };
    let of_one = |operation: RecordedOperation| RecordedOperations {
        tasks: vec![vec![operation]],
        ..nothing.clone()
    };
    let faulting = RecordedOperation { entries: 4, faults: 2, ..entering.clone() };
    let sleeping = RecordedOperation { sleeps: 1, ..empty() };
    let entering = of_one(entering);
    near(
        rate(&entering, 1, &[]),
        0.5,
        "400 ns of instructions, 100 and 500 of lines, 1000 of calls",
    );
    for (call_instructions, rate_of_one) in [(200.0, 1.0 / 1.6), (600.0, 1.0 / 0.8)] {
        let within = RecordedOperations { call_instructions, ..entering.clone() };
        near(rate(&within, 1, &[]), rate_of_one, "calls of 500 ns, their way in and out recorded");
    }
    near(rate(&of_one(faulting), 1, &[]), 0.4, "and 500 of page faults");
    let sleep_us = host().pace(Draw::Middle, None).sleep / (1000 * NS) as f64;
    near(rate(&of_one(sleeping), 1, &[]), 1.0 / (1.0 + sleep_us), "and a sleep");
    let own = recorded(&[OwnAtomic], Copies::One, None);
    near(rate(&own, 24, &[]), 24.0 * rate(&own, 1, &[]), "atomics of their own");
    // Not of stores: a CPU goes on while its buffer waits for the line.
    for step in [Atomic(0), Compare(0)] {
        let one = recorded(&[step], Copies::One, None);
        let (single, all) = (rate(&one, 1, &[]), rate(&one, 48, &[]));
        assert!(all < 0.7 * 48.0 * single, "{step:?}: {single}, {all} on 48 CPUs");
        // Each task with a line of its own.
        near(rate(&one, 48, &[0]), 48.0 * single, "without the line");
        let pairs = recorded(&[step], Copies::PerPair, None);
        assert!(rate(&pairs, 48, &[]) > 1.3 * all, "{step:?} on a line of two tasks");
    }
}

#[test]
fn the_memory_of_a_node_bounds_what_its_tasks_clear() {
    let operation = RecordedOperation { copied_lines: 50, entries: 0, ..Default::default() };
    for (streamed_lines, cpus, expected) in [
        (0, 1, 1.0),
        (0, 48, 48.0),
        (50, 1, 1.0),
        (50, 2, 2.0),
        (50, 24, 4.0),
        (50, 48, 8.0),
        (25, 48, 16.0),
    ] {
        let operation = RecordedOperation { streamed_lines, ..operation.clone() };
        let recorded =
            RecordedOperations { tasks: vec![vec![operation]], ..recorded(&[], Copies::One, None) };
        let found = rate(&recorded, cpus, &[]);
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "50 lines of 20 ns, of memory that serves {streamed_lines} of them in 5 ns each, on {cpus} CPUs of two nodes: {found}"
        );
    }
}

#[test]
fn a_lock_lets_one_task_in_at_a_time_and_readers_together() {
    use RecordedLockKind::{Mutex, ReadWriteSpin, Semaphore, Sleeping, Spin};
    use RecordedStep::{Lock, LockShared, Unlock};
    for kind in [Spin, Mutex, ReadWriteSpin, Semaphore, Sleeping] {
        let alone = recorded(&[Lock(0), Unlock(0)], Copies::One, Some(kind));
        // 200 instructions are inside.
        let all = rate(&alone, 24, &[]);
        assert!(all < 5.0, "{kind:?}: {all} million a second, 200 ns inside each");
        if matches!(kind, ReadWriteSpin | Semaphore) {
            let readers = recorded(&[LockShared(0), Unlock(0)], Copies::One, Some(kind));
            assert!(rate(&readers, 24, &[]) > all, "{kind:?}: readers exclude each other");
        }
        let nodes = recorded(&[Lock(0), Unlock(0)], Copies::PerNode, Some(kind));
        assert!(rate(&nodes, 48, &[]) > 1.2 * rate(&alone, 48, &[]), "{kind:?}: one a node");
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let host = host();
    let conditions = Conditions::new(&host, 1, 100_000 * NS);
    let refused = |recorded: &RecordedOperations, cpus: usize, expected: &str| {
        let why = format!("{:#}", point(recorded, &conditions, cpus, &[]).unwrap_err());
        assert!(why.contains(expected), "{why}");
    };
    let held = recorded(&[RecordedStep::Lock(0)], Copies::One, Some(RecordedLockKind::Spin));
    refused(&held, 2, "lock 0 is held at the end of an operation");
    refused(&RecordedOperations::default(), 1, "no whole operation");
    let good = recorded(&[RecordedStep::Load(0)], Copies::One, None);
    refused(&good, 1000, "icelake-2s has 96 CPUs");
}
