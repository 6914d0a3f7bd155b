//! Compact NUMA-aware lock: an MCS lock that serves waiters of the same memory node first.
//! Like the MCS lock it is a single word.
//!
//!     tail = 0, n         as in an MCS lock; the main queue ends at n
//!     n.turn = 0          n waits
//!     n.turn = 1          n's turn, and the secondary queue is empty
//!     n.turn = code       n's turn; the secondary queue, of other memory nodes, begins at code
//!
//!     main:       holder (node 0) -> a (node 1) -> b (node 1) -> c (node 0) -> …
//!     unlock:     c is the next waiter of our node; a and b go to the secondary queue
//!     main:       c (node 0) -> …          secondary: a -> b, its tail is kept in a
//!
//! Not first in, first out: that is its point. The lock stays on one memory node, which has its
//! line and the data it guards. So that no waiter starves, one unlock in 256, chosen at random,
//! puts the secondary queue in front.
//!
//! Dice and Kogan 2019 (Compact NUMA-aware locks, EuroSys).

use machine::{Atom, Field, Machine, Ordering, Region, Until, image};

use super::nodes::{QueueNodes, queue_node};
use crate::{Equivalent, Hold, Lock, Shape};

/// One unlock in this many lets the lock leave its memory node.
const LEAVE_ONE_IN: u32 = 256;

/// A `turn`: the lock is ours, and the secondary queue is empty.
const ALONE: u32 = 1;

/// A memory node that has not been looked up.
const UNKNOWN: u32 = u32::MAX;

image! {
    /// The lock.
    pub struct CnaMem {
        #[cpu(2)]
        tail: Atom<u32>,
    }

    /// A waiter's place in the main or the secondary queue.
    pub struct CnaNode {
        /// The next waiter's node, once it has linked itself.
        #[cpu(2)]
        next: Atom<u32>,
        /// 0, `ALONE`, or the code of the secondary queue's first node.
        #[cpu(2)]
        turn: Atom<u32>,
        /// The memory node of the waiter's CPU.
        home: Field<u32>,
        /// In the first node of a secondary queue: the code of its last node.
        #[cpu(2)]
        last: Field<u32>,
        used: Field<u32>,
    }
}

queue_node!(CnaNode, poison [next, turn]);

/// CNA locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct Cna(QueueNodes<CnaNode>);

