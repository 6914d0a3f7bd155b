//! Hierarchical CLH lock: the first waiter of a memory node moves all of them to the global queue. The CPUs of a node
//! queue among themselves, and the first one appends the whole local queue to the global one in one step.
//!
//!     n.state = (home, tail, wait)   home: the memory node of n's owner; tail: n was the last of a local queue when
//!                                    that was moved; wait: n's owner holds or wants the lock
//!     local[home], global            the last node of each queue; 0: no task has queued there yet
//!
//!     lock:    n = (home,0,1), local[home] p -> n
//!              p (home,0,1) ──> (home,0,0)    p's owner has unlocked, and our queue was moved: inside
//!              p (home,0,1) ──> otherwise     p's queue was moved without us: we are the first of the next one
//!     first:   global g -> t                  t is the last of our local queue now
//!              t (home,0,1) ──> (home,1,1)    whoever queues behind t is the first of the next local queue
//!              g (*,*,1) ──> (*,*,0)          inside
//!     unlock:  n (home,*,1) ──> (home,*,0)    n now belongs to the CPU that waits for it
//!
//! First in, first out from the move on: no task that is moved later enters earlier. Before the move the CPUs of a
//! node are in order among themselves. The lock passes within a node as often as it has CPUs in a moved queue. That
//! is seldom many: the first CPU moves its queue as soon as the queue before was moved, and holds nothing back.
//!
//! A local tail may name a node that a CPU of another memory node took over long ago: its `home` tells. That would not
//! be enough if nodes moved between locks. Through another lock, a node could come back to its first home, and a CPU
//! that still has to look at it would wait for the wrong owner; a search finds the deadlock. So each lock has nodes of
//! its own, one for each CPU and one more. The first task writes the number of the lock's block of nodes into the lock.
//!
//! Luchangco, Nussbaum and Shavit 2006 (A hierarchical CLH queue lock, Euro-Par). They set the flags by
//! compare-exchanges, and so append to the queues; here stores and swaps suffice, because a state has one writer at a
//! time.

use machine::{Annotation, Array, Atom, Field, Line, Machine, Ordering, Region, Until, image};

use crate::{Equivalent, FULL_BARRIER, Hold, IN_ORDER, Lock, Shape};

/// Memory nodes with a queue of their own; those beyond share.
const HOMES: usize = 8;

/// A state: the owner holds or wants the lock.
const WAIT: u32 = 1;
/// A state: the last of a local queue that was moved.
const TAIL: u32 = 2;

/// The block of a lock is being chosen.
const CHOOSING: u32 = u32::MAX;

image! {
    /// The end of a queue.
    pub struct QueueTail {
        /// The name of its last node: the index in the lock's block, plus one.
        #[cpu(0)]
        last: Atom<u32>,
    }

    /// The lock.
    pub struct HierarchicalClhMem {
        global: Line<QueueTail>,
        /// The number of its block of nodes, from 1; 0 until a task has chosen one.
        block: Line<Atom<u32>>,
        locals: [Line<QueueTail>; HOMES],
    }

    /// A queue node of one lock. `state` moves from CPU to CPU; the fields belong to the CPU of the same index.
    pub struct HierarchicalClhNode {
        state: Atom<u32>,
        /// The node that the CPU queues next; 0 is the one of its index.
        #[cpu(0)]
        spare: Field<u32>,
        /// The node with which the CPU holds the lock.
        #[cpu(0)]
        held: Field<u32>,
    }
}

/// HCLH locks, and the queue nodes of all of them.
#[derive(Debug)]
pub struct HierarchicalClh {
    /// For each lock: one for each CPU, and one more.
    nodes: Array<Line<HierarchicalClhNode>>,
    cpus: usize,
    /// How many blocks of nodes are in use.
    handed_out: Array<Atom<u32>>,
}

impl Lock for HierarchicalClh {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no acquire", line: ".last.swap(m, ", why: FULL_BARRIER },
        Equivalent { change: "no release", line: ".last.swap(m, ", why: FULL_BARRIER },
        Equivalent { change: "relaxed", line: ".last.load(m, Ordering::Acquire)", why: IN_ORDER },
        Equivalent { change: "relaxed", line: ".state.store(m, marked, ", why: IN_ORDER },
    ];
    const FIFO: bool = false;
    const NUMA_AWARE: bool = true;
    type Mem = HierarchicalClhMem;

    fn new(region: &Region, shape: Shape) -> HierarchicalClh {
        let block = || {
            let cpus = region.per_cpu("node", shape.cpus);
            Array::joined(&cpus, &region.array("extra", 1))
        };
        let more = |nodes, _| Array::joined(&nodes, &block());
        HierarchicalClh {
            nodes: (1..shape.locks).fold(block(), more),
            cpus: shape.cpus,
            handed_out: region.array("handed_out", 1),
        }
    }

