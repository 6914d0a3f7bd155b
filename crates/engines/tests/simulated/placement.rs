//! Placement of tasks that are not pinned.

use std::cell::Cell;

use engines::simulated::{NS, Options, Simulated};
use machine::{Machine, Ordering, Sleepers};

use super::{OPTIONS, host, run, within};

const UNPINNED: Options = Options { pinned: false, ..OPTIONS };

fn works(m: &Simulated) -> ! {
    loop {
        m.work(1000);
        m.operation_done();
    }
}

/// Checks on which CPU task 0 wakes: it sleeps, task 1 wakes it, the tasks in `idle` end
/// immediately, and all others work. The host has `nodes` nodes of `cpus` CPUs, and task i starts
/// on CPU i modulo their number.
#[track_caller]
fn check_woken(nodes: usize, cpus: usize, tasks: usize, idle: &[usize], expected: usize) {
    let woken = |options: &Options| {
        let on = Cell::new(usize::MAX);
        run(&host(nodes, cpus), tasks, options, |m, words, i| match i {
            0 => {
                m.park(&words.other, 0);
                assert_eq!(m.node(), m.cpu() / cpus);
                on.set(m.cpu());
            }
            1 => {
                // Longer than a slice, so that the tasks in `idle` have ended.
                m.work(150_000);
                m.operation_done();
                m.work(50_000);
                words.other.store(m, 1, Ordering::Relaxed);
                m.wake(&words.other, Sleepers::One);
                works(m);
            }
            i if idle.contains(&i) => (),
            _ => works(m),
        })
        .unwrap();
        on.get()
    };
    assert_eq!(woken(&OPTIONS), 0, "pinned");
    assert_eq!(woken(&UNPINNED), expected);
}

#[test]
fn a_woken_task_goes_to_the_cpu_with_fewer_tasks_and_then_to_an_idle_one() {
    // Its own CPU is idle.
    check_woken(1, 2, 2, &[], 0);
    // One task runs there, as on its waker's CPU.
    check_woken(1, 2, 3, &[], 0);
    // Two tasks run there: it moves to its waker's CPU.
    check_woken(1, 2, 5, &[3], 1);
    // CPU 2 is idle, on the same node.
    check_woken(1, 3, 4, &[2], 2);
    // CPUs of another node are idle, and are not considered.
    check_woken(2, 2, 6, &[2, 3, 5], 0);
    // CPU 2 is idle, on another node than its waker's CPU.
    check_woken(4, 1, 9, &[2, 3, 5], 1);
}

/// CPUs that are busy on average with two tasks that start on one CPU, while another CPU is idle
/// from 100 us on.
fn done_behind_another(nodes: usize, options: &Options) -> f64 {
    let options = Options { warm_up: 0, length: 10_000_000 * NS, ..*options };
    let outcome = run(&host(nodes, 2 / nodes), 3, &options, |m, _, i| match i {
        1 => m.work(100_000),
        _ => works(m),
    });
    let operations = outcome.unwrap().operations;
    (operations[0] + operations[2]) as f64 / 10_000.0
}

#[test]
fn an_idle_cpu_takes_a_task_from_another_after_a_tick() {
    for nodes in [1, 2] {
        within(done_behind_another(nodes, &OPTIONS), 1.0, 0.02);
        within(done_behind_another(nodes, &UNPINNED), 1.9, 0.02);
    }
}

#[test]
fn tasks_that_all_sleep_are_a_deadlock_while_cpus_are_idle() {
    let stuck = run(&host(1, 2), 3, &UNPINNED, |m, words, _| m.park(&words.other, 0));
    assert!(stuck.unwrap_err().contains("deadlock: t0 sleeps on"));
}
