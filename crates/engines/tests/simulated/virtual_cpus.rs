//! Virtual CPUs that exit to their host: because they spin, to halt, or to kick another one.

use std::cell::Cell;

use engines::simulated::{
    GuestCosts, Host, NS, Options, PauseLoopExiting, Preemption, Simulated, TimeRow,
};
use machine::{Machine, Ordering, Until};

use super::{OPTIONS, Words, host, run, within};

const WINDOW: u64 = 2_000 * NS;
const EXIT: u64 = 1_000 * NS;

const ANYWHERE: Options = Options { preemption: Preemption::Anywhere, warm_up: 0, ..OPTIONS };

/// The host with costs of virtual CPUs, with or without pause-loop exiting.
fn with_guests(host: Host, has_ple: bool) -> Host {
    let pause_loop_exiting = has_ple.then_some(PauseLoopExiting { window: WINDOW, gap: 50 * NS });
    Host { guest: Some(GuestCosts { vm_exit: EXIT, kick: 700 * NS, pause_loop_exiting }), ..host }
}

/// A task works for 30 us, while another one on the same CPU waits for that. Returns in ns when
/// the work is done, and for how long the other task has spun.
fn holder_beside(waits: &dyn Fn(&Simulated, &Words), has_ple: bool) -> (u64, u64) {
    let mut host = with_guests(host(1, 1), has_ple);
    host.costs.slice = 20_000 * NS;
    let outcome = run(&host, 2, &ANYWHERE, |m, words, i| {
        if i == 1 {
            return waits(m, words);
        }
        m.work(30_000);
        words.turn.store(m, 1, Ordering::Release);
    });
    let rows = outcome.unwrap().rows;
    let ns = |row: TimeRow| rows[row as usize] / NS;
    let spun = ns(TimeRow::Spinning) + ns(TimeRow::Local) + ns(TimeRow::Transfer);
    (ns(TimeRow::Work) + ns(TimeRow::System) + spun, spun)
}

#[test]
fn a_spinning_virtual_cpu_yields_to_one_without_a_cpu() {
    let waits = |m: &Simulated, words: &Words| {
        m.await_until(&words.turn, Until::equals(1), Ordering::Acquire);
    };
    let pauses = |m: &Simulated, words: &Words| {
        while words.turn.load(m, Ordering::Acquire) == 0 {
            m.cpu_relax(1);
        }
    };
    for waits in [&waits as &dyn Fn(&Simulated, &Words), &pauses] {
        // One task works for 20 us, the other one spins for 20 us, and the first one continues.
        let (without_ple, spun) = holder_beside(waits, false);
        assert!((18_000..21_000).contains(&spun), "{spun}");
        // The other task spins for the window, and exits; the switches cost as much as before.
        let (with_ple, spun_less) = holder_beside(waits, true);
        assert!((2_000..2_200).contains(&spun_less), "{spun_less}");
        let gain = (spun - spun_less) as f64 - (EXIT / NS) as f64;
        within((without_ple - with_ple) as f64, gain, 0.04);
    }
}

#[test]
fn pauses_far_apart_are_not_a_pause_loop() {
    let polls = |m: &Simulated, words: &Words| {
        while words.turn.load(m, Ordering::Acquire) == 0 {
            m.cpu_relax(1);
            m.work(60);
        }
    };
    assert_eq!(holder_beside(&polls, true), holder_beside(&polls, false));
}

/// The time in us between tickets served, by twice as many tasks as CPUs that hold a ticket lock
/// for 1 us.
fn ticket_time_us(has_ple: bool) -> f64 {
    let mut host = with_guests(host(1, 4), has_ple);
    host.costs.slice = 4_000_000 * NS;
    let options = Options { length: 100_000_000 * NS, ..ANYWHERE };
    let outcome = run(&host, 8, &options, |m, words, _| {
        loop {
            let mine = words.turn.fetch_add(m, 1, Ordering::Relaxed);
            m.await_until(&words.other, Until::equals(mine), Ordering::Acquire);
            m.work(1_000);
            words.other.store(m, mine + 1, Ordering::Release);
            m.work(2_000);
            m.operation_done();
        }
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.rows.iter().sum::<u64>(), 8 * options.length);
    1e6 / outcome.rate()
}

#[test]
fn a_ticket_lock_survives_twice_as_many_virtual_cpus_with_pause_loop_exiting() {
    // The next owner may have no CPU until another one has spun for the window and exited, and CPUs
    // were switched. Without exits it has none until a slice of 4 ms ends, every hundred tickets.
    let (with_ple, window_exit_switch) = (ticket_time_us(true), 2.0 + 1.0 + 1.5);
    assert!((1.0..1.0 + window_exit_switch).contains(&with_ple), "{with_ple}");
    let without_ple = ticket_time_us(false);
    assert!(without_ple > 5.0 * with_ple, "{without_ple} {with_ple}");
}

#[test]
fn halting_costs_an_exit_and_a_kick_costs_a_call_of_the_host() {
    let spent = |guest: Option<GuestCosts>, call: fn(&Simulated, &Words)| {
        let host = Host { guest, ..host(1, 1) };
        let calls = Cell::new(0);
        let outcome = run(&host, 1, &ANYWHERE, |m, words, _| {
            for _ in 0..10 {
                call(m, words);
                calls.set(calls.get() + 1);
            }
        });
        assert_eq!(calls.get(), 10);
        outcome.unwrap().rows[TimeRow::System as usize] / NS / 10
    };
    // The word does not have the expected value, so no task sleeps, and none is woken.
    let halt = |m: &Simulated, words: &Words| m.halt(&words.other, 1);
    let kick = |m: &Simulated, words: &Words| m.kick(&words.other);
    let guest = with_guests(host(1, 1), false).guest;
    assert_eq!([spent(guest, halt), spent(guest, kick)], [1_000, 700]);
    // Without costs of virtual CPUs, as much as sleeping and waking.
    assert_eq!([spent(None, halt), spent(None, kick)], [1_000, 500]);
}
