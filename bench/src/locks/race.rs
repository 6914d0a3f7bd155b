//! Tasks on CPUs of their own that pass one lock after the other, for a slice each.

use std::cell::Cell;
use std::hint::spin_loop;
use std::iter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use machine::{Native, Region};

use super::layout::Layout;
use super::{Entry, Make, Passed};

/// Bytes for one lock and what its kind shares.
pub const MEMORY: usize = 16 << 10;

/// Passes between two looks at the clock or at the others.
const BATCH: u64 = 256;

/// How long one side runs until another's turn.
const SLICE: Duration = Duration::from_millis(1);

/// Who passes.
pub struct Task {
    /// The machine of our locks.
    pub native: Native,
    pub cpu: usize,
    /// Of the locks by hand.
    random: Cell<u32>,
}

impl Task {
    fn new(cpu: usize) -> Task {
        // As `Native` begins.
        let random = Cell::new((cpu as u32).wrapping_mul(0x9E37_79B9) | 1);
        Task { native: Native::new(cpu, 0), cpu, random }
    }

    /// Xorshift (Marsaglia 2003).
    #[inline(always)]
    pub fn random(&self, below: u32) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        ((u64::from(x) * u64::from(below)) >> 32) as u32
    }
}

/// Tasks that pass the same lock for a slice, and then the next.
pub struct Race<'a> {
    layout: &'a Layout,
    makes: &'a [Make],
    tasks: usize,
    /// The lock of the slice.
    lock: RwLock<Option<Box<dyn Passed>>>,
    /// Of all tasks, at all meetings.
    arrived: AtomicUsize,
    /// Slices that are over.
    ended: AtomicUsize,
}

/// One task in one slice.
struct Told {
    passes: u64,
    time: Duration,
    /// How often the lock was passed, if all others were done.
    counted: u64,
}

impl<'a> Race<'a> {
    /// A slice for each of these locks, with the code of this copy of the program.
    pub fn new(layout: &'a Layout, makes: &'a [Make], tasks: usize) -> Race<'a> {
        let (arrived, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Race { layout, makes, tasks, lock: RwLock::new(None), arrived, ended }
    }

    /// Passes a second in each slice.
    pub fn run(&self) -> Result<Vec<f64>> {
        let region = Region::new(MEMORY).context("mapping memory for a lock")?;
        let told: Vec<Vec<Told>> = thread::scope(|scope| {
            let first = scope.spawn(|| self.join(0, Some(region)));
            let others = (1..self.tasks).map(|cpu| scope.spawn(move || self.join(cpu, None)));
            let tasks: Vec<_> = iter::once(first).chain(others).collect();
            tasks.into_iter().map(|task| task.join().expect("a task passes locks")).collect()
        });
        let rate = |number: usize| {
            let of_all = || told.iter().map(|slices| &slices[number]);
            let passes: u64 = of_all().map(|told| told.passes).sum();
            ensure!(told[0][number].counted == passes, "a lock did not exclude");
            let longest = of_all().map(|told| told.time).max().unwrap_or_default();
            Ok(passes as f64 / longest.as_secs_f64())
        };
        (0..self.makes.len()).map(rate).collect()
    }

    /// Takes part. Whoever has the region makes the locks.
    fn join(&self, cpu: usize, region: Option<Region>) -> Vec<Told> {
        pin(cpu);
        let (task, mut region) = (Task::new(cpu), region.map(Arc::new));
        let slice = |number: usize| {
            if let Some(region) = &mut region {
                self.make(number, region);
            }
            self.meet(2 * number);
            let lock = self.lock.read().expect("nobody panics");
            let lock = lock.as_deref().expect("it was made before they met");
            let Entry { function, lock: state } = lock.entry().within(self.layout);
            let (since, mut passes) = (Instant::now(), 0);
            while !self.is_over(number, cpu, since) {
                // SAFETY: the function is given the lock that it belongs to.
                unsafe { function(state, &task, BATCH) };
                passes += BATCH;
            }
            let time = since.elapsed();
            self.meet(2 * number + 1);
            Told { passes, time, counted: lock.counted() }
        };
        (0..self.makes.len()).map(slice).collect()
    }

    /// The next lock, where the one before was.
    fn make(&self, number: usize, region: &mut Arc<Region>) {
        let mut lock = self.lock.write().expect("nobody panics");
        *lock = None;
        Arc::get_mut(region).expect("the lock before is gone").clear();
        *lock = Some(self.makes[number](region));
    }

    /// Waits, without sleeping, until all have come to a place.
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
