//! The MCS lock, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::nodes::Nodes;
use super::{ByHand, Task};

#[derive(Default)]
pub struct Mcs(Nodes);

impl ByHand for Mcs {
    type Lock = AtomicU32;

    #[inline(always)]
    fn lock(&self, tail: &AtomicU32, task: &Task) -> u32 {
        let (index, mine, node) = self.0.take(task).expect("a CPU has four nodes");
        node.next.store(0, Relaxed);
        node.locked.store(0, Relaxed);
        let before = tail.swap(mine, AcqRel);
        if before != 0 {
            self.0.node(before).next.store(mine, Release);
            while node.locked.load(Acquire) == 0 {
                spin_loop();
            }
        }
        index
    }

    #[inline(always)]
    fn unlock(&self, tail: &AtomicU32, task: &Task, index: u32) {
        let (mine, node) = self.0.own(task, index);
        let mut next = node.next.load(Acquire);
        if next == 0 {
            if tail.compare_exchange(mine, 0, Release, Relaxed).is_ok() {
                return self.0.give_back(mine);
            }
            next = node.next.load(Acquire);
            while next == 0 {
                spin_loop();
                next = node.next.load(Acquire);
            }
        }
        self.0.node(next).locked.store(1, Release);
        self.0.give_back(mine);
    }
}
