//! Cohort lock: a ticket lock for each memory node, and a global one that a node keeps for a while. As both are
//! ticket locks, this is C-TKT-TKT.
//!
//!     local.next, serving     a ticket lock: the CPUs of a node
//!     local.owns = 1          the node has the global lock; who gets the local one has both
//!     local.passed            how often the node has passed it on since it got it
//!     global.next, serving    a ticket lock: the nodes
//!
//!     lock:    local ─> owns? ── yes ─────────────────────> inside
//!                         └───── no ──> global ───────────> inside
//!     unlock:  a CPU of the node waits, and passed < limit ──> owns, passed + 1 ─> local
//!              otherwise ────────────────────────────────────> global ─> local
//!
//! Not first in, first out: the lock and the data that it guards stay on a node as long as its CPUs want it, but no
//! longer than for the limit. A lock needs two lines for each node, and an uncontended one is taken twice.
//!
//! A task with several others before it first stays away in proportion to their number: tasks that wait for one word
//! all read it again at each unlock, and where those reads follow one another, the next holder waits for most of them.
//!
//! Dice, Marathe and Shavit 2012 (Lock cohorting: a general technique for designing NUMA locks); Mellor-Crummey and
//! Scott 1991 (Algorithms for scalable synchronization on shared-memory multiprocessors), for the delay.

use machine::{Annotation, Atom, Field, Line, Machine, Ordering, Region, Until, image};

use crate::{Equivalent, Hold, Lock, Shape, Waits};

/// Turns of a spin loop that a task stays away from a ticket lock for each task before the next one: less than a
/// short critical section takes.
const DELAY: u32 = 4;
/// A task stays away as if no more tasks than this were before it: a mistaken delay stays small.
const AHEAD_MAX: u32 = 64;

/// Nodes with a lock of their own; those beyond share.
pub(super) const NODES: usize = 8;

image! {
    /// A ticket lock.
    pub struct Tickets {
        next: Atom<u32>,
        serving: Atom<u32>,
    }

    /// What the lock of a node guards.
    pub struct Passing {
        owns: Field<u32>,
        passed: Field<u32>,
    }

    /// The lock of a node. Its holder writes `passing` before it unlocks: on the line of the tickets, all waiters would
    /// read that again, and the unlock would wait for them.
    pub struct Local {
        tickets: Line<Tickets>,
        passing: Line<Passing>,
    }

    /// The lock.
    pub struct CohortMem {
        global: Line<Tickets>,
        locals: [Local; NODES],
    }
}

impl Tickets {
    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, in_line: impl FnOnce(&M)) {
        // Relaxed: the acquire of `serving` shows what the last holder did.
        let mine = self.next.fetch_add(m, 1, Ordering::Relaxed);
        in_line(m);
        let start = m.history_mark();
        // Relaxed: only how long to stay away.
        let ahead = mine.wrapping_sub(self.serving.load(m, Ordering::Relaxed));
        if ahead > 1 {
            m.cpu_relax((ahead - 1).min(AHEAD_MAX) * DELAY);
        }
        m.forget_history(start, 0);
        // Pairs with the release in `unlock`.
        m.await_until(&self.serving, Until::equals(mine), Ordering::Acquire);
    }

    /// Only its holder unlocks it, or for the global lock: a holder of the local lock whose node has it.
    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M) {
        let serving = self.serving.load(m, Ordering::Relaxed);
        self.serving.store(m, serving.wrapping_add(1), Ordering::Release);
    }

    /// Whether anybody waits behind the holder.
    #[inline(always)]
    fn is_wanted<M: Machine>(&self, m: &M) -> bool {
        // Relaxed: whoever comes later takes the global lock.
        let next = self.next.load(m, Ordering::Relaxed);
        next.wrapping_sub(self.serving.load(m, Ordering::Relaxed)) > 1
    }

    fn is_free<M: Machine>(&self, m: &M) -> bool {
        self.next.load(m, Ordering::Relaxed) == self.serving.load(m, Ordering::Relaxed)
    }
}

/// Cohort locks.
#[derive(Debug)]
pub struct Cohort {
    /// How often a node passes the lock on within itself.
    limit: u32,
}

impl Lock for Cohort {
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "skipped",
        line: "local.passing.passed.set(m, 0)",
        why: "a node that has once reached the limit then passes nothing on, which is only slower",
    }];
    const FIFO: bool = false;
    const NUMA_AWARE: bool = true;
    const WAITS: Waits = Waits::OneWord;
    type Mem = CohortMem;

    fn new(_: &Region, shape: Shape) -> Cohort {
        Cohort { limit: shape.passes }
    }

    /// Each other node may pass the lock on as often as the limit allows, and then hands it to ours.
    fn bypasses(&self, nodes: u32) -> Option<u32> {
        Some(self.limit * (nodes - 1))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &CohortMem) -> Hold {
        let node = m.node() % NODES;
        let local = &mem.locals[node];
        local.tickets.lock(m, |_| ());
        if local.passing.owns.get(m) == 0 {
            mem.global.lock(m, |m| m.annotate(Annotation::Arrive));
            local.passing.passed.set(m, 0);
        }
        Hold(node as u32)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &CohortMem, Hold(node): Hold) {
        let local = &mem.locals[node as usize];
        let passed = local.passing.passed.get(m);
        let stays = passed < self.limit && local.tickets.is_wanted(m);
        local.passing.owns.set(m, u32::from(stays));
        if stays {
            local.passing.passed.set(m, passed + 1);
        } else {
            mem.global.unlock(m);
        }
        local.tickets.unlock(m);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &CohortMem) -> bool {
        mem.global.is_free(m) && mem.locals.iter().all(|local| local.tickets.is_free(m))
    }
}
