//! The load of a lock: what its tasks do again and again, natively as in a simulation.
//!
//!     lock ─> read and write the lines that it guards, work ─> unlock ─> work that varies
//!
//! Tasks that start together in the order of their CPUs, work equally long and touch no line would take a FIFO lock
//! in that order for ever. It would pass from neighbour to neighbour: the locality that NUMA-aware locks work for,
//! for nothing. So tasks start at random, their work varies, and the lock guards lines that move with it.

use std::hint::black_box;

use algorithms::Locks;
use machine::{Annotation, Array, Field, Line, Machine, Region, exponential};

/// A cache line that a lock guards.
type DataLine = Line<Field<u64>>;

/// The most lines that all locks together may guard: 256 KiB.
pub const LINES_MAX: usize = 4096;
/// The most locks.
pub const LOCKS_MAX: usize = 1024;

/// What each task does, again and again: takes the lock, works with what it guards, releases it, works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LockLoad {
    /// Mean ns of work between two critical sections.
    pub work_ns: u64,
    /// How the work between two critical sections varies.
    pub variation: Variation,
    /// ns of work inside a critical section.
    pub hold_ns: u64,
    /// How many of 100 operations take a read-write lock to read.
    pub reads: u32,
    /// Locks, of which each operation takes one at random.
    pub locks: usize,
    /// Lines that a critical section writes; one that only reads reads them. Each lock guards its own.
    pub lines_written: usize,
    /// Lines that a critical section reads, and nobody writes.
    pub lines_read: usize,
    /// Tasks of a simulation start at random within this many ns.
    pub start_within_ns: u64,
}

/// How a time varies around its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variation {
    /// Not at all.
    Constant,
    /// Equally often each time from half to one and a half of the mean.
    Uniform,
    /// As the time until the next of independent events.
    Exponential,
}

impl Variation {
    /// All variations.
    pub const ALL: [Variation; 3] =
        [Variation::Constant, Variation::Uniform, Variation::Exponential];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Variation::Constant => "constant",
            Variation::Uniform => "uniform",
            Variation::Exponential => "exp",
        }
    }

    /// A time with this mean.
    #[inline(always)]
    pub fn draw<M: Machine>(self, m: &M, mean_ns: u64) -> u64 {
        match self {
            Variation::Constant => mean_ns,
            Variation::Uniform => mean_ns / 2 + below(m, mean_ns),
            Variation::Exponential => exponential(mean_ns, |bound| m.random(bound)),
        }
    }
}

/// A random number below the bound; 0 if the bound is.
#[inline(always)]
pub fn below<M: Machine>(m: &M, bound: u64) -> u64 {
    let bound = u32::try_from(bound).unwrap_or(u32::MAX);
    u64::from(if bound > 0 { m.random(bound) } else { 0 })
}

impl LockLoad {
    /// A load without chance: all tasks start together, work equally long, and touch nothing that the lock guards.
    pub const fn steady(work_ns: u64, hold_ns: u64, reads: u32) -> LockLoad {
        LockLoad {
            work_ns,
            variation: Variation::Constant,
            hold_ns,
            reads,
            locks: 1,
            lines_written: 0,
            lines_read: 0,
            start_within_ns: 0,
        }
    }

    /// Bytes of a region for these locks and lines: enough for the queue nodes of every kind with the most tasks, and
    /// for locks that have lines for each CPU and for each memory node.
    pub fn region_bytes(&self, cpus: usize) -> usize {
        const LINE: usize = 64;
        let of_a_lock = cpus.next_power_of_two() + self.lines() + 24;
        (1 << 20) + self.locks * of_a_lock * LINE
    }

    /// Lines that each lock guards.
    fn lines(&self) -> usize {
        self.lines_written + self.lines_read
    }

    /// The lock of the next operation, and what it guards.
    #[inline(always)]
    fn pick<'a>(&self, m: &impl Machine, guarded: &'a GuardedLines) -> (usize, &'a [DataLine]) {
        let number = if self.locks > 1 { m.random(self.locks as u32) as usize } else { 0 };
        let from = number * self.lines();
        let data = guarded.0.as_deref().unwrap_or_default();
        (number, data.get(from..from + self.lines()).unwrap_or_default())
    }

    /// Waits for the task's own start.
    pub fn start<M: Machine>(&self, m: &M) {
        if self.start_within_ns > 0 {
            m.work(below(m, self.start_within_ns));
        }
    }

    /// What a task does while it has the lock: alone if it writes, else beside others that read.
    #[inline(always)]
    fn section<M: Machine>(&self, m: &M, data: &[DataLine], writes: bool) {
        m.annotate(if writes { Annotation::Enter } else { Annotation::EnterShared });
        for line in data {
            line.prefetch(m);
        }
        for (index, line) in data.iter().enumerate() {
            let value = black_box(line.get(m));
            if writes && index < self.lines_written {
                line.set(m, value.wrapping_add(1));
            }
        }
        m.work(self.hold_ns);
        m.annotate(if writes { Annotation::Leave } else { Annotation::LeaveShared });
    }
}

/// The lines that the locks of a load guard.
pub struct GuardedLines(Option<Array<DataLine>>);

impl GuardedLines {
    /// Allocates the lines of a load.
    pub fn new(region: &Region, load: &LockLoad) -> GuardedLines {
        let lines = load.locks * load.lines();
        GuardedLines((lines > 0).then(|| region.array("data", lines)))
    }
}

/// An operation: takes a lock, of a read-write lock to read or to write, works with what it guards, releases it, works.
#[inline(always)]
pub fn operation<L: Locks, M: Machine>(m: &M, locks: &L, guarded: &GuardedLines, load: LockLoad) {
    let (number, data) = load.pick(m, guarded);
    if locks.properties().shared && m.random(100) < load.reads {
        let hold = locks.read_lock(m, number);
        load.section(m, data, false);
        locks.read_unlock(m, number, hold);
    } else {
        let hold = locks.lock(m, number);
        load.section(m, data, true);
        locks.unlock(m, number, hold);
    }
    m.work(load.variation.draw(m, load.work_ns));
}
