//! Anderson's array lock: each waiter spins on a line of its own.
//!
//!     next           the number of the next turn
//!     slots[i]       the turn that is served, of those that wait at slot i: i, i + SLOTS, …
//!
//! T. E. Anderson, "The performance of spin lock alternatives for shared-memory multiprocessors", 1990.

use own_algorithms::machine::{Annotation, Atom, Line, Machine, Ordering, Region, Until, image};
use own_algorithms::{Hold, Lock, Shape};

/// As many as tasks at the most, and a power of two, so that turns may wrap around.
const SLOTS: usize = 128;

image! {
    pub struct OwnMem {
        next: Line<Atom<u32>>,
        slots: [Line<Atom<u32>>; SLOTS],
    }
}

pub struct OwnLock;

fn slot(mem: &OwnMem, turn: u32) -> &Atom<u32> {
    &mem.slots[turn as usize % SLOTS]
}

impl Lock for OwnLock {
    const FIFO: bool = true;
    type Mem = OwnMem;

    fn new(_: &Region, shape: Shape) -> OwnLock {
        assert!(shape.tasks <= SLOTS, "{} tasks need as many slots", shape.tasks);
        OwnLock
    }

    fn lock<M: Machine>(&self, m: &M, mem: &OwnMem) -> Hold {
        let turn = mem.next.fetch_add(m, 1, Ordering::Relaxed);
        m.annotate(Annotation::Arrive);
        m.await_until(slot(mem, turn), Until::equals(turn), Ordering::Acquire);
        Hold(turn)
    }

    fn unlock<M: Machine>(&self, m: &M, mem: &OwnMem, Hold(turn): Hold) {
        let next = turn.wrapping_add(1);
        slot(mem, next).store(m, next, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &OwnMem) -> bool {
        let next = mem.next.load(m, Ordering::Relaxed);
        slot(mem, next).load(m, Ordering::Relaxed) == next
    }
}
