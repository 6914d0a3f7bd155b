//! Locks natively: the rate of each against the same algorithm written by hand on the
//! standard library's atomics, and of the parking mutex against two that everybody uses.
//!
//! Both sides run in this process, on the same CPUs and on memory that is placed alike, in
//! random order within pairs. The second run by hand tells how far two equal things differ.

mod by_hand;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use algorithms::locks::clh::Clh;
use algorithms::locks::cna::Cna;
use algorithms::locks::mcs::Mcs;
use algorithms::locks::parking::Parking;
use algorithms::locks::per_cpu_read_write::PerCpuReadWrite;
use algorithms::locks::queued::Queued;
use algorithms::locks::queued_paravirtual::QueuedParavirtual;
use algorithms::locks::queued_read_write::QueuedReadWrite;
use algorithms::locks::test_and_set::TestAndSet;
use algorithms::locks::test_and_test_and_set::TestAndTestAndSet;
use algorithms::locks::ticket::Ticket;
use algorithms::{Hold, Lock, Shape, SharedLock};
use anyhow::{Context, Result};
use machine::{Array, Field, Image, Native, Region, image};
use rand::seq::SliceRandom;

use crate::report::{Figure, Limit};
use crate::{Bench, Options};

/// CPUs of a contended pass.
const CPUS: usize = 2;

/// Passes between two looks at the stop flag.
const BATCH: u64 = 64;

/// A lock with a counter behind it, as a task sees it.
trait Passed: Sync {
    /// Locks, counts and unlocks so many times.
    fn pass(&self, cpu: usize, times: u64);
    /// How often it was counted.
    fn counted(&self) -> u64;
}

/// Ratios for each lock, uncontended and with two tasks.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for tasks in 1..=CPUS {
        let mut both = |name: &str, least: f64, ours: &dyn Passed, other: &dyn Passed| {
            compare(bench, options, (name, least, tasks), ours, other)
        };
        let by_hand = "by hand";
        let mut hand = |name: &str, ours: &dyn Passed, other: &dyn Passed| {
            both(&format!("{name} / {by_hand}"), 0.98, ours, other)
        };
        figures.extend(hand("test_and_set", &*ours::<TestAndSet>()?, &by_hand::test_and_set())?);
        figures.extend(hand(
            "test_and_test_and_set",
            &*ours::<TestAndTestAndSet>()?,
            &by_hand::test_and_test_and_set(),
        )?);
        figures.extend(hand("ticket", &*ours::<Ticket>()?, &by_hand::ticket())?);
        figures.extend(hand("mcs", &*ours::<Mcs>()?, &by_hand::mcs())?);
        figures.extend(hand("clh", &*ours::<Clh>()?, &by_hand::clh())?);
        figures.extend(hand("queued", &*ours::<Queued>()?, &by_hand::queued())?);
        figures.extend(hand("cna", &*ours::<Cna>()?, &by_hand::cna())?);
        figures.extend(hand(
            "queued_paravirtual",
            &*ours::<QueuedParavirtual>()?,
            &by_hand::queued_paravirtual(),
        )?);
        figures.extend(hand(
            "queued_read_write",
            &*ours_shared::<QueuedReadWrite>()?,
            &by_hand::queued_read_write(),
        )?);
        figures.extend(hand(
            "per_cpu_read_write",
            &*ours_shared::<PerCpuReadWrite>()?,
            &by_hand::per_cpu_read_write(),
        )?);
        figures.extend(hand("parking", &*ours::<Parking>()?, &by_hand::parking())?);
        let parking = ours::<Parking>()?;
        figures.extend(both("parking / std", 0.95, &*parking, &by_hand::std_mutex())?);
        figures.extend(both("parking / parking_lot", 0.95, &*parking, &by_hand::parking_lot())?);
    }
    Ok(figures)
}