    /// Only the first task of a moved queue reports its arrival, and then all others may be in front of it. At least
    /// one of those has reported its own.
    fn bypasses(&self, _: u32) -> Option<u32> {
        Some(self.cpus.saturating_sub(2) as u32)
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &HierarchicalClhMem) -> Hold {
        let start = m.history_mark();
        let block = match mem.block.load(m, Ordering::Relaxed) {
            0 | CHOOSING => self.choose_block(m, mem),
            block => block,
        };
        m.forget_history(start, block.into());
        let own = self.node(block, m.cpu() as u32 + 1);
        let mine = match own.spare.get(m) {
            0 => m.cpu() as u32 + 1,
            node => node,
        };
        let home = m.node() % HOMES;
        let waiting = state(home) | WAIT;
        // Relaxed: the swaps below publish it. Not `init`: a CPU of the node's last home may still look at it.
        self.node(block, mine).state.store(m, waiting, Ordering::Relaxed);
        // p -> n. Release: our node is marked before any CPU waits for it. Acquire: so is the one before it.
        let before = mem.locals[home].last.swap(m, mine, Ordering::AcqRel);
        let enters = before != 0 && {
            // Pairs with the releases in `unlock` and of the mark in `move_queue`.
            let until = Until::differs(waiting);
            let state_before = &self.node(block, before).state;
            m.await_until(state_before, until, Ordering::Acquire) == state(home)
        };
        let before = if enters { before } else { self.move_queue(m, mem, block, home) };
        own.spare.set(m, before);
        own.held.set(m, mine);
        Hold(block)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, _: &HierarchicalClhMem, Hold(block): Hold) {
        let held = &self.node(block, m.cpu() as u32 + 1).held;
        let mine = held.get(m);
        m.poison_field(held);
        let node = self.node(block, mine);
        // (home,*,1) -> (home,*,0). A load and a store: the mark of a tail was set before its queue could enter. Pairs
        // with the acquire of the CPU behind us.
        let marked = node.state.load(m, Ordering::Relaxed);
        node.state.store(m, marked & !WAIT, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &HierarchicalClhMem) -> bool {
        let last = mem.global.last.load(m, Ordering::Relaxed);
        let block = mem.block.load(m, Ordering::Relaxed);
        last == 0 || self.node(block, last).state.load(m, Ordering::Relaxed) & WAIT == 0
    }
}

impl HierarchicalClh {
    #[inline(always)]
    fn node(&self, block: u32, name: u32) -> &HierarchicalClhNode {
        &self.nodes[(block as usize - 1) * (self.cpus + 1) + name as usize - 1]
    }

    /// Moves our local queue to the end of the global one, and waits for its turn. Returns the node that was in front.
    #[inline(always)]
    fn move_queue<M: Machine>(
        &self,
        m: &M,
        mem: &HierarchicalClhMem,
        block: u32,
        home: usize,
    ) -> u32 {
        // Acquire: the last node is marked as waiting.
        let last = mem.locals[home].last.load(m, Ordering::Acquire);
        // g -> t. Release: t is ready for the queue behind it. Acquire: so is g.
        let before = mem.global.last.swap(m, last, Ordering::AcqRel);
        m.annotate(Annotation::Arrive);
        // (home,0,1) -> (home,1,1). A store: the owner of t waits for us, or is us. Release: the first of the next
        // local queue is moved behind t.
        let marked = state(home) | TAIL | WAIT;
        self.node(block, last).state.store(m, marked, Ordering::Release);
        if before == 0 {
            // The lock was never taken: the node that no CPU has is free.
            return self.cpus as u32 + 1;
        }
        // Pairs with the release in `unlock`.
        m.await_until(&self.node(block, before).state, Until::clear(WAIT), Ordering::Acquire);
        before
    }

    /// The block of a lock that was never taken.
    #[cold]
    fn choose_block<M: Machine>(&self, m: &M, mem: &HierarchicalClhMem) -> u32 {
        // Relaxed, all of them: no other lock gets this block, and its memory is still zero.
        if mem.block.compare_exchange(m, 0, CHOOSING, Ordering::Relaxed).is_err() {
            return m.await_until(&mem.block, Until::differs(CHOOSING), Ordering::Relaxed);
        }
        let block = self.handed_out[0].fetch_add(m, 1, Ordering::Relaxed) + 1;
        mem.block.store(m, block, Ordering::Relaxed);
        block
    }
}

/// The state of a node that its owner has left.
#[inline(always)]
fn state(home: usize) -> u32 {
    (home as u32 + 1) << 2
}
