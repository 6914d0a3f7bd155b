//! MCS lock: a queue of nodes, in which each waiter spins on its own line.
//!
//!     tail = 0          unlocked
//!     tail = n          locked; n is the last in the queue, maybe the holder itself
//!     0 -> n            lock, uncontended
//!     p -> n            lock: n links itself behind p, and waits for its turn
//!     n -> 0            unlock, no waiter behind
//!     n.next = m        unlock: it is m's turn
//!
//! First in, first out. An unlock costs one line transfer however many CPUs wait: throughput
//! stays flat where a ticket lock's collapses. It costs more while at most two CPUs want the
//! lock. A holder keeps its node until it unlocks, so a CPU can hold at most four locks here.
//!
//! Mellor-Crummey and Scott 1991 (Algorithms for scalable synchronization on shared-memory
//! multiprocessors).

use machine::{Annotation, Atom, Machine, Ordering, Region, Until, image};

use super::nodes::QueueNodes;
use crate::{Equivalent, Hold, Lock, Shape};

image! {
    /// The lock.
    pub struct McsMem {
        #[cpu(2)]
        tail: Atom<u32>,
    }
}

/// MCS locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct Mcs(QueueNodes);

impl Lock for Mcs {
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "off by one",
        line: ".locked.store(m, 1,",
        why: "every value but 0 means that it is the waiter's turn",
    }];
    const FIFO: bool = true;
    type Mem = McsMem;

    fn new(region: &Region, shape: Shape) -> Mcs {
        Mcs(QueueNodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &McsMem) -> Hold {
        let taken = self.0.take(m);
        let (index, mine, node) = taken.expect("a CPU holds or wants four locks at most");
        m.init(&node.next, 0);
        m.init(&node.locked, 0);
        // p -> n. Release: our node is ready for the next waiter. Acquire: our predecessor's node
        // is ready too, or, if there is none, we see what the last holder did (`unlock`).
        let before = mem.tail.swap(m, mine, Ordering::AcqRel);
        m.annotate(Annotation::Arrive);
        if before != 0 {
            // Release: the CPU that hands us the lock finds our node ready. Pairs with the
            // acquires of `next` in `unlock`.
            self.0.node(before).next.store(m, mine, Ordering::Release);
            // Pairs with the release at the end of `unlock`.
            m.await_until(&node.locked, Until::differs(0), Ordering::Acquire);
        }
        Hold(index)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &McsMem, Hold(index): Hold) {
        let (mine, node) = self.0.own(m, index);
        // Pairs with the release of `next` in `lock`, as does the wait below.
        let mut next = node.next.load(m, Ordering::Acquire);
        if next == 0 {
            // n -> 0. Pairs with the acquire of the tail in `lock`.
            if mem.tail.compare_exchange(m, mine, 0, Ordering::Release).is_ok() {
                return self.0.give_back(m, mine);
            }
            // A waiter is in the queue behind us and about to link itself.
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        // n.next = m. Pairs with the acquire of `locked` in `lock`.
        self.0.node(next).locked.store(m, 1, Ordering::Release);
        self.0.give_back(m, mine);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &McsMem) -> bool {
        mem.tail.load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}
