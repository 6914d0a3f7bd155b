//! The compact NUMA-aware lock, by hand, on one memory node.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::{ByHand, CPUS};

const UNKNOWN: u32 = u32::MAX;

#[repr(align(64))]
#[derive(Default)]
struct Node {
    next: AtomicU32,
    turn: AtomicU32,
    home: AtomicU32,
    last: AtomicU32,
}

#[derive(Default)]
pub struct Cna {
    tail: AtomicU32,
    nodes: [Node; CPUS],
    /// One a CPU, apart.
    seeds: [Seed; CPUS],
}

#[repr(align(64))]
#[derive(Default)]
struct Seed(AtomicU32);

impl Cna {
    #[inline(always)]
    fn node(&self, code: u32) -> &Node {
        &self.nodes[code as usize - 1]
    }

    /// Once in 256.
    #[inline(always)]
    fn chance(&self, cpu: usize) -> bool {
        let mut x = self.seeds[cpu].0.load(Relaxed) | 1;
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.seeds[cpu].0.store(x, Relaxed);
        (u64::from(x) * 256) >> 32 == 0
    }

    fn near(&self, mine: u32, next: u32) -> Option<(u32, u32)> {
        let home = match self.node(mine).home.load(Relaxed) {
            UNKNOWN => 0,
            home => home,
        };
        let (mut before, mut waiter) = (0, next);
        while waiter != 0 {
            if self.node(waiter).home.load(Relaxed) == home {
                return Some((before, waiter));
            }
            (before, waiter) = (waiter, self.node(waiter).next.load(Acquire));
        }
        None
    }

    fn move_aside(&self, aside: u32, first: u32, last: u32) -> u32 {
        if last == 0 {
            return aside;
        }
        self.node(last).next.store(0, Relaxed);
        let head = if aside > 1 { aside } else { first };
        if aside > 1 {
            let end = self.node(aside).last.load(Relaxed);
            self.node(end).next.store(first, Relaxed);
        }
        self.node(head).last.store(last, Relaxed);
        head
    }

    #[inline(always)]
    fn leave(&self, mine: u32, aside: u32) -> bool {
        if aside == 1 {
            return self.tail.compare_exchange(mine, 0, Release, Relaxed).is_ok();
        }
        let last = self.node(aside).last.load(Relaxed);
        let left = self.tail.compare_exchange(mine, last, Release, Relaxed).is_ok();
        if left {
            self.node(aside).turn.store(1, Release);
        }
        left
    }
}

impl ByHand for Cna {
    #[inline(always)]
    fn lock(&self, cpu: usize) {
        let (node, mine) = (&self.nodes[cpu], cpu as u32 + 1);
        node.next.store(0, Relaxed);
        node.turn.store(0, Relaxed);
        node.home.store(UNKNOWN, Relaxed);
        let before = self.tail.swap(mine, AcqRel);
        if before == 0 {
            return node.turn.store(1, Relaxed);
        }
        node.home.store(0, Relaxed);
        self.node(before).next.store(mine, Release);
        while node.turn.load(Acquire) == 0 {
            spin_loop();
        }
    }

    #[inline(always)]
    fn unlock(&self, cpu: usize) {
        let (node, mine) = (&self.nodes[cpu], cpu as u32 + 1);
        let aside = node.turn.load(Relaxed);
        let mut next = node.next.load(Acquire);
        if next == 0 {
            if self.leave(mine, aside) {
                return;
            }
            next = node.next.load(Acquire);
            while next == 0 {
                spin_loop();
                next = node.next.load(Acquire);
            }
        }
        let heir = if self.chance(cpu) { None } else { self.near(mine, next) };
        match heir {
            Some((before, heir)) => {
                let aside = self.move_aside(aside, next, before);
                self.node(heir).turn.store(aside, Release);
            }
            None if aside > 1 => {
                let last = self.node(aside).last.load(Relaxed);
                self.node(last).next.store(next, Release);
                self.node(aside).turn.store(1, Release);
            }
            None => self.node(next).turn.store(1, Release),
        }
    }
}
