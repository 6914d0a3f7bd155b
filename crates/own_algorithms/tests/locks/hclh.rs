//! Hierarchical CLH lock (HCLH): the first waiter of a memory node moves its node's queue to the global one.
//! A node's state has its owner's home, whether it was the last of a moved queue, and whether its owner holds or wants
//! the lock. Luchangco, Nussbaum and Shavit, "A hierarchical CLH queue lock", 2006.

use own_algorithms::machine::{
    Annotation, Atom, Field, Line, Machine, Ordering, Region, Until, image,
};
use own_algorithms::{Equivalent, Hold, Lock, Shape};

const HOMES: usize = 8;
/// Queue nodes of a lock: one for each CPU, and one more.
const NODES: usize = 129;
const WAIT: u32 = 1;
const TAIL: u32 = 2;

const FULL_BARRIER: &str = "every read-modify-write is a full barrier, here and on x86";
const IN_ORDER: &str = "atomic accesses stay in order, here and on x86";

image! {
    pub struct Node {
        state: Atom<u32>,
        /// The node that the CPU of the same index queues next, by name; 0 is its own.
        #[cpu(0)]
        spare: Field<u32>,
        /// The node with which that CPU holds the lock.
        #[cpu(0)]
        held: Field<u32>,
    }

    pub struct Last {
        /// The name of a queue's last node: its index, plus one.
        #[cpu(0)]
        name: Atom<u32>,
    }

    pub struct OwnMem {
        global: Line<Last>,
        locals: [Line<Last>; HOMES],
        nodes: [Line<Node>; NODES],
    }
}

pub struct OwnLock {
    cpus: usize,
}

impl Lock for OwnLock {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no acquire", line: "name.swap(m, ", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "name.swap(m, ", why: FULL_BARRIER },
        Equivalent { change: "relaxed", line: "name.load(m, Ordering::Acquire)", why: IN_ORDER },
        Equivalent { change: "relaxed", line: "waiting | TAIL, ", why: IN_ORDER },
    ];
    const FIFO: bool = false;
    const NUMA_AWARE: bool = true;
    type Mem = OwnMem;

    fn new(_: &Region, shape: Shape) -> OwnLock {
        assert!(shape.cpus < NODES, "{} CPUs need more nodes", shape.cpus);
        OwnLock { cpus: shape.cpus }
    }

    fn bypasses(&self, _: u32) -> Option<u32> {
        Some(self.cpus.saturating_sub(2) as u32)
    }

    fn lock<M: Machine>(&self, m: &M, mem: &OwnMem) -> Hold {
        let own = &mem.nodes[m.cpu()];
        let mine = match own.spare.get(m) {
            0 => m.cpu() as u32 + 1,
            name => name,
        };
        let home = m.node() % HOMES;
        let waiting = (home as u32 + 1) << 2 | WAIT;
        node(mem, mine).state.store(m, waiting, Ordering::Relaxed);
        let mut before = mem.locals[home].name.swap(m, mine, Ordering::AcqRel);
        let enters = before != 0 && {
            let state = &node(mem, before).state;
            m.await_until(state, Until::differs(waiting), Ordering::Acquire) == waiting & !WAIT
        };
        if !enters {
            // The first of its queue, which it moves.
            let last = mem.locals[home].name.load(m, Ordering::Acquire);
            before = mem.global.name.swap(m, last, Ordering::AcqRel);
            m.annotate(Annotation::Arrive);
            node(mem, last).state.store(m, waiting | TAIL, Ordering::Release);
            if before == 0 {
                before = self.cpus as u32 + 1;
            } else {
                m.await_until(&node(mem, before).state, Until::clear(WAIT), Ordering::Acquire);
            }
        }
        own.spare.set(m, before);
        own.held.set(m, mine);
        Hold(0)
    }

    fn unlock<M: Machine>(&self, m: &M, mem: &OwnMem, _: Hold) {
        let state = &node(mem, mem.nodes[m.cpu()].held.get(m)).state;
        let marked = state.load(m, Ordering::Relaxed);
        state.store(m, marked & !WAIT, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &OwnMem) -> bool {
        let last = mem.global.name.load(m, Ordering::Relaxed);
        last == 0 || node(mem, last).state.load(m, Ordering::Relaxed) & WAIT == 0
    }
}

fn node(mem: &OwnMem, name: u32) -> &Node {
    &mem.nodes[name as usize - 1]
}
