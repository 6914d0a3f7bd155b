//! The CLH lock, by hand. One node for each CPU, then one for the lock; 0 is no node.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::{ByHand, CPUS, Task};

#[repr(C)]
#[derive(Default)]
pub struct Clh {
    nodes: [Node; CPUS + 1],
    own: [OwnNodes; CPUS],
    handed_out: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct Node {
    locked: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct OwnNodes {
    /// The node that the CPU queues next; 0 is the node of its own number.
    spare: AtomicU32,
    held: [AtomicU32; 4],
    count: AtomicU32,
}

#[repr(C)]
#[derive(Default)]
pub struct ClhLock {
    tail: AtomicU32,
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
        let own = &self.own[task.cpu];
        let mine = match own.spare.load(Relaxed) {
            0 => task.cpu as u32 + 1,
            node => node,
        };
        self.locked(mine).store(1, Relaxed);
        let before = mem.tail.swap(mine, AcqRel);
        if before == 0 {
            own.spare.store(self.fresh(), Relaxed);
        } else {
            let locked = self.locked(before);
            while locked.load(Acquire) != 0 {
                spin_loop();
            }
            own.spare.store(before, Relaxed);
        }
        let index = own.count.load(Relaxed);
        own.held[index as usize].store(mine, Relaxed);
        own.count.store(index + 1, Relaxed);
        index
    }

    #[inline(always)]
    fn unlock(&self, _: &ClhLock, task: &Task, index: u32) {
        let own = &self.own[task.cpu];
        let mine = own.held[index as usize].load(Relaxed);
        own.count.store(own.count.load(Relaxed) - 1, Relaxed);
        self.locked(mine).store(0, Release);
    }
}