fn compare(
    bench: &mut Bench,
    options: &Options,
    (name, least, tasks): (&str, f64, usize),
    ours: &dyn Passed,
    other: &dyn Passed,
) -> Result<Vec<Figure>> {
    let mut rates = [vec![], vec![], vec![]];
    let mut order = [0, 1, 2];
    for pair in 1..=options.pairs {
        eprintln!("{name} × {tasks}: pair {pair} of {}", options.pairs);
        order.shuffle(&mut bench.random);
        for side in order {
            let passed = if side == 0 { ours } else { other };
            rates[side].push(rate(passed, tasks, options.seconds)?);
        }
    }
    let [ours, other, again] = rates;
    let ratio = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect();
    let plural = if tasks == 1 { "" } else { "s" };
    let figure = |what: &str, unit, limit, values| Figure {
        name: format!("{name}, {tasks} task{plural}{what}"),
        unit,
        limit,
        values,
    };
    Ok(vec![
        figure("", "", Limit::AtLeast(least), ratio(&ours, &other)),
        figure(": the other against itself", "", Limit::None, ratio(&again, &other)),
        figure(": ours", "/s", Limit::None, ours),
    ])
}

/// Passes a second of this many tasks, each on a CPU of its own.
fn rate(passed: &dyn Passed, tasks: usize, seconds: f64) -> Result<f64> {
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = passed.counted();
    let since = Instant::now();
    std::thread::scope(|scope| {
        for cpu in 0..tasks {
            let (stop, done) = (&stop, &done);
            scope.spawn(move || {
                pin(cpu);
                let mut passes = 0;
                while !stop.load(Ordering::Relaxed) {
                    passed.pass(cpu, BATCH);
                    passes += BATCH;
                }
                done.fetch_add(passes, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_secs_f64(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let wall_s = since.elapsed().as_secs_f64();
    let counted = passed.counted() - before;
    anyhow::ensure!(counted == done.load(Ordering::Relaxed), "a lock did not exclude");
    Ok(counted as f64 / wall_s)
}

fn pin(cpu: usize) {
    let mask = [1_u64 << cpu];
    // SAFETY: the mask is live. Where the CPU is not allowed, the task runs unpinned.
    unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
}

image! {
    /// A lock and its counter on a page of their own.
    #[repr(align(4096))]
    struct Guarded<L: Image> {
        lock: L,
        count: Field<u64>,
    }
}

struct Ours<L: Lock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

fn ours<L: Lock>() -> Result<Box<Ours<L>>> {
    let region = Region::new(64 << 10).context("mapping memory for a lock")?;
    let lock = L::new(&region, Shape { cpus: CPUS, locks: 1 });
    let guarded = region.array("guarded", 1);
    Ok(Box::new(Ours { lock, guarded }))
}

impl<L: Lock> Passed for Ours<L> {
    fn pass(&self, cpu: usize, times: u64) {
        let m = Native::new(cpu, 0);
        let Guarded { lock, count } = &self.guarded[0];
        for _ in 0..times {
            let hold: Hold = self.lock.lock(&m, lock);
            count.set(&m, count.get(&m) + 1);
            self.lock.unlock(&m, lock, hold);
        }
    }

    fn counted(&self) -> u64 {
        self.guarded[0].count.get(&Native::new(0, 0))
    }
}

struct OursShared<L: SharedLock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

fn ours_shared<L: SharedLock>() -> Result<Box<OursShared<L>>> {
    let region = Region::new(64 << 10).context("mapping memory for a lock")?;
    let lock = L::new(&region, Shape { cpus: CPUS, locks: 1 });
    let guarded = region.array("guarded", 1);
    Ok(Box::new(OursShared { lock, guarded }))
}

/// A pass writes once and reads once.
impl<L: SharedLock> Passed for OursShared<L> {
    fn pass(&self, cpu: usize, times: u64) {
        let m = Native::new(cpu, 0);
        let Guarded { lock, count } = &self.guarded[0];
        for _ in 0..times {
            let hold = self.lock.write_lock(&m, lock);
            count.set(&m, count.get(&m) + 1);
            self.lock.write_unlock(&m, lock, hold);
            let hold = self.lock.read_lock(&m, lock);
            count.get(&m);
            self.lock.read_unlock(&m, lock, hold);
        }
    }

    fn counted(&self) -> u64 {
        self.guarded[0].count.get(&Native::new(0, 0))
    }
}
