//! Two threads of a core: each is slower while the other one is busy.

use engines::simulated::{NS, Simulated, TimeRow};
use machine::{Machine, Ordering, Until};

use super::{OPTIONS, Words, host, run, within};

/// How many times longer 100 ns of work takes while the other thread of the core does `other`.
fn beside(other: &dyn Fn(&Simulated, &Words)) -> f64 {
    let mut host = host(1, 2);
    host.cpus[1].core = host.cpus[0].core;
    host.transfers[0] = host.transfers[1];
    let outcome = run(&host, 2, &OPTIONS, |m, words, i| {
        if i == 1 {
            return other(m, words);
        }
        loop {
            m.work(100);
            m.operation_done();
        }
    });
    let outcome = outcome.unwrap();
    let time: u64 = outcome.rows.iter().sum();
    assert_eq!(time, 2 * OPTIONS.length);
    let work = (OPTIONS.length / NS) as f64 / 100.0 / outcome.operations[0] as f64;
    assert!(outcome.rows[TimeRow::Work as usize] >= OPTIONS.length);
    work
}

#[test]
fn a_thread_is_slower_only_while_the_other_one_of_its_core_is_busy() {
    let works = |m: &Simulated, _: &Words| loop {
        m.work(100);
        m.operation_done();
    };
    let ends = |_: &Simulated, _: &Words| ();
    let sleeps = |m: &Simulated, words: &Words| m.park(&words.other, 0);
    let waits = |m: &Simulated, words: &Words| {
        m.await_until(&words.other, Until::differs(0), Ordering::Relaxed);
    };
    let polls = |m: &Simulated, words: &Words| loop {
        words.other.load(m, Ordering::Relaxed);
        m.cpu_relax(100);
        m.operation_done();
    };
    let in_turns = |m: &Simulated, words: &Words| loop {
        m.work(20_000);
        let _ = m.await_for(&words.other, Until::differs(0), Ordering::Relaxed, 6000);
        m.operation_done();
    };
    within(beside(&works), 1.5, 0.01);
    within(beside(&ends), 1.0, 0.01);
    within(beside(&sleeps), 1.0, 0.01);
    within(beside(&waits), 1.0, 0.01);
    within(beside(&polls), 1.0, 0.01);
    // Its 20 us of work take 30, since the first thread is always busy; then it waits for 30 us.
    let (busy, waits) = (30.0, 30.0);
    within(beside(&in_turns), (busy + waits) / (busy / 1.5 + waits), 0.02);
}
