//! Locks and kernel mechanisms, written once and generic over [`Machine`]: the same source
//! runs natively, is searched over all interleavings, and can be timed on a host that is
//! only described. No algorithm knows which.
//!
//! One lock is one file of `locks/`, named as the lock. Its module doc is its manual page,
//! and one line of the list in `locks/mod.rs` makes it known everywhere.

pub mod contract;
pub mod locks;
pub mod mechanisms;

use machine::{Machine, Region};

/// What a computer looks like to an algorithm that sets itself up.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of CPUs, which are numbered from 0.
    pub cpus: usize,
    /// How many locks of a kind there will be.
    pub locks: usize,
}

/// A change of one access that no check can see, and why.
#[derive(Clone, Copy, Debug)]
pub struct Equivalent {
    /// The change, as it is called.
    pub change: &'static str,
    /// A part of the source line of the access.
    pub line: &'static str,
    /// Why it makes no difference.
    pub why: &'static str,
}

/// What a lock hands to its holder, who hands it back to unlock.
#[derive(Debug)]
#[must_use = "the lock wants it back"]
pub struct Hold(pub u32);

/// A lock that one holds at a time. `Mem` lies inside of the data that it guards; `self`
/// has what all locks of the kind share.
pub trait Lock: Sized + Send + Sync + 'static {
    /// Its mutants that are no faults.
    const EQUIVALENT: &'static [Equivalent] = &[];
    /// Whether whoever arrived first enters first; then `lock` tells `Annotation::Arrive`.
    const FIFO: bool;
    /// Whether it minds the memory nodes of CPUs.
    const NODES: bool = false;
    /// The lock itself: zero is unlocked.
    type Mem: machine::Image;

    /// Makes what all locks of this kind share.
    fn new(region: &Region, shape: Shape) -> Self;

    /// Waits until nobody else holds it.
    fn lock<M: Machine>(&self, m: &M, at: &Self::Mem) -> Hold;

    /// Lets go.
    fn unlock<M: Machine>(&self, m: &M, at: &Self::Mem, hold: Hold);

    /// Whether nothing is left in use, where nobody holds or wants any lock.
    fn at_rest<M: Machine>(&self, m: &M, at: &Self::Mem) -> bool;
}

/// A lock that many can hold to read, or one to write.
pub trait SharedLock: Sized + Send + Sync + 'static {
    /// Its mutants that are no faults.
    const EQUIVALENT: &'static [Equivalent] = &[];
    /// Whether all CPUs are alike to it.
    const ALIKE: bool = true;
    /// The lock itself: zero is unlocked.
    type Mem: machine::Image;

    /// Makes what all locks of this kind share.
    fn new(region: &Region, shape: Shape) -> Self;

    /// Waits until nobody writes.
    fn read_lock<M: Machine>(&self, m: &M, at: &Self::Mem) -> Hold;

    /// Lets go after reading.
    fn read_unlock<M: Machine>(&self, m: &M, at: &Self::Mem, hold: Hold);

    /// Waits until nobody else reads or writes.
    fn write_lock<M: Machine>(&self, m: &M, at: &Self::Mem) -> Hold;

    /// Lets go after writing.
    fn write_unlock<M: Machine>(&self, m: &M, at: &Self::Mem, hold: Hold);

    /// Whether nothing is left in use, where nobody holds or wants any lock.
    fn at_rest<M: Machine>(&self, m: &M, at: &Self::Mem) -> bool;
}

/// Several numbers that matter, as one, for `Machine::forget_history`.
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
