//! Where tasks are put that are not pinned.

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

/// On nodes of so many CPUs: task 0 sleeps, task 1 wakes it, those of `idle` end at once, and all
/// others work. Task i has CPU i at first, or i less their number; the CPU on which task 0 wakes.
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
                // Longer than a slice, so that those who end have ended.
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
fn who_wakes_goes_where_fewer_wait_and_then_where_nobody_does() {
    // Its own CPU idles.
    check_woken(1, 2, 2, &[], 0);
    // Another one works there, as many as where its waker is.
    check_woken(1, 2, 3, &[], 0);
    // Two: it comes to its waker.
    check_woken(1, 2, 5, &[3], 1);
    // CPU 2 idles, on the same node.
    check_woken(1, 3, 4, &[2], 2);
    // And on another one: nobody looks there.
    check_woken(2, 2, 6, &[2, 3, 5], 0);
    // CPU 2 idles, but not CPU 3, on the node of its waker.
    check_woken(4, 1, 9, &[2, 3, 5], 1);
}

/// Operations of the second of two tasks that begin on the CPU of the first, while another CPU idles
/// after 100 us; in us of 1 ms.
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
fn a_cpu_that_idles_takes_part_in_the_work_of_another_after_a_tick() {
    for nodes in [1, 2] {
        within(done_behind_another(nodes, &OPTIONS), 1.0, 0.02);
        within(done_behind_another(nodes, &UNPINNED), 1.9, 0.02);
    }
}

#[test]
fn nobody_waits_for_ever_for_a_cpu_that_idles() {
    let stuck = run(&host(1, 2), 3, &UNPINNED, |m, words, _| m.park(&words.other, 0));
    assert!(stuck.unwrap_err().contains("nobody can go on: t0 sleeps on"));
}
