//! Locks natively: the rate of each against the same algorithm written by hand on the
//! standard library's atomics, and of the parking mutex against two that everybody uses.
//!
//! All run in this process, on the same CPUs, and take turns in slices of some milliseconds, in
//! random order, each with a lock that nobody ever took, on pages of its own: where its lines happen
//! to lie and what the host does meanwhile meets both sides alike. Two CPUs that hand a lock to and
//! fro fall in step, and into which step is decided by single cycles: the same instructions at
//! another address were seen to be a quarter faster. So each side is in the program several times,
//! and a ratio is of the means over all copies (after Curtsinger and Berger 2013, Stabilizer:
//! statistically sound performance evaluation). How far the copies of one side differ stands beside it.

mod by_hand;

use std::cell::Cell;
use std::hint::{black_box, spin_loop};
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

/// How often each side is in this program.
const COPIES: usize = 8;

/// Passes between two looks at the clock or at the others.
const BATCH: u64 = 512;

/// How long one side runs until another's turn.
const SLICE: Duration = Duration::from_millis(5);

/// A lock with a counter behind it, as a task sees it.
trait Passed: Sync {
    /// Locks, counts and unlocks so many times. Begins with the number of the copy: functions that
    /// differ in nothing would be made one.
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
    ours: Copies,
    other: Copies,
}

/// Makes a lock that nobody ever took.
type Make = fn() -> Result<Box<dyn Passed>>;

/// The same at different addresses of the program.
type Copies = [Make; COPIES];

macro_rules! copies {
    ($make:ident $(::<$lock:ty>)?) => {
        [
            $make::<$($lock,)? 0>,
            $make::<$($lock,)? 1>,
            $make::<$($lock,)? 2>,
            $make::<$($lock,)? 3>,
            $make::<$($lock,)? 4>,
            $make::<$($lock,)? 5>,
            $make::<$($lock,)? 6>,
            $make::<$($lock,)? 7>,
        ]
    };
}

const PAIRINGS: &[Pairing] = &[
    by_hand::<TestAndSet, by_hand::TestAndSet>("test_and_set"),
    by_hand::<TestAndTestAndSet, by_hand::TestAndTestAndSet>("test_and_test_and_set"),
    by_hand::<Ticket, by_hand::Ticket>("ticket"),
    by_hand::<Mcs, by_hand::Mcs>("mcs"),
    by_hand::<Clh, by_hand::Clh>("clh"),
    by_hand::<Queued, by_hand::Queued>("queued"),
    by_hand::<Cna, by_hand::Cna>("cna"),
    by_hand::<QueuedParavirtual, by_hand::QueuedParavirtual>("queued_paravirtual"),
    by_hand_shared::<QueuedReadWrite, by_hand::QueuedReadWrite>("queued_read_write"),
    by_hand_shared::<PerCpuReadWrite, by_hand::PerCpuReadWrite>("per_cpu_read_write"),
    by_hand::<Parking, by_hand::Parking>("parking"),
    parking("std", copies!(std_mutex)),
    parking("parking_lot", copies!(parking_lot)),
];

const fn by_hand<L: Lock, H: ByHand>(lock: &'static str) -> Pairing {
    let (ours, other) = (copies!(ours::<L>), copies!(hand::<H>));
    Pairing { lock, against: "by hand", least: 0.98, ours, other }
}

const fn by_hand_shared<L: SharedLock, H: SharedByHand>(lock: &'static str) -> Pairing {
    let (ours, other) = (copies!(ours_shared::<L>), copies!(hand_shared::<H>));
    Pairing { lock, against: "by hand", least: 0.98, ours, other }
}

const fn parking(against: &'static str, other: Copies) -> Pairing {
    Pairing { lock: "parking", against, least: 0.95, ours: copies!(ours::<Parking>), other }
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
    let Pairing { lock, against, least, ours, other } = pairing;
    let plural = if tasks == 1 { "" } else { "s" };
    let name = format!("{lock} / {against}, {tasks} task{plural}");
    let (mut ratios, mut halves, mut rates) = (vec![], vec![], vec![]);
    for pair in 1..=options.pairs {
        eprintln!("{name}: pair {pair} of {}", options.pairs);
        let [ours, other] = in_turns(bench, [ours, other], options.seconds, tasks)?;
        let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
        let (half, rest) = other.split_at(COPIES / 2);
        ratios.push(mean(&ours) / mean(&other));
        halves.push(mean(half) / mean(rest));
        rates.push(mean(&ours));
    }
    let figure =
        |what: &str, unit, limit, values| Figure { name: name.clone() + what, unit, limit, values };
    Ok(vec![
        figure("", "", Limit::AtLeast(*least), ratios),
        figure(": half of the other's copies / the rest", "", Limit::None, halves),
        figure(": ours", "/s", Limit::None, rates),
    ])
}

