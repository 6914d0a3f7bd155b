//! The compact NUMA-aware lock, by hand, on one memory node.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::nodes::{NODES, code};
use super::{ByHand, CPUS, Task};

/// A memory node that has not been looked up.
const UNKNOWN: u32 = u32::MAX;

#[repr(C)]
#[derive(Default)]
struct Node {
    next: AtomicU32,
    turn: AtomicU32,
    home: AtomicU32,
    last: AtomicU32,
    /// In the first node of a CPU: how many are in use.
    used: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct CpuNodes([Node; NODES as usize]);

#[derive(Default)]
pub struct Cna([CpuNodes; CPUS]);

impl Cna {
    #[inline(always)]
    fn node(&self, code: u32) -> &Node {
        &self.0[(code >> 2) as usize - 1].0[(code & 3) as usize]
    }

    fn near(&self, own: &Node, next: u32) -> Option<(u32, u32)> {
        let home = match own.home.load(Relaxed) {
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

    fn move_aside(&self, secondary: u32, first: u32, last: u32) -> u32 {
        if last == 0 {
            return secondary;
        }
        self.node(last).next.store(0, Relaxed);
        let head = if secondary > 1 { secondary } else { first };
        if secondary > 1 {
            let end = self.node(secondary).last.load(Relaxed);
            self.node(end).next.store(first, Relaxed);
        }
        self.node(head).last.store(last, Relaxed);
        head
    }

    #[inline(always)]
    fn unlock_last(&self, tail: &AtomicU32, mine: u32, secondary: u32) -> bool {
        if secondary == 1 {
            return tail.compare_exchange(mine, 0, Release, Relaxed).is_ok();
        }
        let last = self.node(secondary).last.load(Relaxed);
        let unlocked = tail.compare_exchange(mine, last, Release, Relaxed).is_ok();
        if unlocked {
            self.node(secondary).turn.store(1, Release);
        }
        unlocked
    }

    #[inline(always)]
    fn pass_on(&self, tail: &AtomicU32, task: &Task, mine: u32) {
        let node = self.node(mine);
        let secondary = node.turn.load(Relaxed);
        let mut next = node.next.load(Acquire);
        if next == 0 {
            if self.unlock_last(tail, mine, secondary) {
                return;
            }
            next = node.next.load(Acquire);
            while next == 0 {
                spin_loop();
                next = node.next.load(Acquire);
            }
        }
        let heir = if task.random(256) == 0 { None } else { self.near(node, next) };
        match heir {
            Some((before, heir)) => {
                let secondary = self.move_aside(secondary, next, before);
                self.node(heir).turn.store(secondary, Release);
            }
            None if secondary > 1 => {
                let last = self.node(secondary).last.load(Relaxed);
                self.node(last).next.store(next, Release);
                self.node(secondary).turn.store(1, Release);
            }
            None => self.node(next).turn.store(1, Release),
        }
    }
}

impl ByHand for Cna {
    type Lock = AtomicU32;

    #[inline(always)]
    fn lock(&self, tail: &AtomicU32, task: &Task) -> u32 {
        let nodes = &self.0[task.cpu].0;
        let index = nodes[0].used.load(Relaxed);
        let node = nodes.get(index as usize).expect("a CPU has four nodes");
        nodes[0].used.store(index + 1, Relaxed);
        let mine = code(task, index);
        node.next.store(0, Relaxed);
        node.turn.store(0, Relaxed);
        node.home.store(UNKNOWN, Relaxed);
        let before = tail.swap(mine, AcqRel);
        if before == 0 {
            node.turn.store(1, Relaxed);
            return index;
        }
        node.home.store(0, Relaxed);
        self.node(before).next.store(mine, Release);
        while node.turn.load(Acquire) == 0 {
            spin_loop();
        }
        index
    }

    #[inline(always)]
    fn unlock(&self, tail: &AtomicU32, task: &Task, index: u32) {
        let mine = code(task, index);
        self.pass_on(tail, task, mine);
        let used = &self.0[(mine >> 2) as usize - 1].0[0].used;
        used.store(used.load(Relaxed) - 1, Relaxed);
    }
}
