//! Cohort lock of ticket locks (C-TKT-TKT): a node keeps the global lock while its CPUs want it, for a while.
//!
//! Dice, Marathe and Shavit, "Lock cohorting: a general technique for designing NUMA locks", 2012.

use own_algorithms::machine::{
    Annotation, Atom, Field, Line, Machine, Ordering, Region, Until, image,
};
use own_algorithms::{Equivalent, Hold, Lock, Shape};

/// Memory nodes with a lock of their own; those beyond share.
const NODES: usize = 8;

image! {
    pub struct Tickets {
        next: Atom<u32>,
        serving: Atom<u32>,
    }

    /// What the lock of a node guards.
    pub struct Passing {
        /// Whether the node has the global lock.
        owns: Field<u32>,
        /// How often it has passed it on since.
        passed: Field<u32>,
    }

    pub struct Local {
        tickets: Line<Tickets>,
        passing: Line<Passing>,
    }

    pub struct OwnMem {
        global: Line<Tickets>,
        locals: [Local; NODES],
    }
}

impl Tickets {
    fn lock<M: Machine>(&self, m: &M, in_line: impl FnOnce()) {
        let mine = self.next.fetch_add(m, 1, Ordering::Relaxed);
        in_line();
        m.await_until(&self.serving, Until::equals(mine), Ordering::Acquire);
    }

    fn unlock<M: Machine>(&self, m: &M) {
        let serving = self.serving.load(m, Ordering::Relaxed);
        self.serving.store(m, serving.wrapping_add(1), Ordering::Release);
    }

    /// How many hold the lock or wait for it.
    fn wanted<M: Machine>(&self, m: &M) -> u32 {
        let next = self.next.load(m, Ordering::Relaxed);
        next.wrapping_sub(self.serving.load(m, Ordering::Relaxed))
    }
}

pub struct OwnLock {
    /// How often a node passes the lock on within itself.
    limit: u32,
}

impl Lock for OwnLock {
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "skipped",
        line: "passing.passed.set(m, 0)",
        why: "a node that has once reached the limit then passes nothing on, which is only slower",
    }];
    const FIFO: bool = false;
    const NUMA_AWARE: bool = true;
    type Mem = OwnMem;

    fn new(_: &Region, shape: Shape) -> OwnLock {
        OwnLock { limit: shape.passes }
    }

    fn bypasses(&self, nodes: u32) -> Option<u32> {
        Some(self.limit * (nodes - 1))
    }

    fn lock<M: Machine>(&self, m: &M, mem: &OwnMem) -> Hold {
        let node = m.node() % NODES;
        let Local { tickets, passing } = &mem.locals[node];
        tickets.lock(m, || ());
        if passing.owns.get(m) == 0 {
            mem.global.lock(m, || m.annotate(Annotation::Arrive));
            passing.passed.set(m, 0);
        }
        Hold(node as u32)
    }

    fn unlock<M: Machine>(&self, m: &M, mem: &OwnMem, Hold(node): Hold) {
        let Local { tickets, passing } = &mem.locals[node as usize];
        let passed = passing.passed.get(m);
        let stays = passed < self.limit && tickets.wanted(m) > 1;
        passing.owns.set(m, u32::from(stays));
        if stays {
            passing.passed.set(m, passed + 1);
        } else {
            mem.global.unlock(m);
        }
        tickets.unlock(m);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &OwnMem) -> bool {
        mem.global.wanted(m) == 0 && mem.locals.iter().all(|local| local.tickets.wanted(m) == 0)
    }
}
