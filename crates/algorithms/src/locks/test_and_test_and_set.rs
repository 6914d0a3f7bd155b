//! Test-and-test-and-set lock with exponential backoff: a waiter reads the word before it retries.
//! It backs off longer after each failure.
//!
//!     0 -> 1    lock, tried first without a look, then only after the word was read as 0
//!     1 -> 0    unlock
//!
//! Not fair. Waiters read a shared copy of the line, so the holder works undisturbed; when it
//! unlocks, all of them see it and one attempt succeeds. Backoff spreads out the others: the pause
//! is random below a bound that doubles with each failure up to a limit.
//!
//! Rudolph and Segall 1984 (Dynamic decentralized cache schemes); Anderson 1990 (The
//! performance of spin lock alternatives).

use machine::{Atom, Machine, Ordering, Region, Until, image};

use crate::{Equivalent, Hold, Lock, Shape, Waits};

/// Turns of a spin loop: the first bound of a pause.
const FIRST_BOUND: u32 = 8;

/// Turns of a spin loop: the last bound of a pause.
const LAST_BOUND: u32 = 1024;

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
            why: "every value but 0 means locked",
        },
        Equivalent {
            change: "no wait",
            line: "m.await_until(&mem.locked",
            why: "the exchange decides; it is only attempted more often",
        },
    ];
    const FIFO: bool = false;
    const WAITS: Waits = Waits::OneWord;
    type Mem = TestAndTestAndSetMem;

    fn new(_: &Region, _: Shape) -> TestAndTestAndSet {
        TestAndTestAndSet
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &TestAndTestAndSetMem) -> Hold {
        let start = m.history_mark();
        let mut pause_bound = FIRST_BOUND;
        // 0 -> 1. Pairs with the release in `unlock`.
        while mem.locked.compare_exchange(m, 0, 1, Ordering::Acquire).is_err() {
            m.random_backoff(pause_bound);
            pause_bound = LAST_BOUND.min(pause_bound * 2);
            // Relaxed: only a hint that an attempt may succeed.
            m.await_until(&mem.locked, Until::equals(0), Ordering::Relaxed);
            // The bound of the pause affects no decision.
            m.forget_history(start, 0);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &TestAndTestAndSetMem, _: Hold) {
        // 1 -> 0
        mem.locked.store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &TestAndTestAndSetMem) -> bool {
        mem.locked.load(m, Ordering::Relaxed) == 0
    }
}
