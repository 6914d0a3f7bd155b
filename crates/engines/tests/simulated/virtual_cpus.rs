//! Virtual CPUs that leave their guest: because they spin, to halt, or to kick another one.

use std::cell::Cell;

use engines::simulated::{Guest, Host, NS, Options, PauseLoop, Preemption, Row, Simulated};
use machine::{Machine, Ordering, Until};

use super::{OPTIONS, Words, host, run, within};

const WINDOW: u64 = 2_000 * NS;
const EXIT: u64 = 1_000 * NS;

const ANYWHERE: Options = Options { preemption: Preemption::Anywhere, warm_up: 0, ..OPTIONS };

/// The host, as one whose guests leave for spinning or not.
fn hosting(host: Host, notices: bool) -> Host {
    let pause_loop = notices.then_some(PauseLoop { window: WINDOW, gap: 50 * NS });
    Host { guest: Some(Guest { exit: EXIT, kick: 700 * NS, pause_loop }), ..host }
}

/// When a task that works for 30 us has done so, beside one on its CPU that waits for that; and
/// for how long that one spun. In ns.
fn holder_beside(waits: &dyn Fn(&Simulated, &Words), notices: bool) -> (u64, u64) {
    let mut host = hosting(host(1, 1), notices);
    host.costs.slice = 20_000 * NS;
    let outcome = run(&host, 2, &ANYWHERE, |m, words, i| {
        if i == 1 {
            return waits(m, words);
        }
        m.work(30_000);
        words.turn.store(m, 1, Ordering::Release);
    });
    let rows = outcome.unwrap().rows;
    let at = |row: Row| rows[row as usize] / NS;
    let spun = at(Row::Spinning) + at(Row::Local) + at(Row::Transfer);
    (at(Row::Work) + at(Row::System) + spun, spun)
}

#[test]
fn who_spins_gives_its_cpu_to_who_has_none() {
    let waits = |m: &Simulated, words: &Words| {
        m.await_until(&words.turn, Until::equals(1), Ordering::Acquire);
    };
    let pauses = |m: &Simulated, words: &Words| {
        while words.turn.load(m, Ordering::Acquire) == 0 {
            m.cpu_relax(1);
        }
    };
    for waits in [&waits as &dyn Fn(&Simulated, &Words), &pauses] {
        // It works for 20 us, the other one spins for 20, and it goes on.
        let (alone, spun) = holder_beside(waits, false);
        assert!((18_000..21_000).contains(&spun), "{spun}");
        // It spins for the window, leaves its guest, and both switches are as before.
        let (noticed, spun_less) = holder_beside(waits, true);
        assert!((2_000..2_200).contains(&spun_less), "{spun_less}");
        let less = (spun - spun_less) as f64 - (EXIT / NS) as f64;
        within((alone - noticed) as f64, less, 0.04);
    }
}

#[test]
fn pauses_far_apart_are_no_spinning() {
    let polls = |m: &Simulated, words: &Words| {
        while words.turn.load(m, Ordering::Acquire) == 0 {
            m.cpu_relax(1);
            m.work(60);
        }
    };
    assert_eq!(holder_beside(&polls, true), holder_beside(&polls, false));
}

/// How long it takes, in us, from one to the next of tasks, twice as many as CPUs, which take
/// tickets for 1 us each.
fn tickets(notices: bool) -> f64 {
    let mut host = hosting(host(1, 4), notices);
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
fn a_ticket_lock_survives_twice_as_many_virtual_cpus_where_spinning_is_noticed() {
    // Who is next may have no CPU: until somebody has spun for the window, has left its guest, and
    // CPUs were switched. Otherwise until a slice of 4 ms is over, each some hundred tickets.
    let (noticed, once) = (tickets(true), 2.0 + 1.0 + 1.5);
    assert!((1.0..1.0 + once).contains(&noticed), "{noticed}");
    let slices = tickets(false);
    assert!(slices > 5.0 * noticed, "{slices} {noticed}");
}

#[test]
fn halting_is_an_exit_and_a_kick_a_call_of_the_host() {
    let spent = |guest: Option<Guest>, call: fn(&Simulated, &Words)| {
        let host = Host { guest, ..host(1, 1) };
        let calls = Cell::new(0);
        let outcome = run(&host, 1, &ANYWHERE, |m, words, _| {
            for _ in 0..10 {
                call(m, words);
                calls.set(calls.get() + 1);
            }
        });
        assert_eq!(calls.get(), 10);
        outcome.unwrap().rows[Row::System as usize] / NS / 10
    };
    // The word is another one, so that nobody sleeps, and nobody does who would be woken.
    let halt = |m: &Simulated, words: &Words| m.halt(&words.other, 1);
    let kick = |m: &Simulated, words: &Words| m.kick(&words.other);
    let guest = hosting(host(1, 1), false).guest;
    assert_eq!([spent(guest, halt), spent(guest, kick)], [1_000, 700]);
    // As sleeping and waking, where no more is known.
    assert_eq!([spent(None, halt), spent(None, kick)], [1_000, 500]);
}
