//! Compact NUMA-aware lock: an MCS lock that serves waiters of the same memory node first.
//! In a single word, as that one.
//!
//!     tail = 0, n         as in an MCS lock; the main queue ends at n
//!     n.turn = 0          waits
//!     n.turn = 1          it is n's turn, and the secondary queue is empty
//!     n.turn = code       it is n's turn; waiters of other nodes queue from there
//!
//!     main:       holder (node 0) -> a (node 1) -> b (node 1) -> c (node 0) -> …
//!     unlock:     c is the next of our node; a and b go to the secondary queue
//!     main:       c (node 0) -> …          secondary: a -> b, its tail kept in a
//!
//! Not first in, first out: that is its point. The lock stays on one node, where its line and
//! the data it guards are, and moves on by chance, so that nobody waits for ever: one unlock
//! in 256 on average puts the secondary queue in front.
//!
//! Dice and Kogan 2019 (Compact NUMA-aware locks, EuroSys).

use machine::{Atom, Field, Machine, Ordering, Region, Until, image};

use super::nodes::{Nodes, Place};
use crate::{Equivalent, Hold, Lock, Shape};

/// The lock stays on its node, but for one unlock in so many.
const STAY: u32 = 256;

/// `turn`: it is ours, and nobody waits in a secondary queue.
const ALONE: u32 = 1;

/// A memory node that was not looked up.
const UNKNOWN: u32 = u32::MAX;

image! {
    /// The lock.
    pub struct CnaMem {
        #[cpu(2)]
        tail: Atom<u32>,
    }

    /// A place in a queue.
    pub struct CnaNode {
        /// Who comes after, once it has said so.
        #[cpu(2)]
        next: Atom<u32>,
        /// 0, `ALONE`, or the code of the first in the secondary queue.
        #[cpu(2)]
        turn: Atom<u32>,
        /// The memory node of its CPU.
        home: Field<u32>,
        /// In the first node of a secondary queue: its last.
        #[cpu(2)]
        last: Field<u32>,
        used: Field<u32>,
    }
}

impl Place for CnaNode {
    #[inline(always)]
    fn used(&self) -> &Field<u32> {
        &self.used
    }

    #[inline(always)]
    fn retire<M: Machine>(&self, m: &M) {
        m.poison(&self.next);
        m.poison(&self.turn);
    }
}

/// CNA locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct Cna(Nodes<CnaNode>);

impl Lock for Cna {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "skipped",
            line: "node.home.set(m, UNKNOWN)",
            why: "it only decides who goes first",
        },
        Equivalent {
            change: "skipped",
            line: "node.home.set(m, m.node()",
            why: "it only decides who goes first",
        },
        Equivalent {
            change: "relaxed",
            line: "self.0.node(last).next.store(m, next",
            why: "whoever reads it holds the lock by then, and the hand-over has told it",
        },
        Equivalent {
            change: "relaxed",
            line: "compare_exchange(m, mine, last",
            why: "it goes on with what the swaps before it released, all that a newcomer needs",
        },
    ];
    const FIFO: bool = false;
    const NODES: bool = true;
    type Mem = CnaMem;

    fn new(region: &Region, shape: Shape) -> Cna {
        Cna(Nodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &CnaMem) -> Hold {
        let taken = self.0.take(m);
        let (which, mine, node) = taken.expect("a CPU holds or wants four locks at most");
        m.init(&node.next, 0);
        m.init(&node.turn, 0);
        node.home.set(m, UNKNOWN);
        // p -> n. Release: our node is ready. Acquire: so is the one before us, and what the
        // last holder did if there is none (`unlock`).
        let before = at.tail.swap(m, mine, Ordering::AcqRel);
        if before == 0 {
            m.init(&node.turn, ALONE);
            return Hold(which);
        }
        node.home.set(m, m.node() as u32);
        // Release: whoever finds us in the queue finds our node ready.
        self.0.node(before).next.store(m, mine, Ordering::Release);
        // Pairs with the releases in `pass_on`.
        m.await_until(&node.turn, Until::differs(0), Ordering::Acquire);
        Hold(which)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &CnaMem, Hold(which): Hold) {
        let (mine, _) = self.0.own(m, which);
        self.pass_on(m, at, mine);
        self.0.give_back(m, mine);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &CnaMem) -> bool {
        at.tail.load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}

impl Cna {
    #[inline(always)]
    fn pass_on<M: Machine>(&self, m: &M, at: &CnaMem, mine: u32) {
        let node = self.0.node(mine);
        // Relaxed: who handed us the lock wrote it, and we have acquired that; or we did.
        let aside = node.turn.load(m, Ordering::Relaxed);
        // Pairs with the release of `next` in `lock`, as do all reads of it.
        let mut next = node.next.load(m, Ordering::Acquire);
        if next == 0 {
            if self.leave(m, at, mine, aside) {
                return;
            }
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        let heir = if m.chance(STAY) { None } else { self.near(m, mine, next) };
        match heir {
            Some((before, heir)) => {
                let aside = self.move_aside(m, aside, next, before, heir);
                self.hand_over(m, heir, aside);
            }
            // The secondary queue goes in front of the main one.
            None if aside > ALONE => {
                let last = self.0.node(aside).last.get(m);
                // Release: passes on what we know of the node behind.
                self.0.node(last).next.store(m, next, Ordering::Release);
                self.hand_over(m, aside, ALONE);
            }
            None => self.hand_over(m, next, ALONE),
        }
    }

    /// Unlocks where nobody follows in the main queue. Fails if somebody is about to.
    #[inline(always)]
    fn leave<M: Machine>(&self, m: &M, at: &CnaMem, mine: u32, aside: u32) -> bool {
        if aside == ALONE {
            // n -> 0. Pairs with the acquire of the tail in `lock`.
            return at.tail.compare_exchange(m, mine, 0, Ordering::Release).is_ok();
        }
        // n -> the last of the secondary queue, which becomes the main one.
        let last = self.0.node(aside).last.get(m);
        let left = at.tail.compare_exchange(m, mine, last, Ordering::Release).is_ok();
        if left {
            self.hand_over(m, aside, ALONE);
        }
        left
    }

    /// The first waiter of our memory node, and who stands before it if that is not us.
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

    /// Moves those from `first` to `last` to the end of the secondary queue, if there are
    /// any; returns its first node.
    fn move_aside<M: Machine>(&self, m: &M, aside: u32, first: u32, last: u32, heir: u32) -> u32 {
        if last == 0 {
            return aside;
        }
        debug_assert!(first != heir, "somebody stands before the heir");
        // Relaxed: the heir learns of it by the hand-over.
        self.0.node(last).next.store(m, 0, Ordering::Relaxed);
        let head = if aside > ALONE { aside } else { first };
        if aside > ALONE {
            let end = self.0.node(aside).last.get(m);
            self.0.node(end).next.store(m, first, Ordering::Relaxed);
        }
        self.0.node(head).last.set(m, last);
        head
    }

    /// Pairs with the acquire of `turn` in `lock`.
    #[inline(always)]
    fn hand_over<M: Machine>(&self, m: &M, heir: u32, aside: u32) {
        self.0.node(heir).turn.store(m, aside, Ordering::Release);
    }
}
