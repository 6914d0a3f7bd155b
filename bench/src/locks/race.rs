//! A race: tasks, each on its own CPU, that pass one lock after the other, each for a time slice.

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

/// Bytes for one lock and for what all locks of its kind share.
pub const MEMORY: usize = 16 << 10;

/// Passes between two checks of the clock or of the other tasks.
const BATCH: u64 = 256;

/// How long one side runs before the next side.
const SLICE: Duration = Duration::from_millis(1);

/// A task that passes locks.
pub struct Task {
    /// The machine for knee's locks.
    pub native: Native,
    pub cpu: usize,
    /// The random state for the locks by hand.
    random: Cell<u32>,
}

impl Task {
    fn new(cpu: usize) -> Task {
        // The seed of `Native`.
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

/// Tasks that together pass one lock after the other, each for a slice.
pub struct Race<'a> {
    layout: &'a Layout,
    makes: &'a [Make],
    tasks: usize,
    /// The lock of the current slice.
    lock: RwLock<Option<Box<dyn Passed>>>,
    /// Arrivals of all tasks at all meetings.
    arrived: AtomicUsize,
    /// Slices that are over.
    ended: AtomicUsize,
}

/// The result of one task in one slice.
struct SliceResult {
    passes: u64,
    time: Duration,
    /// Passes of all tasks, as counted under the lock.
    counted: u64,
}

impl<'a> Race<'a> {
    /// A race with a slice for each of these locks, with the code of this copy of the program.
    pub fn new(layout: &'a Layout, makes: &'a [Make], tasks: usize) -> Race<'a> {
        let (arrived, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Race { layout, makes, tasks, lock: RwLock::new(None), arrived, ended }
    }

    /// Passes a second in each slice.
    pub fn run(&self) -> Result<Vec<f64>> {
        let region = Region::new(MEMORY).context("mapping memory for a lock")?;
        let results: Vec<Vec<SliceResult>> = thread::scope(|scope| {
            let first = scope.spawn(|| self.join(0, Some(region)));
            let others = (1..self.tasks).map(|cpu| scope.spawn(move || self.join(cpu, None)));
            let tasks: Vec<_> = iter::once(first).chain(others).collect();
            tasks.into_iter().map(|task| task.join().expect("a task passes locks")).collect()
        });
        let rate = |number: usize| {
            let tasks = || results.iter().map(|slices| &slices[number]);
            let passes: u64 = tasks().map(|result| result.passes).sum();
            ensure!(results[0][number].counted == passes, "a lock did not exclude");
            let longest = tasks().map(|result| result.time).max().unwrap_or_default();
            Ok(passes as f64 / longest.as_secs_f64())
        };
        (0..self.makes.len()).map(rate).collect()
    }

    /// Runs one task of the race. The task that has the region makes the locks.
    fn join(&self, cpu: usize, region: Option<Region>) -> Vec<SliceResult> {
        pin(cpu);
        let (task, mut region) = (Task::new(cpu), region.map(Arc::new));
        let slice = |number: usize| {
            if let Some(region) = &mut region {
                self.make(number, region);
            }
            self.meet(2 * number);
            let lock = self.lock.read().expect("no task panics");
            let lock = lock.as_deref().expect("a lock was made before the meeting");
            let Entry { function, lock: state } = lock.entry().within(self.layout);
            let (since, mut passes) = (Instant::now(), 0);
            while !self.is_over(number, cpu, since) {
                // SAFETY: the function is given the lock that it belongs to.
                unsafe { function(state, &task, BATCH) };
                passes += BATCH;
            }
            let time = since.elapsed();
            self.meet(2 * number + 1);
            SliceResult { passes, time, counted: lock.counted() }
        };
        (0..self.makes.len()).map(slice).collect()
    }

    /// Makes the next lock, at the address of the last one.
    fn make(&self, number: usize, region: &mut Arc<Region>) {
        let mut lock = self.lock.write().expect("no task panics");
        *lock = None;
        Arc::get_mut(region).expect("the last lock is gone").clear();
        *lock = Some(self.makes[number](region));
    }

    /// Waits, without sleeping, until all tasks have come to this meeting.
    fn meet(&self, number: usize) {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < (number + 1) * self.tasks {
            spin_loop();
        }
    }

    /// Whether a slice is over. Only the task on CPU 0 reads the clock.
    fn is_over(&self, number: usize, cpu: usize, since: Instant) -> bool {
        if cpu == 0 && since.elapsed() >= SLICE {
            self.ended.store(number + 1, Ordering::Relaxed);
        }
        self.ended.load(Ordering::Relaxed) > number
    }
}

fn pin(cpu: usize) {
    let mask = [1_u64 << cpu];
    // SAFETY: the mask is live. If the CPU is not allowed, the task runs unpinned.
    unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
}
