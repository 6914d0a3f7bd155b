//! CLH lock: a queue without links, in which each waiter spins on the node before its own.
//!
//!     tail = 0            the lock was never taken
//!     tail = n            n is the node of the last CPU in the queue
//!     n.locked = 1        n's owner holds or wants the lock
//!     n.locked = 0        n's owner has unlocked
//!     p -> n              lock: waits until p.locked is 0; p is then a spare node
//!     n.locked 1 -> 0     unlock: n now belongs to the CPU that waits for it
//!
//! First in, first out. Unlocking is one store and never waits for a newcomer to link itself,
//! as an MCS lock must. Nodes migrate: each CPU leaves its own node behind and takes over its
//! predecessor's, so a waiter may spin on memory of a remote NUMA node. A lock keeps the queue
//! node of its last holder, so each lock needs one node beyond those of the CPUs: the first CPU
//! ever to take a lock has no predecessor and gets a fresh node.
//!
//! Each CPU has its spare node and those that it holds locks with on a line of its own: what only
//! one CPU needs moves with no lock. Scott's variant, with the holder's node in the lock, costs
//! each holder one transfer more. A CPU can hold at most four locks here.
//!
//! Craig 1993 (Building FIFO and priority-queueing spin locks from atomic swap); Magnusson,
//! Landin and Hagersten 1994 (Queue locks on cache coherent multiprocessors).

use machine::{Annotation, Array, Atom, Field, Line, Machine, Ordering, Region, Until, image};

use crate::{Hold, Lock, Shape};

/// Locks that one CPU can hold at the same time.
const HELD_MAX: usize = 4;

image! {
    /// The lock. A node's name is its index plus one.
    pub struct ClhMem {
        #[cpu(0)]
        tail: Atom<u32>,
    }

    /// A queue node.
    pub struct ClhNode {
        locked: Atom<u32>,
    }

    /// What only one CPU reads.
    pub struct OwnNodes {
        /// The node that the CPU queues next; 0 is the node of its own number.
        #[cpu(0)]
        spare: Field<u32>,
        /// The nodes with which it holds locks.
        #[cpu(0)]
        held: [Field<u32>; HELD_MAX],
        /// How many locks it holds.
        count: Field<u32>,
    }
}

/// CLH locks, and all queue nodes.
#[derive(Debug)]
pub struct Clh {
    /// One for each CPU, then one for each lock.
    nodes: Array<Line<ClhNode>>,
    /// One for each CPU.
    own: Array<Line<OwnNodes>>,
    cpus: usize,
    /// How many of the locks' nodes are in use.
    handed_out: Array<Atom<u32>>,
}

impl Clh {
    #[inline(always)]
    fn locked(&self, node: u32) -> &Atom<u32> {
        &self.nodes[node as usize - 1].locked
    }

    /// A node that no CPU ever had.
    #[cold]
    fn fresh<M: Machine>(&self, m: &M) -> u32 {
        // Relaxed: no other CPU gets this node, and its memory is still zero.
        let index = self.handed_out[0].fetch_add(m, 1, Ordering::Relaxed);
        (self.cpus as u32) + index + 1
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
            own: region.per_cpu("own", shape.cpus),
            cpus: shape.cpus,
            handed_out: region.array("handed_out", 1),
        }
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &ClhMem) -> Hold {
        let own = &self.own[m.cpu()];
        let mine = match own.spare.get(m) {
            0 => m.cpu() as u32 + 1,
            node => node,
        };
        // No other CPU can reach the node yet.
        m.init(self.locked(mine), 1);
        // p -> n. Release: our node is marked before any CPU waits for it. Acquire: so is our
        // predecessor's.
        let before = mem.tail.swap(m, mine, Ordering::AcqRel);
        m.annotate(Annotation::Arrive);
        if before == 0 {
            own.spare.set(m, self.fresh(m));
        } else {
            // Pairs with the release in `unlock`.
            m.await_until(self.locked(before), Until::equals(0), Ordering::Acquire);
            own.spare.set(m, before);
        }
        let index = own.count.get(m);
        own.held[index as usize].set(m, mine);
        own.count.set(m, index + 1);
        Hold(index)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, _: &ClhMem, Hold(index): Hold) {
        let own = &self.own[m.cpu()];
        let mine = own.held[index as usize].get(m);
        own.count.set(m, own.count.get(m) - 1);
        // n.locked 1 -> 0. Pairs with the acquire of the CPU behind us.
        self.locked(mine).store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &ClhMem) -> bool {
        let last = mem.tail.load(m, Ordering::Relaxed);
        let is_free = last == 0 || self.locked(last).load(m, Ordering::Relaxed) == 0;
        is_free && self.own.iter().all(|own| own.count.get(m) == 0)
    }
}
