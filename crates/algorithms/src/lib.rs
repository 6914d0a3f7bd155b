//! Locks and kernel mechanisms, written once and generic over [`Machine`]: the same source
//! runs natively, in a checker of all interleavings, and on a simulated host. No algorithm knows
//! which.
//!
//! Each lock is one file of `locks/`, named after the lock. Its module doc is its manual page.
//! One line of the list in `locks/mod.rs` registers it everywhere.

#![warn(missing_docs)]

pub mod contract;
pub mod locks;
pub mod mechanisms;
mod placed;

pub use placed::{Locks, LocksVisitor, Properties, place};

use machine::{Machine, Region};

/// The numbers that an algorithm needs to allocate its memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of CPUs, which are numbered from 0.
    pub cpus: usize,
    /// Number of tasks, which are numbered from 0.
    pub tasks: usize,
    /// Number of locks of the same kind.
    pub locks: usize,
    /// How often a NUMA-aware lock may be passed on within a node while others wait. Few in searches, which would
    /// not get to the end of many.
    pub passes: u32,
}

impl Shape {
    /// Locks that tasks use for long, one task on each CPU.
    pub const fn new(cpus: usize, locks: usize) -> Shape {
        Shape { cpus, tasks: cpus, locks, passes: 64 }
    }

    /// Locks that are searched, with one task on each CPU.
    pub const fn searched(cpus: usize, locks: usize) -> Shape {
        Shape { cpus, tasks: cpus, locks, passes: 1 }
    }
}

/// An equivalent mutant: a change of one access that no check can detect, because it breaks nothing.
#[derive(Clone, Copy, Debug)]
pub struct Equivalent<T = &'static str> {
    /// The name of the change.
    pub change: T,
    /// A part of the source line of the access.
    pub line: T,
    /// Why the change breaks nothing.
    pub why: T,
}

const FULL_BARRIER: &str = "it only orders atomic accesses, for which every read-modify-write is \
                            a full barrier, here and on x86";

const IN_ORDER: &str = "it only orders atomic accesses, which stay in order here and on x86";

/// What a lock gives to its holder, who gives it back to unlock.
#[derive(Debug)]
#[must_use = "the lock needs it to unlock"]
pub struct Hold(pub u32);

/// How the waiters of a lock wait, of those that wait long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Each spins on a cache line of its own.
    OwnLine,
    /// All, or all of a memory node, spin on one word.
    OneWord,
    /// They sleep.
    Asleep,
}

/// A lock with one holder at a time. `Mem` lies within the data that it guards; `self` has what
/// all locks of the kind share, such as queue nodes.
pub trait Lock: Sized + Send + Sync + 'static {
    /// The mutants of this lock that break nothing.
    const EQUIVALENT: &'static [Equivalent] = &[];
    /// Whether tasks enter in the order of their arrival; `lock` then reports
    /// `Annotation::Arrive`.
    const FIFO: bool;
    /// Whether the lock treats all CPUs alike, and says of each word whether it names a CPU, so that the checker may
    /// exchange CPUs.
    const SYMMETRIC: bool = true;
    /// Whether the lock distinguishes CPUs by their memory nodes.
    const NUMA_AWARE: bool = false;
    /// How its waiters wait.
    const WAITS: Waits = Waits::OwnLine;
    /// The lock itself: zero is unlocked.
    type Mem: machine::Image;

    /// Allocates what all locks of this kind share.
    fn new(region: &Region, shape: Shape) -> Self;

    /// Bytes of the region that a lock with large tables needs, besides those that are there for any lock.
    fn more_bytes(_shape: Shape) -> usize {
        0
    }

    /// How many tasks may enter before one that has arrived, besides those that arrived before it, with CPUs on this
    /// many memory nodes. `None` where nothing bounds them.
    fn bypasses(&self, _nodes: u32) -> Option<u32> {
        Self::FIFO.then_some(0)
    }

    /// Waits until the lock is free, and takes it.
    fn lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold;

    /// Releases the lock.
    fn unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, hold: Hold);

    /// Whether everything is free again. Called only when no task holds or wants any lock.
    fn at_rest<M: Machine>(&self, m: &M, mem: &Self::Mem) -> bool;
}

/// A lock that any number of readers or one writer can hold.
pub trait SharedLock: Sized + Send + Sync + 'static {
    /// The mutants of this lock that break nothing.
    const EQUIVALENT: &'static [Equivalent] = &[];
    /// Whether the lock treats all CPUs alike, so that the checker may exchange them.
    const SYMMETRIC: bool = true;
    /// Whether the lock distinguishes CPUs by their memory nodes.
    const NUMA_AWARE: bool = false;
    /// How its waiters wait.
    const WAITS: Waits = Waits::OwnLine;
    /// The lock itself: zero is unlocked.
    type Mem: machine::Image;

    /// Allocates what all locks of this kind share.
    fn new(region: &Region, shape: Shape) -> Self;

    /// Bytes of the region that a lock with large tables needs, besides those that are there for any lock.
    fn more_bytes(_shape: Shape) -> usize {
        0
    }

    /// Brings a zeroed lock into its first state, where there are several of the kind.
    fn prepare(&self, mem: &Self::Mem) {
        let _ = mem;
    }

    /// Waits until no task writes, and takes the lock to read.
    fn read_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold;

    /// Releases the lock after reading.
    fn read_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, hold: Hold);

    /// Waits until no other task reads or writes, and takes the lock to write.
    fn write_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold;

    /// Releases the lock after writing.
    fn write_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, hold: Hold);

    /// Whether everything is free again. Called only when no task holds or wants any lock.
    fn at_rest<M: Machine>(&self, m: &M, mem: &Self::Mem) -> bool;
}

/// One hash of several live numbers, for `Machine::forget_history`. Inlined, so that a native task, which
/// forgets nothing, does not compute it.
#[inline]
fn digest(parts: impl IntoIterator<Item = u64>) -> u64 {
    // FNV-1a with 64 bits, word by word.
    parts.into_iter().fold(0xCBF2_9CE4_8422_2325, |hash, part| {
        ((hash ^ part) ^ (hash >> 29)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// The first sentence of a manual page, on one line.
fn summary(manual: &str) -> String {
    let paragraph = manual.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let first = paragraph.split(". ").next().unwrap_or_default();
    first.trim_end_matches('.').to_string()
}

/// The manual page of an algorithm: the module doc of its file.
pub fn manual(source: &str) -> String {
    source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect::<Vec<_>>()
        .join("\n")
}
