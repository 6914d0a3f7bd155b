//! own_lock: a read-write lock to start from. Readers count themselves in one word, which a writer takes whole.
//!
//!     0: unlocked; 1 to 2^31 - 1: so many tasks read; WRITING: a task writes
//!
//!     n -> n+1         read_lock: no task writes
//!     n -> n-1         read_unlock
//!     0 -> WRITING     write_lock: no task reads or writes
//!     WRITING -> 0     write_unlock
//!
//! Unfair: readers that keep coming keep a writer out for ever. This comment is the manual page. Replace the lock by your
//! own, keep the type's name, and run `make check`.

use own_algorithms::machine::{Atom, Machine, Ordering, Region, Until, image};
use own_algorithms::{Equivalent, Hold, Shape, SharedLock};

image! {
    /// The memory of one lock, zero when unlocked. For cache lines of their own: `Line<Atom<u32>>`.
    pub struct OwnMem {
        state: Atom<u32>,
    }
}

const WRITING: u32 = 1 << 31;

/// What all locks of this kind share. Counters of each CPU would be here: `region.per_cpu("readers", shape.cpus)`.
pub struct OwnLock;

impl SharedLock for OwnLock {
    /// Mutants that break nothing, each with the reason: `make mutants` lists the others.
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "no wait",
            line: "m.await_until(&mem.state, Until::equals(0)",
            why: "the exchange decides; it is only attempted more often",
        },
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, 0, WRITING,",
            why: "whatever the other bits are, the highest one keeps everybody out until the store of 0",
        },
    ];
    type Mem = OwnMem;

    fn new(_region: &Region, _shape: Shape) -> OwnLock {
        OwnLock
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, mem: &OwnMem) -> Hold {
        let start = m.history_mark();
        loop {
            // Waiting is an operation of the machine, never a loop over loads. Relaxed: the exchange acquires.
            let readers = m.await_until(&mem.state, Until::clear(WRITING), Ordering::Relaxed);
            // n -> n+1. Pairs with the release in `write_unlock`.
            let counted = mem.state.compare_exchange(m, readers, readers + 1, Ordering::Acquire);
            if counted.is_ok() {
                // What `read_unlock` needs to know: a number.
                return Hold(0);
            }
            // An attempt that failed leaves nothing behind: the search need not tell apart how many there were.
            m.forget_history(start, 0);
        }
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, mem: &OwnMem, _hold: Hold) {
        // n -> n-1. Pairs with the acquire in `write_lock`.
        mem.state.fetch_add(m, 1u32.wrapping_neg(), Ordering::Release);
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, mem: &OwnMem) -> Hold {
        let start = m.history_mark();
        loop {
            m.await_until(&mem.state, Until::equals(0), Ordering::Relaxed);
            // 0 -> WRITING. Pairs with the releases of both unlocks.
            if mem.state.compare_exchange(m, 0, WRITING, Ordering::Acquire).is_ok() {
                return Hold(0);
            }
            m.forget_history(start, 0);
        }
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, mem: &OwnMem, _hold: Hold) {
        // WRITING -> 0
        mem.state.store(m, 0, Ordering::Release);
    }

    /// Whether everything is free again, when no task holds or wants the lock.
    fn at_rest<M: Machine>(&self, m: &M, mem: &OwnMem) -> bool {
        mem.state.load(m, Ordering::Relaxed) == 0
    }
}
