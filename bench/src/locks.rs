//! Locks natively: the rate of each against the same algorithm written by hand on the
//! standard library's atomics, and of the parking mutex against two that everybody uses.
//!
//! All sides run in this process, on the same CPUs, and take turns in slices of some
//! milliseconds, in random order, each with a lock that nobody ever took, on pages of its own: where
//! its lines happen to lie and what the host does meanwhile meets all sides alike. The same by hand
//! once more tells how far two equal things differ.

mod by_hand;

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
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

use self::by_hand::{ByHand, SharedByHand, hand, hand_shared, parking_lot, std_mutex};
use crate::report::{Figure, Limit};
use crate::{Bench, Options};

/// CPUs of a contended pass.
const CPUS: usize = 2;

/// Passes between two looks at the clock or at the others.
const BATCH: u64 = 512;

/// How long one side runs until another's turn.
const SLICE: Duration = Duration::from_millis(5);

/// A lock with a counter behind it, as a task sees it.
trait Passed: Sync {
    /// Locks, counts and unlocks so many times.
    fn pass(&self, task: &Task, times: u64);
    /// How often it was counted.
    fn counted(&self) -> u64;
}

/// Who passes: the CPU it runs on, and its random numbers.
struct Task {
    cpu: usize,
    random: Cell<u32>,
}

impl Task {
    fn new(cpu: usize) -> Task {
        // Odd, so that xorshift never sees zero.
        Task { cpu, random: Cell::new((cpu as u32).wrapping_mul(0x9E37_79B9) | 1) }
    }

    #[inline(always)]
    fn random(&self, below: u32) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        ((u64::from(x) * u64::from(below)) >> 32) as u32
    }
}

/// A lock of ours, and what it is measured against.
struct Pairing {
    lock: &'static str,
    against: &'static str,
    /// What the ratio of their rates must keep.
    least: f64,
    ours: Make,
    other: Twice,
}

/// Makes a lock that nobody ever took.
type Make = fn() -> Result<Box<dyn Passed>>;

/// The same twice, whose loops lie at different addresses.
type Twice = [Make; 2];

const PAIRINGS: &[Pairing] = &[
    by_hand("test_and_set", ours::<TestAndSet>, twice::<by_hand::TestAndSet>()),
    by_hand(
        "test_and_test_and_set",
        ours::<TestAndTestAndSet>,
        twice::<by_hand::TestAndTestAndSet>(),
    ),
    by_hand("ticket", ours::<Ticket>, twice::<by_hand::Ticket>()),
    by_hand("mcs", ours::<Mcs>, twice::<by_hand::Mcs>()),
    by_hand("clh", ours::<Clh>, twice::<by_hand::Clh>()),
    by_hand("queued", ours::<Queued>, twice::<by_hand::Queued>()),
    by_hand("cna", ours::<Cna>, twice::<by_hand::Cna>()),
    by_hand("queued_paravirtual", ours::<QueuedParavirtual>, twice::<by_hand::QueuedParavirtual>()),
    by_hand(
        "queued_read_write",
        ours_shared::<QueuedReadWrite>,
        twice_shared::<by_hand::QueuedReadWrite>(),
    ),
    by_hand(
        "per_cpu_read_write",
        ours_shared::<PerCpuReadWrite>,
        twice_shared::<by_hand::PerCpuReadWrite>(),
    ),
    by_hand("parking", ours::<Parking>, twice::<by_hand::Parking>()),
    parking("std", [std_mutex::<0>, std_mutex::<1>]),
    parking("parking_lot", [parking_lot::<0>, parking_lot::<1>]),
];

const fn twice<L: ByHand>() -> Twice {
    [hand::<L, 0>, hand::<L, 1>]
}

const fn twice_shared<L: SharedByHand>() -> Twice {
    [hand_shared::<L, 0>, hand_shared::<L, 1>]
}

const fn by_hand(lock: &'static str, ours: Make, other: Twice) -> Pairing {
    Pairing { lock, against: "by hand", least: 0.98, ours, other }
}

const fn parking(against: &'static str, other: Twice) -> Pairing {
    Pairing { lock: "parking", against, least: 0.95, ours: ours::<Parking>, other }
}

/// Ratios for each lock, uncontended and with two tasks.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let wanted = |pairing: &&Pairing| {
        options.lock.is_empty() || options.lock.iter().any(|lock| lock == pairing.lock)
    };
    let mut figures = Vec::new();
    for tasks in 1..=CPUS {
        for pairing in PAIRINGS.iter().filter(wanted) {
            figures.extend(compare(bench, options, pairing, tasks)?);
        }
    }
    Ok(figures)
}

