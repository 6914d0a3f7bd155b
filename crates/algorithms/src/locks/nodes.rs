//! The queue nodes of locks that queue: as in Linux, four a CPU, all on one line, for a task
//! and the interrupts that may come while it waits. A node is named by a code, 0 for none:
//!
//!     code = (cpu + 1) << 2 | which of its nodes

use machine::{Array, Atom, Field, Image, Line, Machine, Region, image};

use crate::Shape;

/// Locks that one CPU can wait for at once.
const NODES: usize = 4;

image! {
    /// A place in a queue.
    pub struct Node {
        /// Who comes after, once it has said so.
        #[cpu(2)]
        pub next: Atom<u32>,
        /// Not 0 once it is our turn.
        pub locked: Atom<u32>,
        used: Field<u32>,
        unused: Field<u32>,
    }
}

/// What a node of a lock must have, whatever it has besides.
pub trait Place: Image {
    /// In the first node of a CPU: how many are in use. Only its CPU looks at it.
    fn used(&self) -> &Field<u32>;

    /// Nobody comes to it until it is taken again: what it holds is dead.
    fn retire<M: Machine>(&self, m: &M);
}

impl Place for Node {
    #[inline(always)]
    fn used(&self) -> &Field<u32> {
        &self.used
    }

    #[inline(always)]
    fn retire<M: Machine>(&self, m: &M) {
        m.poison(&self.next);
        m.poison(&self.locked);
    }
}

/// The nodes of all CPUs.
#[derive(Debug)]
pub struct Nodes<N: Place = Node>(Array<Line<[N; NODES]>>);

impl<N: Place> Nodes<N> {
    pub fn new(region: &Region, shape: Shape) -> Self {
        Nodes(region.per_cpu("node", shape.cpus))
    }

    /// Takes the next free node of this CPU; returns which, its code, and the node. `None` where all
    /// are in use.
    #[inline(always)]
    pub fn take<M: Machine>(&self, m: &M) -> Option<(u32, u32, &N)> {
        let cpu = m.cpu();
        let nodes = &self.0[cpu];
        let which = nodes[0].used().get(m);
        let node = nodes.get(which as usize)?;
        nodes[0].used().set(m, which + 1);
        Some((which, code(cpu, which), node))
    }

    /// A node of this CPU, with its code.
    #[inline(always)]
    pub fn own<M: Machine>(&self, m: &M, which: u32) -> (u32, &N) {
        let cpu = m.cpu();
        (code(cpu, which), &self.0[cpu][which as usize])
    }

    /// Gives back a node: that which was taken last of those in use.
    #[inline(always)]
    pub fn give_back<M: Machine>(&self, m: &M, code: u32) {
        self.node(code).retire(m);
        let used = self.of_cpu(code)[0].used();
        used.set(m, used.get(m) - 1);
    }

    /// Whether none is in use.
    pub fn all_free<M: Machine>(&self, m: &M) -> bool {
        self.0.iter().all(|nodes| nodes[0].used().get(m) == 0)
    }

    /// The node with this code.
    #[inline(always)]
    pub fn node(&self, code: u32) -> &N {
        &self.of_cpu(code)[(code & 3) as usize]
    }

    /// All nodes of the CPU whose node has this code.
    #[inline(always)]
    fn of_cpu(&self, code: u32) -> &[N; NODES] {
        &self.0[(code >> 2) as usize - 1]
    }
}

/// The code of a node of a CPU.
#[inline(always)]
fn code(cpu: usize, which: u32) -> u32 {
    (cpu as u32 + 1) << 2 | which
}
