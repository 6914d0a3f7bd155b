//! Per-node read-write lock: readers count themselves per memory node, writers take a cohort lock.
//!
//!     readers[node]     readers on CPUs of this node, and readers that are about to look at `writing`
//!     writing = 1       a writer is inside, or waits for the readers that are
//!     impatient         readers that were turned away too often: writers do not queue now
//!
//!     read     readers[own] + 1 ──> writing = 0 ────────────────────────────> inside
//!                  ^      └───────> writing = 1 ──> readers[own] - 1 ──┐
//!                  └──── wait until writing = 0 <── impatient + 1 if that was once too often
//!     write    wait until impatient = 0 ──> cohort lock ──> writing = 1 ──> wait until each readers[node] = 0
//!     unlock   readers[own] - 1;                            writing = 0 ──> cohort unlock
//!
//! Reading touches one counter of the own node and a line that only writers change, so it scales over nodes; within
//! a node the counter's line travels. Writing costs a line transfer and a wait for each node. Writers go first: a
//! reader that comes while one is inside waits. No reader waits for ever: once it is impatient, each CPU can write at
//! most once more before it.
//!
//! Calciu, Dice, Lev, Luchangco, Marathe and Shavit 2013 (NUMA-aware reader-writer locks, PPoPP): C-RW-WP, with one
//! counter per node. There a reader asks whether the cohort lock is held; here the writer that holds it sets a word,
//! since no single word of the cohort lock says so. Between two writers that word is 0 for a moment, in which readers
//! may enter.

use machine::{Atom, Line, Machine, Ordering, Region, Until, image};

use super::cohort::{Cohort, CohortMem, NODES};
use crate::{Equivalent, FULL_BARRIER, Hold, Lock, Shape, SharedLock, Waits};

image! {
    /// The lock.
    pub struct PerNodeReadWriteMem {
        writers: CohortMem,
        writing: Line<Atom<u32>>,
        impatient: Line<Atom<u32>>,
        readers: [Line<Atom<u32>>; NODES],
    }
}

/// Per-node read-write locks.
#[derive(Debug)]
pub struct PerNodeReadWrite {
    writers: Cohort,
    /// How often a reader is turned away before it keeps writers from queueing.
    patience: u32,
}

impl SharedLock for PerNodeReadWrite {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "no wait",
            line: "m.await_until(&mem.impatient",
            why: "it only bounds how often a reader is turned away",
        },
        Equivalent {
            change: "off by one",
            line: "mem.writing.store(m, 1",
            why: "every value but 0 means that a task writes",
        },
        Equivalent { change: "no acquire", line: "readers.fetch_add(m, 1,", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "readers.fetch_add(m, 1,", why: FULL_BARRIER },
        Equivalent {
            change: "no wait",
            line: "m.await_until(&mem.writing",
            why: "`enter` decides; it is only attempted more often",
        },
    ];
    const NUMA_AWARE: bool = true;
    const WAITS: Waits = Waits::OneWord;
    type Mem = PerNodeReadWriteMem;

    fn new(region: &Region, shape: Shape) -> PerNodeReadWrite {
        PerNodeReadWrite { writers: Cohort::new(region, shape), patience: shape.passes }
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, mem: &PerNodeReadWriteMem) -> Hold {
        let node = m.node() % NODES;
        if !enter(m, mem, &mem.readers[node]) {
            self.read_contended(m, mem, &mem.readers[node]);
        }
        Hold(node as u32)
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, mem: &PerNodeReadWriteMem, Hold(node): Hold) {
        // r -> r-1. Pairs with the acquire in `write_lock`.
        mem.readers[node as usize].fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release);
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, mem: &PerNodeReadWriteMem) -> Hold {
        // Relaxed: it only delays us.
        m.await_until(&mem.impatient, Until::equals(0), Ordering::Relaxed);
        let hold = self.writers.lock(m, &mem.writers);
        // 0 -> 1. SeqCst: a reader that does not see this is counted before we look. Pairs with `enter`.
        mem.writing.store(m, 1, Ordering::SeqCst);
        for readers in &mem.readers {
            // Pairs with the release in `read_unlock`.
            m.await_until(readers, Until::equals(0), Ordering::SeqCst);
        }
        hold
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, mem: &PerNodeReadWriteMem, hold: Hold) {
        // 1 -> 0. Pairs with the load in `enter`.
        mem.writing.store(m, 0, Ordering::Release);
        self.writers.unlock(m, &mem.writers, hold);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &PerNodeReadWriteMem) -> bool {
        let is_zero = |word: &Line<Atom<u32>>| word.load(m, Ordering::Relaxed) == 0;
        let words_are_zero = is_zero(&mem.writing) && is_zero(&mem.impatient);
        words_are_zero && mem.readers.iter().all(is_zero) && self.writers.at_rest(m, &mem.writers)
    }
}

/// Counts a reader. Returns whether no task writes: otherwise the reader must back out.
#[inline(always)]
fn enter<M: Machine>(m: &M, mem: &PerNodeReadWriteMem, readers: &Atom<u32>) -> bool {
    // r -> r+1. SeqCst, both: a writer that does not see us has set `writing` before we look. Pairs with the store in
    // `write_lock`, the load also with the release in `write_unlock`.
    readers.fetch_add(m, 1, Ordering::SeqCst);
    mem.writing.load(m, Ordering::SeqCst) == 0
}

impl PerNodeReadWrite {
    #[cold]
    fn read_contended<M: Machine>(
        &self,
        m: &M,
        mem: &PerNodeReadWriteMem,
        readers: &Atom<u32>,
    ) {
        let start = m.history_mark();
        let mut turned_away = 0;
        loop {
            // r -> r-1. Relaxed: we have read nothing.
            readers.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Relaxed);
            turned_away += 1;
            if turned_away == self.patience + 1 {
                // Relaxed, as below: it only delays writers.
                mem.impatient.fetch_add(m, 1, Ordering::Relaxed);
            }
            m.forget_history(start, turned_away.min(self.patience + 1).into());
            // Relaxed: `enter` looks again.
            m.await_until(&mem.writing, Until::equals(0), Ordering::Relaxed);
            if enter(m, mem, readers) {
                break;
            }
        }
        if turned_away > self.patience {
            mem.impatient.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Relaxed);
        }
    }
}
