//! Queue nodes, by hand: four for each CPU, and a count of those in use. 0 is no node.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::{CPUS, Task};

pub const NODES: u32 = 4;

#[repr(C)]
#[derive(Default)]
pub struct Node {
    pub next: AtomicU32,
    pub locked: AtomicU32,
    /// In the first node of a CPU: how many are in use.
    used: AtomicU32,
    unused: AtomicU32,
}

#[repr(C, align(64))]
#[derive(Default)]
struct CpuNodes([Node; NODES as usize]);

#[derive(Default)]
pub struct Nodes([CpuNodes; CPUS]);

impl Nodes {
    /// Takes a node of this CPU; returns its index, its code and the node.
    #[inline(always)]
    pub fn take(&self, task: &Task) -> Option<(u32, u32, &Node)> {
        let nodes = &self.0[task.cpu].0;
        let index = nodes[0].used.load(Relaxed);
        let node = nodes.get(index as usize)?;
        nodes[0].used.store(index + 1, Relaxed);
        Some((index, code(task, index), node))
    }

    #[inline(always)]
    pub fn own(&self, task: &Task, index: u32) -> (u32, &Node) {
        (code(task, index), &self.0[task.cpu].0[index as usize])
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
pub fn code(task: &Task, index: u32) -> u32 {
    (task.cpu as u32 + 1) << 2 | index
}