impl Lock for Cna {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "skipped",
            line: "node.home.set(m, UNKNOWN)",
            why: "it only decides which waiter goes first",
        },
        Equivalent {
            change: "skipped",
            line: "node.home.set(m, m.node()",
            why: "it only decides which waiter goes first",
        },
        Equivalent {
            change: "relaxed",
            line: "self.0.node(last).next.store(m, next",
            why: "only the lock holder reads it, and it has acquired the hand-over",
        },
        Equivalent {
            change: "relaxed",
            line: "compare_exchange(m, mine, last",
            why: "it continues the release sequence of the swaps before it, all that a newcomer needs",
        },
    ];
    const FIFO: bool = false;
    const NUMA_AWARE: bool = true;
    type Mem = CnaMem;

    fn new(region: &Region, shape: Shape) -> Cna {
        Cna(QueueNodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &CnaMem) -> Hold {
        let taken = self.0.take(m);
        let (index, mine, node) = taken.expect("a CPU holds or wants four locks at most");
        m.init(&node.next, 0);
        m.init(&node.turn, 0);
        node.home.set(m, UNKNOWN);
        // p -> n. Release: our node is ready. Acquire: our predecessor's node is ready too, or,
        // if there is none, we see what the last holder did (`unlock`).
        let before = mem.tail.swap(m, mine, Ordering::AcqRel);
        if before == 0 {
            m.init(&node.turn, ALONE);
            return Hold(index);
        }
        node.home.set(m, m.node() as u32);
        // Release: a CPU that finds us in the queue finds our node ready.
        self.0.node(before).next.store(m, mine, Ordering::Release);
        // Pairs with the releases in `pass_on`.
        m.await_until(&node.turn, Until::differs(0), Ordering::Acquire);
        Hold(index)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &CnaMem, Hold(index): Hold) {
        let (mine, _) = self.0.own(m, index);
        self.pass_on(m, mem, mine);
        self.0.give_back(m, mine);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &CnaMem) -> bool {
        mem.tail.load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}

impl Cna {
    #[inline(always)]
    fn pass_on<M: Machine>(&self, m: &M, mem: &CnaMem, mine: u32) {
        let node = self.0.node(mine);
        // Relaxed: the CPU that handed us the lock wrote it, and we acquired that; or we wrote it.
        let secondary = node.turn.load(m, Ordering::Relaxed);
        // Pairs with the release of `next` in `lock`, as do all reads of it.
        let mut next = node.next.load(m, Ordering::Acquire);
        if next == 0 {
            if self.unlock_last(m, mem, mine, secondary) {
                return;
            }
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        let heir = if m.chance(LEAVE_ONE_IN) { None } else { self.near(m, mine, next) };
        match heir {
            Some((before, heir)) => {
                let secondary = self.move_aside(m, secondary, next, before, heir);
                self.hand_over(m, heir, secondary);
            }
            // The secondary queue goes in front of the main one.
            None if secondary > ALONE => {
                let last = self.0.node(secondary).last.get(m);
                // Release: publishes what we acquired with the node behind us.
                self.0.node(last).next.store(m, next, Ordering::Release);
                self.hand_over(m, secondary, ALONE);
            }
            None => self.hand_over(m, next, ALONE),
        }
    }

    /// Unlocks if no waiter is behind us in the main queue. Fails if one is about to link itself.
    #[inline(always)]
    fn unlock_last<M: Machine>(&self, m: &M, mem: &CnaMem, mine: u32, secondary: u32) -> bool {
        if secondary == ALONE {
            // n -> 0. Pairs with the acquire of the tail in `lock`.
            return mem.tail.compare_exchange(m, mine, 0, Ordering::Release).is_ok();
        }
        // n -> the last of the secondary queue, which becomes the main one.
        let last = self.0.node(secondary).last.get(m);
        let unlocked = mem.tail.compare_exchange(m, mine, last, Ordering::Release).is_ok();
        if unlocked {
            self.hand_over(m, secondary, ALONE);
        }
        unlocked
    }

    /// The waiter in front of the first waiter of our memory node (0 if that is us), and that
    /// waiter. `None` if no waiter is of our memory node.
    fn near<M: Machine>(&self, m: &M, mine: u32, next: u32) -> Option<(u32, u32)> {
        let home = match self.0.node(mine).home.get(m) {
            UNKNOWN => m.node() as u32,
            home => home,
        };
        let (mut before, mut waiter) = (0, next);
        while waiter != 0 {
            if self.0.node(waiter).home.get(m) == home {
                return Some((before, waiter));
            }
            (before, waiter) = (waiter, self.0.node(waiter).next.load(m, Ordering::Acquire));
        }
        None
    }

    /// Moves the waiters from `first` to `last` to the end of the secondary queue, if there are
    /// any; returns the first node of that queue.
    fn move_aside<M: Machine>(
        &self,
        m: &M,
        secondary: u32,
        first: u32,
        last: u32,
        heir: u32,
    ) -> u32 {
        if last == 0 {
            return secondary;
        }
        debug_assert!(first != heir, "a waiter stands in front of the heir");
        // Relaxed: the hand-over publishes it to the heir.
        self.0.node(last).next.store(m, 0, Ordering::Relaxed);
        let head = if secondary > ALONE { secondary } else { first };
        if secondary > ALONE {
            let end = self.0.node(secondary).last.get(m);
            self.0.node(end).next.store(m, first, Ordering::Relaxed);
        }
        self.0.node(head).last.set(m, last);
        head
    }

    /// Pairs with the acquire of `turn` in `lock`.
    #[inline(always)]
    fn hand_over<M: Machine>(&self, m: &M, heir: u32, secondary: u32) {
        self.0.node(heir).turn.store(m, secondary, Ordering::Release);
    }
}
