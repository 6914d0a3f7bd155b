//! `keep`: how often an owner's next atomic instruction still finds a line that other CPUs ask for.

use super::*;

/// Changes one word for ever, and counts the changes that come right after another one by the same CPU.
struct Storm {
    last: Cell<usize>,
    changes: Cell<u64>,
    repeats: Cell<u64>,
}

impl Storm {
    fn new() -> Storm {
        Storm { last: Cell::new(usize::MAX), changes: Cell::new(0), repeats: Cell::new(0) }
    }

    fn count(&self, cpu: usize) {
        self.changes.set(self.changes.get() + 1);
        self.repeats.set(self.repeats.get() + u64::from(self.last.get() == cpu));
        self.last.set(cpu);
    }

    fn share_of_repeats(&self) -> f64 {
        self.repeats.get() as f64 / self.changes.get() as f64
    }
}

fn with_keep(per_mille: u32) -> Host {
    let mut host = host(1, 4);
    host.transfers.iter_mut().for_each(|transfer| transfer.keep_per_mille = per_mille);
    host
}

#[test]
fn an_owner_repeats_an_atomic_instruction_as_often_as_it_keeps_the_line() {
    let check = |cpus: usize, keep_per_mille: u32| {
        let host = with_keep(keep_per_mille);
        let keep = f64::from(keep_per_mille) / 1000.0;
        let (adds, compares) = (Storm::new(), Storm::new());
        run(&host, cpus, &OPTIONS, |m, words, cpu| {
            loop {
                words.turn.fetch_add(m, 1, Ordering::Relaxed);
                adds.count(cpu);
                m.operation_done();
            }
        })
        .unwrap();
        run(&host, cpus, &OPTIONS, |m, words, cpu| {
            let mut seen = 0;
            loop {
                let attempt = words.turn.compare_exchange(m, seen, seen + 1, Ordering::Relaxed);
                seen = attempt.map_or_else(|now| now, |old| old + 1);
                compares.count(cpu);
                m.operation_done();
            }
        })
        .unwrap();
        for (what, storm) in [("additions", adds), ("compare-and-exchanges", compares)] {
            let repeats = storm.share_of_repeats();
            let is_near = (repeats - keep).abs() < 0.01;
            assert!(is_near, "{what} of {cpus} CPUs with keep {keep}: {repeats:.3} repeat");
        }
    };
    for cpus in 2..=4 {
        for keep_per_mille in [0, 150, 500] {
            check(cpus, keep_per_mille);
        }
    }
}

#[test]
fn a_hand_over_by_loads_takes_as_long_whatever_is_kept() {
    let ns = |keep_per_mille: u32| {
        let run = run(&with_keep(keep_per_mille), 2, &OPTIONS, |m, words, cpu| {
            loop {
                m.await_until(&words.turn, Until::equals(cpu as u32), Ordering::Acquire);
                words.turn.store(m, 1 - cpu as u32, Ordering::Release);
                m.operation_done();
            }
        });
        1e9 / run.unwrap().rate()
    };
    for keep_per_mille in [150, 500] {
        within(ns(keep_per_mille), ns(0), 0.001);
    }
}
