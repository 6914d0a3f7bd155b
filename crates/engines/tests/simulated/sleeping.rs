//! Going to sleep: what it costs where the word has changed, and where a wake-up comes before the task has left its CPU.

use engines::simulated::{NS, Simulated};
use machine::{Machine, Sleepers};

use super::{OPTIONS, Words, host, run, within};

#[test]
fn a_sleep_on_a_word_that_has_changed_costs_a_system_call() {
    let refused = |m: &Simulated, words: &Words, _| {
        loop {
            m.park(&words.other, 1);
            m.operation_done();
        }
    };
    let outcome = run(&host(1, 1), 1, &OPTIONS, refused).unwrap();
    // A call that wakes nobody takes 500 ns, a load 1 ns; leaving the CPU would take 500 ns more.
    within(outcome.rate() / 1e6, 1e3 / 501.0, 0.01);
    assert_eq!(outcome.sleeps, 0);
}

#[test]
fn a_task_that_is_woken_before_it_has_left_its_cpu_does_not_sleep() {
    let with_wake_ups_each = |ns: u64| {
        let mut host = host(1, 2);
        host.costs.park = 20_000 * NS;
        let outcome = run(&host, 2, &OPTIONS, |m, words, task| {
            loop {
                match task {
                    0 => m.park(&words.other, 0),
                    _ => {
                        m.wake(&words.other, Sleepers::One);
                        m.work(ns);
                    }
                }
                m.operation_done();
            }
        });
        let outcome = outcome.unwrap();
        (outcome.sleeps, outcome.operations[0])
    };
    // 1 ms, in which each call takes 20 us whether the task was woken early or at its end.
    let (sleeps, calls) = with_wake_ups_each(2_000);
    assert_eq!(sleeps, 0);
    assert!((49..=50).contains(&calls), "{calls}");
    // A wake-up each 60 us finds the task asleep, which it has been for a while.
    let (sleeps, calls) = with_wake_ups_each(60_000);
    assert!(sleeps >= 15, "{sleeps}");
    assert!(sleeps.abs_diff(calls) <= 1, "{sleeps} {calls}");
}
