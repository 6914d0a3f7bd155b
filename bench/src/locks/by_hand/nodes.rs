//! Queue nodes, four a CPU with a count of those in use, by hand. 0 is no node.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::{CPUS, Task};

pub const NODES: u32 = 4;

#[repr(C)]
#[derive(Default)]
pub struct Node {
    pub next: AtomicU32,
    pub locked: AtomicU32,
    /// In the first of a CPU.
    used: AtomicU32,
    unused: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct OfCpu([Node; NODES as usize]);

#[derive(Default)]
pub struct Nodes([OfCpu; CPUS]);

impl Nodes {
    /// Takes a node of this CPU; returns which, its code, and the node.
    #[inline(always)]
    pub fn take(&self, task: &Task) -> Option<(u32, u32, &Node)> {
        let nodes = &self.0[task.cpu].0;
        let which = nodes[0].used.load(Relaxed);
        let node = nodes.get(which as usize)?;
        nodes[0].used.store(which + 1, Relaxed);
        Some((which, code(task, which), node))
    }

    #[inline(always)]
    pub fn own(&self, task: &Task, which: u32) -> (u32, &Node) {
        (code(task, which), &self.0[task.cpu].0[which as usize])
    }

    #[inline(always)]
    pub fn give_back(&self, code: u32) {
        let used = &self.0[(code >> 2) as usize - 1].0[0].used;
        used.store(used.load(Relaxed) - 1, Relaxed);
    }

    #[inline(always)]
    pub fn node(&self, code: u32) -> &Node {
        &self.0[(code >> 2) as usize - 1].0[(code & 3) as usize]
    }
}

#[inline(always)]
pub fn code(task: &Task, which: u32) -> u32 {
    (task.cpu as u32 + 1) << 2 | which
}
