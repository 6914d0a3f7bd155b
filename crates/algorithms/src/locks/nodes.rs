//! The queue nodes that several locks share. As in Linux, each CPU has four on one cache line: one
//! for a task and more for the interrupts that may arrive while it waits. A code names a node; 0 is
//! no node:
//!
//!     code = (cpu + 1) << 2 | index of the node

use machine::{Array, Atom, Field, Image, Line, Machine, Region, image};

use crate::Shape;

/// Locks that one CPU can wait for at the same time.
const NODES: usize = 4;

/// A node of a lock's queue, whatever else it holds.
pub trait QueueNode: Image {
    /// In the first node of a CPU: how many of its nodes are in use. Only that CPU reads it.
    fn used(&self) -> &Field<u32>;

    /// Poisons the words that no CPU reads until the node is taken again.
    fn poison<M: Machine>(&self, m: &M);
}

/// Makes a struct with a field `used` a [`QueueNode`]; the words in brackets are dead in a free node.
macro_rules! queue_node {
    ($node:ident, poison [$($dead:ident),*]) => {
        impl $crate::locks::nodes::QueueNode for $node {
            #[inline(always)]
            fn used(&self) -> &machine::Field<u32> {
                &self.used
            }

            #[inline(always)]
            fn poison<M: machine::Machine>(&self, m: &M) {
                $(m.poison(&self.$dead);)*
            }
        }
    };
}
pub(super) use queue_node;

image! {
    /// A waiter's place in the queue of an MCS lock.
    pub struct McsNode {
        /// The next waiter's node, once it has linked itself.
        #[cpu(2)]
        pub next: Atom<u32>,
        /// Not 0 once it is this waiter's turn.
        pub locked: Atom<u32>,
        used: Field<u32>,
        unused: Field<u32>,
    }
}

queue_node!(McsNode, poison [next, locked]);

/// The queue nodes of all CPUs.
#[derive(Debug)]
pub struct QueueNodes<N: QueueNode = McsNode>(Array<Line<[N; NODES]>>);

impl<N: QueueNode> QueueNodes<N> {
    /// Allocates the nodes.
    pub fn new(region: &Region, shape: Shape) -> Self {
        QueueNodes(region.per_cpu("node", shape.cpus))
    }

    /// Takes the next free node of this CPU; returns its index, its code and the node. `None` if
    /// all are in use.
    #[inline(always)]
    pub fn take<M: Machine>(&self, m: &M) -> Option<(u32, u32, &N)> {
        let cpu = m.cpu();
        let nodes = &self.0[cpu];
        let index = nodes[0].used().get(m);
        let node = nodes.get(index as usize)?;
        nodes[0].used().set(m, index + 1);
        Some((index, code(cpu, index), node))
    }

    /// The code of this CPU's node with this index, and the node.
    #[inline(always)]
    pub fn own<M: Machine>(&self, m: &M, index: u32) -> (u32, &N) {
        let cpu = m.cpu();
        (code(cpu, index), &self.0[cpu][index as usize])
    }

    /// Gives back the node that its CPU took last.
    #[inline(always)]
    pub fn give_back<M: Machine>(&self, m: &M, code: u32) {
        self.node(code).poison(m);
        let used = self.same_cpu(code)[0].used();
        used.set(m, used.get(m) - 1);
    }

    /// Whether no node is in use.
    pub fn all_free<M: Machine>(&self, m: &M) -> bool {
        self.0.iter().all(|nodes| nodes[0].used().get(m) == 0)
    }

    /// The node with this code.
    #[inline(always)]
    pub fn node(&self, code: u32) -> &N {
        &self.same_cpu(code)[(code & 3) as usize]
    }

    /// All nodes of the CPU that owns the node with this code.
    #[inline(always)]
    fn same_cpu(&self, code: u32) -> &[N; NODES] {
        &self.0[(code >> 2) as usize - 1]
    }
}

#[inline(always)]
fn code(cpu: usize, index: u32) -> u32 {
    (cpu as u32 + 1) << 2 | index
}
