//! Test-and-test-and-set lock with exponential backoff: looks before it tries to take it.
//! After each failure it stays away longer.
//!
//!     0 -> 1    lock, tried only when the word was seen to be 0
//!     1 -> 0    unlock
//!
//! Not fair. Waiters read a shared copy of the line, so the holder works undisturbed; when it
//! unlocks, all see it and one try succeeds. Backing off spreads the others out. The bound of
//! the pause doubles with each failure up to a limit, and the pause is random below it.
//!
//! Rudolph and Segall 1984 (Dynamic decentralized cache schemes); Anderson 1990 (The
//! performance of spin lock alternatives).

use machine::{Atom, Machine, Ordering, Region, Until, image};

use crate::{Equivalent, Hold, Lock, Shape};

/// Turns of a spin loop: the first bound of the pause, and the last.
const PAUSE: (u32, u32) = (8, 1024);

image! {
    /// The lock.
    pub struct TestAndTestAndSetMem {
        locked: Atom<u32>,
    }
}

/// Test-and-test-and-set locks.
#[derive(Debug)]
pub struct TestAndTestAndSet;

impl Lock for TestAndTestAndSet {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, 0, 1,",
            why: "every value but 0 is locked",
        },
        Equivalent {
            change: "no wait",
            line: "m.await_until(&at.locked",
            why: "the exchange decides; it is only tried more often",
        },
    ];
    const FIFO: bool = false;
    type Mem = TestAndTestAndSetMem;

    fn new(_: &Region, _: Shape) -> TestAndTestAndSet {
        TestAndTestAndSet
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &TestAndTestAndSetMem) -> Hold {
        let start = m.history_mark();
        let (mut pause, longest) = PAUSE;
        // 0 -> 1. Pairs with the release in `unlock`.
        while at.locked.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            m.random_backoff(pause);
            pause = longest.min(pause * 2);
            // Relaxed: only a hint that a try may succeed.
            m.await_until(&at.locked, Until::equals(0), Ordering::Relaxed);
            // The length of the pause decides nothing.
            m.forget_history(start, 0);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &TestAndTestAndSetMem, _: Hold) {
        // 1 -> 0
        at.locked.store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &TestAndTestAndSetMem) -> bool {
        at.locked.load(m, Ordering::Relaxed) == 0
    }
}
