//! Paravirtual queued spin lock: the queued lock for virtual machines, whose waiters halt.
//! They spin for a while, halt their CPU, and are kicked awake when it is their turn.
//!
//!     bits 0-7 locked: 0, 1, or 3: whoever unlocks must kick the head of the queue
//!     bits 8-15 pending: the head of the queue looks at the lock, nobody may steal it
//!     bits 16-31 tail: the code of the last waiter's node
//!
//!     node.state  running ──> halted    its waiter halts, or is about to
//!                 halted  ──> running   it looks again
//!                 halted  ──> hashed    it is the head now: the unlock will kick it
//!
//!     t,0,0 -> t,0,1       lock, also past those who queue (stealing), while not pending
//!     t,*,* -> t,1,*       the head looks; -> t,0,* before it halts
//!     t,1,0 -> t,0,1       the head takes it
//!     t,0,1 -> t,0,3       the head halts; or whoever makes a halted waiter the head
//!     *,*,1 -> *,*,0       unlock
//!     *,*,3 -> *,*,0       unlock, and a kick for the head
//!
//! Not first in, first out: a running CPU may pass those that sleep, for waking one takes far
//! longer than a short section. The pending byte bounds that: the head, once awake, stops it.
//!
//! Linux 6.x kernel/locking/qspinlock_paravirt.h, by Waiman Long and Peter Zijlstra, 2015
//! (locking/pvqspinlock: Implement simple paravirt support for the qspinlock; Allow limited
//! lock stealing). Linux finds the head by a hash table of lock addresses, to hold the lock at
//! four bytes; here a word beside it names the head. Halting is sleeping on a word of the
//! node, a kick sets it and wakes. A wait may give up at any time, which covers Linux's
//! giving up early when the one before it does not run.

use machine::{Atom, Field, Machine, Ordering, Region, Until, image};

use super::nodes::{Nodes, Place};
use super::queued::QueuedMem;
use crate::{Equivalent, Hold, Lock, Shape};

/// Looks before a waiter halts.
const LOOKS: u32 = 1 << 15;

const LOCKED: u8 = 1;
/// Locked, and the head of the queue must be kicked.
const SLOW: u8 = 3;
const LOCKED_PENDING_MASK: u32 = 0xFFFF;
const PENDING: u16 = 1 << 8;
const PENDING_MASK: u32 = 0xFF00;
const TAIL_SHIFT: u32 = 16;

const ATOMIC: &str = "what it orders beside are atomic accesses, in order here and on x86";
const FULL_BARRIER: &str = "what it orders beside are atomic accesses, for which every \
                            read-modify-write is a full barrier, here and on x86";
const SLOW_ENOUGH: &str = "whoever unlocks kicks for every value but 1; the head spins meanwhile";

const RUNNING: u32 = 0;
const HALTED: u32 = 1;
const HASHED: u32 = 2;

image! {
    /// The lock, and beside it the head of its queue.
    pub struct QueuedParavirtualMem {
        lock: QueuedMem,
        /// Whom to kick once `locked` is 3.
        #[cpu(2)]
        head: Atom<u32>,
    }

    /// A place in the queue.
    pub struct HaltingNode {
        /// Who comes after, once it has said so.
        #[cpu(2)]
        next: Atom<u32>,
        /// Not 0 once it is the head.
        locked: Atom<u32>,
        state: Atom<u32>,
        /// Not 0 once it was kicked.
        kicked: Atom<u32>,
        used: Field<u32>,
    }
}

impl Place for HaltingNode {
    #[inline(always)]
    fn used(&self) -> &Field<u32> {
        &self.used
    }

    /// Not `kicked`: a kick may come at any time.
    #[inline(always)]
    fn retire<M: Machine>(&self, m: &M) {
        m.poison(&self.next);
        m.poison(&self.locked);
        m.poison(&self.state);
    }
}

/// Paravirtual queued spin locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct QueuedParavirtual(Nodes<HaltingNode>);

