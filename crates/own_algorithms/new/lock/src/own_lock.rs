//! own_lock: a ticket lock to start from. A task takes a number and waits until that number is served.
//!
//!     next, serving     n tickets are out, ticket s holds the lock; n = s: unlocked
//!     n, s -> n+1, s    lock: ticket n is mine
//!     n, s -> n, s+1    unlock
//!
//! This comment is the manual page. Replace the lock by your own, keep the type's name, and run `make check`.

use own_algorithms::machine::{Annotation, Atom, Machine, Ordering, Region, Until, image};
use own_algorithms::{Hold, Lock, Shape};

image! {
    /// The memory of one lock, zero when unlocked. For cache lines of their own: `Line<Atom<u32>>`.
    pub struct OwnMem {
        next: Atom<u32>,
        serving: Atom<u32>,
    }
}

/// What all locks of this kind share. Queue nodes would be here: `region.per_cpu("nodes", shape.cpus)`.
pub struct OwnLock;

impl Lock for OwnLock {
    /// First in, first out: then the check finds a task that overtakes another.
    const FIFO: bool = true;
    type Mem = OwnMem;

    fn new(_region: &Region, _shape: Shape) -> OwnLock {
        OwnLock
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &OwnMem) -> Hold {
        let mine = mem.next.fetch_add(m, 1, Ordering::Relaxed);
        // From here on nobody may overtake.
        m.annotate(Annotation::Arrive);
        // Waiting is an operation of the machine, never a loop over loads. Pairs with the release in `unlock`.
        m.await_until(&mem.serving, Until::equals(mine), Ordering::Acquire);
        // What `unlock` needs to know: a number.
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &OwnMem, _hold: Hold) {
        let serving = mem.serving.load(m, Ordering::Relaxed);
        mem.serving.store(m, serving.wrapping_add(1), Ordering::Release);
    }

    /// Whether everything is free again, when no task holds or wants the lock.
    fn at_rest<M: Machine>(&self, m: &M, mem: &OwnMem) -> bool {
        mem.next.load(m, Ordering::Relaxed) == mem.serving.load(m, Ordering::Relaxed)
    }
}