/// The passes a second of each copy, over slices that take so long in all for each side.
fn in_turns(
    bench: &mut Bench,
    sides: [&Copies; 2],
    seconds: f64,
    tasks: usize,
) -> Result<[[f64; COPIES]; 2]> {
    let turns = (seconds / SLICE.as_secs_f64() / COPIES as f64).ceil() as usize;
    let all: Vec<_> = (0..2).flat_map(|side| (0..COPIES).map(move |copy| (side, copy))).collect();
    let mut order = Vec::new();
    for _ in 0..turns {
        let mut turn = all.clone();
        turn.shuffle(&mut bench.random);
        order.extend(turn);
    }
    let make = |&(side, copy): &(usize, usize)| sides[side][copy]();
    let locks = order.iter().map(make).collect::<Result<Vec<_>>>()?;
    let mut means = [[0.0; COPIES]; 2];
    for ((side, copy), rate) in order.into_iter().zip(rates(&locks, tasks)?) {
        means[side][copy] += rate / turns as f64;
    }
    Ok(means)
}

/// Passes a second through one lock after the other, for a slice each, by tasks on CPUs of
/// their own.
fn rates(locks: &[Box<dyn Passed>], tasks: usize) -> Result<Vec<f64>> {
    let (arrived, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let race = Race { locks, tasks, arrived, ended };
    let told: Vec<_> = thread::scope(|scope| {
        let race = &race;
        let tasks: Vec<_> = (0..tasks).map(|cpu| scope.spawn(move || race.join(cpu))).collect();
        tasks.into_iter().map(|task| task.join().expect("a task passes locks")).collect()
    });
    let rate = |number: usize| {
        let passes: u64 = told.iter().map(|slices| slices[number].0).sum();
        let longest = told.iter().map(|slices| slices[number].1).max();
        anyhow::ensure!(locks[number].counted() == passes, "a lock did not exclude");
        Ok(passes as f64 / longest.unwrap_or_default().as_secs_f64())
    };
    (0..locks.len()).map(rate).collect()
}

/// Tasks that pass the same lock for a slice, and then the next.
struct Race<'a> {
    locks: &'a [Box<dyn Passed>],
    tasks: usize,
    /// Of all tasks, at all slices.
    arrived: AtomicUsize,
    /// Slices that are over.
    ended: AtomicUsize,
}

impl Race<'_> {
    /// Takes part; returns the passes of each slice, and how long they took.
    fn join(&self, cpu: usize) -> Vec<(u64, Duration)> {
        pin(cpu);
        let task = Task::new(cpu);
        let slice = |number: usize| {
            self.meet(number);
            let (since, mut passes) = (Instant::now(), 0);
            while !self.is_over(number, cpu, since) {
                self.locks[number].pass(&task, BATCH);
                passes += BATCH;
            }
            (passes, since.elapsed())
        };
        (0..self.locks.len()).map(slice).collect()
    }

    /// Waits, without sleeping, until all have come to a slice.
    fn meet(&self, number: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < (number + 1) * self.tasks {
            spin_loop();
        }
    }

    /// Whether a slice is over. The task on CPU 0 has the clock.
    fn is_over(&self, number: usize, cpu: usize, since: Instant) -> bool {
        if cpu == 0 && since.elapsed() >= SLICE {
            self.ended.store(number + 1, Ordering::Relaxed);
        }
        self.ended.load(Ordering::Relaxed) > number
    }
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

struct Ours<L: Lock, const COPY: u32> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

fn ours<L: Lock, const COPY: u32>() -> Result<Box<dyn Passed>> {
    let region = Region::new(64 << 10).context("mapping memory for a lock")?;
    let lock = L::new(&region, Shape { cpus: CPUS, locks: 1 });
    let guarded = region.array("guarded", 1);
    Ok(Box::new(Ours::<L, COPY> { lock, guarded }))
}

impl<L: Lock, const COPY: u32> Passed for Ours<L, COPY> {
    fn pass(&self, task: &Task, times: u64) {
        black_box(COPY);
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

struct OursShared<L: SharedLock, const COPY: u32> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

fn ours_shared<L: SharedLock, const COPY: u32>() -> Result<Box<dyn Passed>> {
    let region = Region::new(64 << 10).context("mapping memory for a lock")?;
    let lock = L::new(&region, Shape { cpus: CPUS, locks: 1 });
    let guarded = region.array("guarded", 1);
    Ok(Box::new(OursShared::<L, COPY> { lock, guarded }))
}

/// A pass writes once and reads once.
impl<L: SharedLock, const COPY: u32> Passed for OursShared<L, COPY> {
    fn pass(&self, task: &Task, times: u64) {
        black_box(COPY);
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