fn compare(
    bench: &mut Bench,
    options: &Options,
    pairing: &Pairing,
    tasks: usize,
) -> Result<Vec<Figure>> {
    let Pairing { lock, against, least, ours, other: [other, copy] } = *pairing;
    let plural = if tasks == 1 { "" } else { "s" };
    let name = format!("{lock} / {against}, {tasks} task{plural}");
    let mut rates = [vec![], vec![], vec![]];
    for pair in 1..=options.pairs {
        eprintln!("{name}: pair {pair} of {}", options.pairs);
        let means = in_turns(bench, [ours, other, copy], options.seconds, tasks)?;
        rates.iter_mut().zip(means).for_each(|(rates, mean)| rates.push(mean));
    }
    let [ours, other, copy] = rates;
    let ratio = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a / b).collect();
    let figure =
        |what: &str, unit, limit, values| Figure { name: name.clone() + what, unit, limit, values };
    Ok(vec![
        figure("", "", Limit::AtLeast(least), ratio(&ours, &other)),
        figure(": a copy of the other / the other", "", Limit::None, ratio(&copy, &other)),
        figure(": ours", "/s", Limit::None, ours),
    ])
}

/// Each side's mean of passes a second, over slices that take so long in all for each.
fn in_turns(bench: &mut Bench, sides: [Make; 3], seconds: f64, tasks: usize) -> Result<[f64; 3]> {
    let turns = (seconds / SLICE.as_secs_f64()).ceil() as usize;
    let mut order = Vec::new();
    for _ in 0..turns {
        let mut turn = [0, 1, 2];
        turn.shuffle(&mut bench.random);
        order.extend(turn);
    }
    let locks = order.iter().map(|&side| sides[side]()).collect::<Result<Vec<_>>>()?;
    let mut means = [0.0; 3];
    for (side, rate) in order.iter().zip(rates(&locks, tasks)?) {
        means[*side] += rate / turns as f64;
    }
    Ok(means)
}

/// Passes a second through one lock after the other, for a slice each, by tasks on CPUs of
/// their own.
fn rates(locks: &[Box<dyn Passed>], tasks: usize) -> Result<Vec<f64>> {
    let (arrived, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let part = |cpu: usize| {
        pin(cpu);
        let task = Task::new(cpu);
        let slice = |(number, lock): (usize, &Box<dyn Passed>)| {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < (number + 1) * tasks {
                spin_loop();
            }
            let (since, mut passes) = (Instant::now(), 0);
            // Who has CPU 0 has the clock.
            while if cpu == 0 {
                since.elapsed() < SLICE
            } else {
                ended.load(Ordering::Relaxed) <= number
            } {
                lock.pass(&task, BATCH);
                passes += BATCH;
            }
            if cpu == 0 {
                ended.store(number + 1, Ordering::Relaxed);
            }
            (passes, since.elapsed())
        };
        locks.iter().enumerate().map(slice).collect::<Vec<_>>()
    };
    let told: Vec<_> = thread::scope(|scope| {
        let tasks: Vec<_> = (0..tasks).map(|cpu| scope.spawn(move || part(cpu))).collect();
        tasks.into_iter().map(|task| task.join().expect("a task passes locks")).collect()
    });
    let rate = |(number, lock): (usize, &Box<dyn Passed>)| {
        let passes: u64 = told.iter().map(|slices| slices[number].0).sum();
        let longest = told.iter().map(|slices| slices[number].1).max();
        anyhow::ensure!(lock.counted() == passes, "a lock did not exclude");
        Ok(passes as f64 / longest.unwrap_or_default().as_secs_f64())
    };
    locks.iter().enumerate().map(rate).collect()
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

fn ours<L: Lock>() -> Result<Box<dyn Passed>> {
    let region = Region::new(64 << 10).context("mapping memory for a lock")?;
    let lock = L::new(&region, Shape { cpus: CPUS, locks: 1 });
    let guarded = region.array("guarded", 1);
    Ok(Box::new(Ours::<L> { lock, guarded }))
}

impl<L: Lock> Passed for Ours<L> {
    fn pass(&self, task: &Task, times: u64) {
        let m = &Native::new(task.cpu, 0);
        let Guarded { lock, count } = &self.guarded[0];
        for _ in 0..times {
            let hold: Hold = self.lock.lock(m, lock);
            count.set(m, count.get(m) + 1);
            self.lock.unlock(m, lock, hold);
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

fn ours_shared<L: SharedLock>() -> Result<Box<dyn Passed>> {
    let region = Region::new(64 << 10).context("mapping memory for a lock")?;
    let lock = L::new(&region, Shape { cpus: CPUS, locks: 1 });
    let guarded = region.array("guarded", 1);
    Ok(Box::new(OursShared::<L> { lock, guarded }))
}

/// A pass writes once and reads once.
impl<L: SharedLock> Passed for OursShared<L> {
    fn pass(&self, task: &Task, times: u64) {
        let m = &Native::new(task.cpu, 0);
        let Guarded { lock, count } = &self.guarded[0];
        for _ in 0..times {
            let hold = self.lock.write_lock(m, lock);
            count.set(m, count.get(m) + 1);
            self.lock.write_unlock(m, lock, hold);
            let hold = self.lock.read_lock(m, lock);
            count.get(m);
            self.lock.read_unlock(m, lock, hold);
        }
    }

    fn counted(&self) -> u64 {
        self.guarded[0].count.get(&Native::new(0, 0))
    }
}