impl Lock for QueuedParavirtual {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "skipped",
            line: "m.init(&node.state, RUNNING)",
            why: "what it was at the end of the last wait says running or hashed, and of a head that is \
                  hashed and not named no more than that it spins",
        },
        Equivalent { change: "relaxed", line: "at.lock.locked.load(m, Ordering::Acquire)", why: ATOMIC },
        Equivalent { change: "no acquire", line: "heir.locked.swap", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "heir.locked.swap", why: FULL_BARRIER },
        Equivalent { change: "off by one", line: "heir.locked.swap", why: "every value but 0 says head" },
        Equivalent { change: "torn", line: "heir.locked.swap", why: "only its waiter reads it meanwhile, and the exchange after it empties the store buffer" },
        Equivalent { change: "no acquire", line: "heir.state.compare_exchange", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "heir.state.compare_exchange", why: FULL_BARRIER },
        Equivalent { change: "skipped", line: "heir.state.compare_exchange", why: "the kick comes all the same; a head that does not know of it names itself again" },
        Equivalent { change: "off by one", line: "heir.state.compare_exchange", why: "the kick comes all the same; a head that does not know of it names itself again" },
        Equivalent { change: "torn", line: "heir.state.compare_exchange", why: "the kick comes all the same; a head that does not know of it names itself again" },
        Equivalent { change: "relaxed", line: "at.lock.locked.store(m, SLOW", why: ATOMIC },
        Equivalent { change: "off by one", line: "at.lock.locked.store(m, SLOW", why: SLOW_ENOUGH },
        Equivalent { change: "relaxed", line: "m.await_for(&node.locked", why: ATOMIC },
        Equivalent { change: "no acquire", line: "node.state.swap(m, HALTED", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "node.state.swap(m, HALTED", why: FULL_BARRIER },
        Equivalent { change: "torn", line: "node.state.swap(m, HALTED", why: "a store that is SeqCst is visible before the load after it, too" },
        Equivalent { change: "relaxed", line: "node.locked.load(m, Ordering::SeqCst)", why: "the swap before it is the barrier" },
        Equivalent { change: "skipped", line: "node.state.compare_exchange(m, HALTED, RUNNING", why: "who runs already is kicked, or names itself once more" },
        Equivalent { change: "off by one", line: "node.state.compare_exchange(m, HALTED, RUNNING", why: "who runs already is kicked, or names itself once more" },
        Equivalent { change: "torn", line: "node.state.compare_exchange(m, HALTED, RUNNING", why: "who runs already is kicked, or names itself once more" },
        Equivalent { change: "off by one", line: "node.state.store(m, RUNNING", why: "nobody looks at the state of the head" },
        Equivalent { change: "no release", line: "at.lock.locked.swap(m, SLOW", why: ATOMIC },
        Equivalent { change: "off by one", line: "at.lock.locked.swap(m, SLOW", why: SLOW_ENOUGH },
        Equivalent { change: "off by one", line: "node.state.store(m, HASHED", why: "nobody looks at the state of the head" },
        Equivalent { change: "no wait", line: "m.halt(&node.kicked", why: "sleep may end at any time" },
        Equivalent { change: "skipped", line: "node.kicked.store(m, 0", why: "it looks again without sleeping" },
        Equivalent { change: "off by one", line: "node.kicked.store(m, 0", why: "it looks again without sleeping" },
        Equivalent { change: "off by one", line: "node.kicked.store(m, 1", why: "every value but 0 is a kick" },
    ];
    const FIFO: bool = false;
    type Mem = QueuedParavirtualMem;

    fn new(region: &Region, shape: Shape) -> QueuedParavirtual {
        QueuedParavirtual(Nodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem) -> Hold {
        // 0,0,0 -> 0,0,1. Pairs with the releases in `unlock`.
        let lock = &at.lock;
        if lock.word().compare_exchange(m, 0, LOCKED.into(), Ordering::Acquire).is_err() {
            self.queue(m, at);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem, _: Hold) {
        // *,*,1 -> *,*,0. Pairs with every acquire of the word or a part of it.
        let lock = &at.lock;
        if lock.locked.compare_exchange(m, LOCKED, 0, Ordering::Release).is_err() {
            self.unlock_and_kick(m, at);
        }
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem) -> bool {
        at.lock.word().load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}

impl QueuedParavirtual {
    #[cold]
    fn unlock_and_kick<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem) {
        // Acquire: pairs with the release of SLOW, before which the head was named.
        at.lock.locked.load(m, Ordering::Acquire);
        let head = at.head.load(m, Ordering::Relaxed);
        // *,*,3 -> *,*,0. From here on the lock may be gone; the node is not.
        at.lock.locked.store(m, 0, Ordering::Release);
        self.kick(m, head);
    }

    #[cold]
    fn queue<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem) {
        let (_, mine, _) = self.0.take(m).expect("a CPU waits for four locks at most");
        self.wait_in_queue(m, at, mine);
        self.0.give_back(m, mine);
    }

    fn wait_in_queue<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem, mine: u32) {
        let node = self.0.node(mine);
        m.init(&node.next, 0);
        m.init(&node.locked, 0);
        m.init(&node.state, RUNNING);
        let start = m.history_mark();
        if steal(m, &at.lock) {
            return;
        }
        m.forget_history(start, 0);
        // p,*,* -> n,*,*. Release: our node is ready for whoever comes next. Acquire: so is
        // that of the one before us.
        let before = at.lock.tail.swap(m, mine as u16, Ordering::AcqRel);
        let mut next = 0;
        if before != 0 {
            // Release: whoever makes us the head finds our node ready.
            self.0.node(before.into()).next.store(m, mine, Ordering::Release);
            self.wait_to_be_head(m, node);
            m.forget_history(start, 1);
            // Pairs with the release of `next` above, as does the wait for it below.
            next = node.next.load(m, Ordering::Acquire);
        }
        self.wait_as_head(m, at, mine);
        // Ours. n,*,1 -> 0,*,1 if nobody is behind us. Relaxed: taking it has acquired.
        let word = at.lock.word().load(m, Ordering::Relaxed);
        if word >> TAIL_SHIFT == mine && self.empty_queue(m, at, mine) {
            return;
        }
        if next == 0 {
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        // The next becomes the head. SeqCst: this store, and then the look at its state, as
        // that one stores its state and then looks here. Pairs with `wait_to_be_head`.
        let heir = self.0.node(next);
        heir.locked.swap(m, 1, Ordering::SeqCst);
        // halted -> hashed: it sleeps, or is about to, so the unlock must kick it.
        let halted = heir.state.compare_exchange(m, HALTED, HASHED, Ordering::SeqCst);
        if halted.is_ok() {
            at.head.store(m, next, Ordering::Relaxed);
            // *,*,1 -> *,*,3. Release: the head is named. Only the holder writes it now.
            at.lock.locked.store(m, SLOW, Ordering::Release);
        }
    }

    /// Ends the queue if we are its last. `locked` may be 1 only: we set it, and only we
    /// could ask ourselves for a kick.
    fn empty_queue<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem, mine: u32) -> bool {
        // n,0,1 -> 0,0,1. Relaxed: nobody learns anything from it.
        let word = mine << TAIL_SHIFT | u32::from(LOCKED);
        at.lock.word().compare_exchange(m, word, LOCKED.into(), Ordering::Relaxed).is_ok()
    }

    /// Waits until the one before us makes us the head, asleep if that takes long.
    fn wait_to_be_head<M: Machine>(&self, m: &M, node: &HaltingNode) {
        let start = m.history_mark();
        loop {
            // Pairs with the swap of `locked` in `wait_in_queue`, as does the load below.
            let turn = Until::differs(0);
            if m.await_for(&node.locked, turn, Ordering::Acquire, LOOKS).is_some() {
                return;
            }
            // running -> halted. SeqCst: this store, and then the look at `locked`.
            node.state.swap(m, HALTED, Ordering::SeqCst);
            if node.locked.load(m, Ordering::SeqCst) == 0 {
                self.halt(m, node);
            }
            // halted -> running; hashed stays, for then the unlock knows of us. Relaxed: only
            // we and the one before us write it, and it says nothing of other memory.
            let _ = node.state.compare_exchange(m, HALTED, RUNNING, Ordering::Relaxed);
            m.forget_history(start, 0);
        }
    }

    /// Takes the lock, as the head of the queue, asleep if that takes long.
    fn wait_as_head<M: Machine>(&self, m: &M, at: &QueuedParavirtualMem, mine: u32) {
        let node = self.0.node(mine);
        // Relaxed: whoever made us the head wrote it before the unlock that we acquire.
        let mut named = node.state.load(m, Ordering::Relaxed) == HASHED;
        let start = m.history_mark();
        loop {
            node.state.store(m, RUNNING, Ordering::Relaxed);
            // t,0,* -> t,1,*: from here on nobody steals it.
            at.lock.pending.store(m, 1, Ordering::Relaxed);
            if take_as_head(m, &at.lock) {
                return;
            }
            // t,1,* -> t,0,*
            at.lock.pending.store(m, 0, Ordering::Relaxed);
            if !named {
                at.head.store(m, mine, Ordering::Relaxed);
                // *,*,1 -> *,*,3. Release: the head is named. Acquire: it may be free.
                if at.lock.locked.swap(m, SLOW, Ordering::AcqRel) == 0 {
                    // *,*,3 -> *,*,1: it is ours.
                    at.lock.locked.store(m, LOCKED, Ordering::Relaxed);
                    return;
                }
                named = true;
            }
            node.state.store(m, HASHED, Ordering::Relaxed);
            if at.lock.locked.load(m, Ordering::Relaxed) == SLOW {
                self.halt(m, node);
            }
            // Where a thief has it now, it is 1 and nobody would kick us: look on.
            m.forget_history(start, u64::from(named));
        }
    }

    /// Halts this CPU until it is kicked, or was since the last time.
    fn halt<M: Machine>(&self, m: &M, node: &HaltingNode) {
        m.halt(&node.kicked, 0);
        // Relaxed: whatever else the kick says was stored before, and is looked for again.
        node.kicked.store(m, 0, Ordering::Relaxed);
    }

    fn kick<M: Machine>(&self, m: &M, code: u32) {
        let node = self.0.node(code);
        node.kicked.store(m, 1, Ordering::Relaxed);
        m.kick(&node.kicked);
    }
}

