//! The CLH lock, by hand. One node for each CPU, then one for the lock; 0 is no node.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::{ByHand, CPUS, Task};

#[repr(C)]
#[derive(Default)]
pub struct Clh {
    nodes: [Node; CPUS + 1],
    handed_out: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct Node {
    locked: AtomicU32,
    /// In a CPU's own node: the node that the CPU queues next; 0 is this one.
    spare: AtomicU32,
}

#[repr(C)]
#[derive(Default)]
pub struct ClhLock {
    tail: AtomicU32,
    head: AtomicU32,
}

impl Clh {
    #[inline(always)]
    fn locked(&self, node: u32) -> &AtomicU32 {
        &self.nodes[node as usize - 1].locked
    }

    #[cold]
    fn fresh(&self) -> u32 {
        CPUS as u32 + self.handed_out.fetch_add(1, Relaxed) + 1
    }
}

impl ByHand for Clh {
    type Lock = ClhLock;

    #[inline(always)]
    fn lock(&self, mem: &ClhLock, task: &Task) -> u32 {
        let spare = &self.nodes[task.cpu].spare;
        let mine = match spare.load(Relaxed) {
            0 => task.cpu as u32 + 1,
            node => node,
        };
        self.locked(mine).store(1, Relaxed);
        let before = mem.tail.swap(mine, AcqRel);
        if before == 0 {
            spare.store(self.fresh(), Relaxed);
        } else {
            let locked = self.locked(before);
            while locked.load(Acquire) != 0 {
                spin_loop();
            }
            spare.store(before, Relaxed);
        }
        mem.head.store(mine, Relaxed);
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &ClhLock, _: &Task, _: u32) {
        self.locked(mem.head.load(Relaxed)).store(0, Release);
    }
}
