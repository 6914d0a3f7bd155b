//! Test-and-set lock: the task that changes the word from 0 to 1 has the lock.
//!
//!     0 -> 1    lock, by a compare-exchange that is retried immediately
//!     1 -> 0    unlock
//!
//! Not fair: a task can wait forever while others take the lock, though some task always makes
//! progress. Every attempt takes the line exclusively, even one that fails, so waiters disturb
//! each other and the holder's unlock. Linux 4.2 fell back to this lock in virtual machines
//! without paravirtual queued locks (virt_queued_spin_lock, a loop around cmpxchg and cpu_relax).
//!
//! Anderson 1990 (The performance of spin lock alternatives).

use machine::{Atom, Machine, Ordering, Region, image};

use crate::{Equivalent, Hold, Lock, Shape, Waits};

image! {
    /// The lock.
    pub struct TestAndSetMem {
        locked: Atom<u32>,
    }
}

/// Test-and-set locks.
#[derive(Debug)]
pub struct TestAndSet;

impl Lock for TestAndSet {
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "off by one",
        line: "compare_exchange(m, 0, 1,",
        why: "every value but 0 means locked",
    }];
    const FIFO: bool = false;
    const WAITS: Waits = Waits::OneWord;
    type Mem = TestAndSetMem;

    fn new(_: &Region, _: Shape) -> TestAndSet {
        TestAndSet
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &TestAndSetMem) -> Hold {
        acquire(m, mem, 1);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &TestAndSetMem, _: Hold) {
        release(m, mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &TestAndSetMem) -> bool {
        mem.locked.load(m, Ordering::Relaxed) == 0
    }
}

/// Tries until it has the lock, and pauses for this many turns after each failure.
#[inline(always)]
pub(super) fn acquire<M: Machine>(m: &M, mem: &TestAndSetMem, pause: u32) {
    let start = m.history_mark();
    // 0 -> 1. Pairs with the release in `release`.
    while mem.locked.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
        m.cpu_relax(pause);
        m.forget_history(start, 0);
    }
}

#[inline(always)]
pub(super) fn release<M: Machine>(m: &M, mem: &TestAndSetMem) {
    // 1 -> 0
    mem.locked.store(m, 0, Ordering::Release);
}