/// Takes the lock past the queue, while its head does not look.
fn steal<M: Machine>(m: &M, lock: &QueuedMem) -> bool {
    let start = m.history_mark();
    loop {
        // Relaxed: the exchange acquires.
        let word = lock.word().load(m, Ordering::Relaxed);
        // t,0,0 -> t,0,1. Pairs with the releases in `unlock`.
        if word & LOCKED_PENDING_MASK == 0
            && lock.locked.compare_exchange(m, 0, LOCKED, Ordering::Acquire).is_ok()
        {
            return true;
        }
        if word >> TAIL_SHIFT == 0 || word & PENDING_MASK != 0 {
            return false;
        }
        m.cpu_relax(1);
        m.forget_history(start, 0);
    }
}

/// Looks at the lock for a while and takes it when it comes free.
fn take_as_head<M: Machine>(m: &M, lock: &QueuedMem) -> bool {
    let start = m.history_mark();
    while m.await_for(&lock.locked, Until::equals(0), Ordering::Relaxed, LOOKS).is_some() {
        // t,1,0 -> t,0,1. Fails where somebody stole it. Pairs with the releases in `unlock`.
        let word = lock.locked_pending();
        if word.compare_exchange(m, PENDING, LOCKED.into(), Ordering::Acquire).is_ok() {
            return true;
        }
        m.forget_history(start, 0);
    }
    false
}
