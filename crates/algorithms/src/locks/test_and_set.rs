//! Test-and-set lock: whoever finds the word 0 and makes it 1 has the lock.
//!
//!     0 -> 1    lock, by a compare-exchange that is tried again at once
//!     1 -> 0    unlock
//!
//! Not fair: a task can wait forever while others come and go, though some task always gets
//! on. Every try takes the line exclusively, also in vain, so waiters disturb each other and
//! the holder's unlock. What Linux 4.2 fell back to in virtual machines without paravirtual
//! queued locks (virt_queued_spin_lock, a loop around cmpxchg and cpu_relax).
//!
//! Anderson 1990 (The performance of spin lock alternatives).

use machine::{Atom, Machine, Ordering, Region, image};

use crate::{Equivalent, Hold, Lock, Shape};

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
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, 0, 1,",
            why: "every value but 0 is locked",
        },
    ];
    const FIFO: bool = false;
    type Mem = TestAndSetMem;

    fn new(_: &Region, _: Shape) -> TestAndSet {
        TestAndSet
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &TestAndSetMem) -> Hold {
        take(m, at, 1);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &TestAndSetMem, _: Hold) {
        let_go(m, at);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &TestAndSetMem) -> bool {
        at.locked.load(m, Ordering::Relaxed) == 0
    }
}

/// Tries until it has the lock, with a pause of some turns after each failure.
#[inline(always)]
pub(super) fn take<M: Machine>(m: &M, at: &TestAndSetMem, pause: u32) {
    let start = m.history_mark();
    // 0 -> 1. Pairs with the release in `let_go`.
    while at.locked.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
        m.cpu_relax(pause);
        m.forget_history(start, 0);
    }
}

#[inline(always)]
pub(super) fn let_go<M: Machine>(m: &M, at: &TestAndSetMem) {
    // 1 -> 0
    at.locked.store(m, 0, Ordering::Release);
}
