//! CLH lock: a queue without links, in which each waiter spins on the node before its own.
//!
//!     tail = 0            nobody ever had the lock
//!     tail = n            n is the node of the last in the queue
//!     n.locked = 1, 0     its owner holds or wants the lock; has let go
//!     p -> n              lock: waits until p.locked is 0, and then p is a spare node
//!     n.locked 1 -> 0     unlock: n now belongs to whoever waits for it
//!
//! First in, first out. Unlocking is one store and never waits for a newcomer to link itself,
//! as an MCS lock must. Nodes wander: each task leaves its own behind and takes the one
//! before it, so a waiter may spin on memory of another node of the computer. A lock keeps the
//! node of its last holder, so each lock needs one node beside those of the CPUs: whoever
//! takes the lock for the first time finds none to take and gets a fresh one.
//!
//! Craig 1993 (Building FIFO and priority-queueing spin locks from atomic swap); Magnusson,
//! Landin and Hagersten 1994 (Queue locks on cache coherent multiprocessors); with the head in
//! the lock as in Scott 2013 (Shared-Memory Synchronization, 4.3.2).

use machine::{Array, Atom, Field, Line, Machine, Annotation, Ordering, Region, Until, image};

use crate::{Hold, Lock, Shape};

image! {
    /// The lock. A node is named by its index plus one.
    pub struct ClhMem {
        #[cpu(0)]
        tail: Atom<u32>,
        /// The holder's node. The lock guards it.
        #[cpu(0)]
        head: Field<u32>,
    }

    /// A node, and beside those of CPUs which one the CPU would bring next.
    pub struct Node {
        locked: Atom<u32>,
        /// 0: this one. Only its CPU looks at it.
        #[cpu(0)]
        spare: Field<u32>,
    }
}

/// CLH locks, and all nodes.
#[derive(Debug)]
pub struct Clh {
    /// Those of CPUs, and then one for each lock, to be handed out.
    nodes: Array<Line<Node>>,
    cpus: usize,
    handed_out: Array<Atom<u32>>,
}

impl Clh {
    #[inline(always)]
    fn locked(&self, node: u32) -> &Atom<u32> {
        &self.nodes[node as usize - 1].locked
    }

    #[cold]
    fn fresh<M: Machine>(&self, m: &M) -> u32 {
        // Relaxed: the node is nobody else's, and zero as memory begins.
        let taken = self.handed_out[0].fetch_add(m, 1, Ordering::Relaxed);
        (self.cpus as u32) + taken + 1
    }
}

impl Lock for Clh {
    const FIFO: bool = true;
    type Mem = ClhMem;

    fn new(region: &Region, shape: Shape) -> Clh {
        let cpus = region.per_cpu("node", shape.cpus);
        let fresh = region.array("fresh", shape.locks);
        Clh {
            nodes: Array::joined(&cpus, &fresh),
            cpus: shape.cpus,
            handed_out: region.array("handed_out", 1),
        }
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &ClhMem) -> Hold {
        let spare = &self.nodes[m.cpu()].spare;
        let mine = match spare.get(m) {
            0 => m.cpu() as u32 + 1,
            node => node,
        };
        // Nobody else knows the node yet.
        m.init(self.locked(mine), 1);
        // p -> n. Release: the node is marked before anybody waits for it. Acquire: so is the
        // one before us.
        let before = at.tail.swap(m, mine, Ordering::AcqRel);
        m.annotate(Annotation::Arrive);
        if before == 0 {
            spare.set(m, self.fresh(m));
        } else {
            // Pairs with the release in `unlock`.
            m.await_until(self.locked(before), Until::equals(0), Ordering::Acquire);
            spare.set(m, before);
        }
        at.head.set(m, mine);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &ClhMem, _: Hold) {
        let mine = at.head.get(m);
        // n.locked 1 -> 0. Pairs with the acquire of the one behind us.
        self.locked(mine).store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &ClhMem) -> bool {
        let last = at.tail.load(m, Ordering::Relaxed);
        last == 0 || self.locked(last).load(m, Ordering::Relaxed) == 0
    }
}
