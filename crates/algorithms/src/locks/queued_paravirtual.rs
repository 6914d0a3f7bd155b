//! Paravirtual queued spin lock: the queued lock for virtual machines, whose waiters halt.
//! They spin for a while, halt their virtual CPU, and are kicked awake when it is their turn.
//!
//!     bits 0-7 locked: 0, 1, or 3 if the unlock must kick the head of the queue
//!     bits 8-15 pending: the head of the queue polls the lock, no task may steal it
//!     bits 16-31 tail: the code of the last waiter's node
//!
//!     node.state  running ──> halted    the waiter has halted, or is about to
//!                 halted  ──> running   the waiter polls again
//!                 halted  ──> hashed    the waiter is the head now: the unlock will kick it
//!
//!     t,0,0 -> t,0,1       lock, even past the queue (lock stealing), while not pending
//!     t,*,* -> t,1,*       the head polls; -> t,0,* before it halts
//!     t,1,0 -> t,0,1       the head takes the lock
//!     t,0,1 -> t,0,3       the head halts, or the lock holder makes a halted waiter the head
//!     *,*,1 -> *,*,0       unlock
//!     *,*,3 -> *,*,0       unlock, and a kick for the head
//!
//! Not first in, first out: a running CPU may pass halted ones, because waking a CPU takes far
//! longer than a short critical section. The pending byte bounds that: the head sets it once awake.
//!
//! Linux 6.x kernel/locking/qspinlock_paravirt.h, by Waiman Long and Peter Zijlstra, 2015
//! (locking/pvqspinlock: Implement simple paravirt support for the qspinlock; Allow limited
//! lock stealing). Linux finds the head in a hash table of lock addresses, to keep the lock at
//! four bytes; here a word beside the lock names the head. Halting is sleeping on a word of the
//! node; a kick sets that word and wakes. A wait may give up at any time, which covers Linux's
//! early end of spinning when the previous waiter's virtual CPU does not run.

use machine::{Atom, Field, Machine, Ordering, Region, Until, image};

use super::nodes::{QueueNodes, queue_node};
use super::queued::QueuedMem;
use crate::{Equivalent, FULL_BARRIER, Hold, IN_ORDER, Lock, Shape};

/// Loads of the word before a waiter halts (SPIN_THRESHOLD).
const LOADS: u32 = 1 << 15;

const LOCKED: u8 = 1;
/// Locked, and the unlock must kick the head of the queue.
const SLOW: u8 = 3;
const LOCKED_PENDING_MASK: u32 = 0xFFFF;
const PENDING: u16 = 1 << 8;
const PENDING_MASK: u32 = 0xFF00;
const TAIL_SHIFT: u32 = 16;

const SLOW_ENOUGH: &str = "the unlock kicks for every value but 1; until then the head spins";
const KICKED_ANYWAY: &str =
    "the kick comes anyway; a head that does not know of it names itself again";
const NAMED_AGAIN: &str = "a waiter that runs already is kicked, or names itself once more";
const HEAD_STATE: &str = "no CPU reads the state of the head";
const NO_SLEEP: &str = "the waiter polls again without halting";

const RUNNING: u32 = 0;
const HALTED: u32 = 1;
const HASHED: u32 = 2;

image! {
    /// The lock, and the head of its queue.
    pub struct QueuedParavirtualMem {
        lock: QueuedMem,
        /// The node to kick if `locked` is 3.
        #[cpu(2)]
        head: Atom<u32>,
    }

    /// A waiter's place in the queue.
    pub struct HaltingNode {
        /// The next waiter's node, once it has linked itself.
        #[cpu(2)]
        next: Atom<u32>,
        /// Not 0 once the waiter is the head.
        locked: Atom<u32>,
        state: Atom<u32>,
        /// Not 0 once the waiter was kicked.
        kicked: Atom<u32>,
        used: Field<u32>,
    }
}

// Not `kicked`: a kick may come at any time.
queue_node!(HaltingNode, poison [next, locked, state]);

/// Paravirtual queued spin locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct QueuedParavirtual(QueueNodes<HaltingNode>);

impl Lock for QueuedParavirtual {
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "skipped",
            line: "m.init(&node.state, RUNNING)",
            why: "the last wait left running or hashed, and a head that is hashed but not named only spins",
        },
        Equivalent { change: "relaxed", line: "mem.lock.locked.load(m, Ordering::Acquire)", why: IN_ORDER },
        Equivalent { change: "relaxed", line: "heir.locked.store", why: IN_ORDER },
        Equivalent { change: "off by one", line: "heir.locked.store", why: "every value but 0 means head" },
        Equivalent { change: "skipped", line: "m.fence(Ordering::SeqCst)", why: "the exchange after it drains the store buffer" },
        Equivalent { change: "skipped", line: "heir.state.compare_exchange", why: KICKED_ANYWAY },
        Equivalent { change: "off by one", line: "heir.state.compare_exchange", why: KICKED_ANYWAY },
        Equivalent { change: "torn", line: "heir.state.compare_exchange", why: KICKED_ANYWAY },
        Equivalent { change: "relaxed", line: "mem.lock.locked.store(m, SLOW", why: IN_ORDER },
        Equivalent { change: "off by one", line: "mem.lock.locked.store(m, SLOW", why: SLOW_ENOUGH },
        Equivalent { change: "relaxed", line: "m.await_for(&node.locked", why: IN_ORDER },
        Equivalent { change: "no acquire", line: "node.state.swap(m, HALTED", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "node.state.swap(m, HALTED", why: FULL_BARRIER },
        Equivalent { change: "torn", line: "node.state.swap(m, HALTED", why: "a SeqCst store, too, is visible before the load after it" },
        Equivalent { change: "relaxed", line: "node.locked.load(m, Ordering::SeqCst)", why: "the swap before it is the barrier" },
        Equivalent { change: "skipped", line: "node.state.compare_exchange(m, HALTED, RUNNING", why: NAMED_AGAIN },
        Equivalent { change: "off by one", line: "node.state.compare_exchange(m, HALTED, RUNNING", why: NAMED_AGAIN },
        Equivalent { change: "torn", line: "node.state.compare_exchange(m, HALTED, RUNNING", why: NAMED_AGAIN },
        Equivalent { change: "skipped", line: "node.state.store(m, RUNNING", why: HEAD_STATE },
        Equivalent { change: "off by one", line: "node.state.store(m, RUNNING", why: HEAD_STATE },
        Equivalent { change: "no release", line: "mem.lock.locked.swap(m, SLOW", why: IN_ORDER },
        Equivalent { change: "off by one", line: "mem.lock.locked.swap(m, SLOW", why: SLOW_ENOUGH },
        Equivalent { change: "skipped", line: "node.state.store(m, HASHED", why: HEAD_STATE },
        Equivalent { change: "off by one", line: "node.state.store(m, HASHED", why: HEAD_STATE },
        Equivalent { change: "no wait", line: "m.halt(&node.kicked", why: "halting may end at any time" },
        Equivalent { change: "relaxed", line: "node.kicked.swap(m, 0", why: FULL_BARRIER },
        Equivalent { change: "skipped", line: "node.kicked.swap(m, 0", why: NO_SLEEP },
        Equivalent { change: "off by one", line: "node.kicked.swap(m, 0", why: NO_SLEEP },
        Equivalent { change: "torn", line: "node.kicked.swap(m, 0", why: "the caller has not read yet what a kick in between is about" },
        Equivalent { change: "relaxed", line: "node.kicked.store(m, 1", why: IN_ORDER },
        Equivalent { change: "off by one", line: "node.kicked.store(m, 1", why: "every value but 0 is a kick" },
    ];
    const FIFO: bool = false;
    type Mem = QueuedParavirtualMem;

    fn new(region: &Region, shape: Shape) -> QueuedParavirtual {
        QueuedParavirtual(QueueNodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem) -> Hold {
        // 0,0,0 -> 0,0,1. Pairs with the releases in `unlock`.
        let lock = &mem.lock;
        if lock.word().compare_exchange(m, 0, LOCKED.into(), Ordering::Acquire).is_err() {
            self.queue(m, mem);
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem, _: Hold) {
        // *,*,1 -> *,*,0. Pairs with every acquire of the word or a part of it.
        let lock = &mem.lock;
        if lock.locked.compare_exchange(m, LOCKED, 0, Ordering::Release).is_err() {
            self.unlock_and_kick(m, mem);
        }
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem) -> bool {
        mem.lock.word().load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}

impl QueuedParavirtual {
    #[cold]
    fn unlock_and_kick<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem) {
        // Acquire: pairs with the release of SLOW, which the name of the head precedes.
        mem.lock.locked.load(m, Ordering::Acquire);
        let head = mem.head.load(m, Ordering::Relaxed);
        // *,*,3 -> *,*,0. From here on the lock may be freed; the node stays.
        mem.lock.locked.store(m, 0, Ordering::Release);
        self.kick(m, head);
    }

    #[cold]
    fn queue<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem) {
        let (_, mine, _) = self.0.take(m).expect("a CPU waits for four locks at most");
        self.wait_in_queue(m, mem, mine);
        self.0.give_back(m, mine);
    }

    fn wait_in_queue<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem, mine: u32) {
        let node = self.0.node(mine);
        m.init(&node.next, 0);
        m.init(&node.locked, 0);
        m.init(&node.state, RUNNING);
        let start = m.history_mark();
        if steal(m, &mem.lock) {
            return;
        }
        m.forget_history(start, 0);
        // p,*,* -> n,*,*. Release: our node is ready for the next waiter. Acquire: our
        // predecessor's node is ready too.
        let before = mem.lock.tail.swap(m, mine as u16, Ordering::AcqRel);
        let mut next = 0;
        if before != 0 {
            // Release: the CPU that makes us the head finds our node ready.
            self.0.node(before.into()).next.store(m, mine, Ordering::Release);
            self.wait_to_be_head(m, node);
            m.forget_history(start, 1);
            // Pairs with the release of `next` above, as does the wait for it below.
            next = node.next.load(m, Ordering::Acquire);
        }
        self.wait_as_head(m, mem, mine);
        // The lock is ours. n,*,1 -> 0,*,1 if no waiter is behind us. Relaxed: taking the lock has
        // acquired.
        let word = mem.lock.word().load(m, Ordering::Relaxed);
        if word >> TAIL_SHIFT == mine && self.empty_queue(m, mem, mine) {
            return;
        }
        if next == 0 {
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        // The next waiter becomes the head. Release: what we have read of its node comes before it uses that again.
        let heir = self.0.node(next);
        heir.locked.store(m, 1, Ordering::Release);
        // This store precedes our load of the heir's state, also where the exchange fails, while the heir stores its
        // state before it loads this. Pairs with `wait_to_be_head`.
        m.fence(Ordering::SeqCst);
        // halted -> hashed: the heir sleeps, or is about to, so the unlock must kick it.
        let halted = heir.state.compare_exchange(m, HALTED, HASHED, Ordering::Relaxed);
        if halted.is_ok() {
            mem.head.store(m, next, Ordering::Relaxed);
            // *,*,1 -> *,*,3. Release: the head is named. Only the lock holder writes `locked` now.
            mem.lock.locked.store(m, SLOW, Ordering::Release);
        }
    }

    /// Empties the queue if we are its last waiter. `locked` can only be 1: we set it, and no
    /// other CPU writes it before we make a successor the head.
    fn empty_queue<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem, mine: u32) -> bool {
        // n,0,1 -> 0,0,1. Relaxed: it publishes nothing.
        let word = mine << TAIL_SHIFT | u32::from(LOCKED);
        mem.lock.word().compare_exchange(m, word, LOCKED.into(), Ordering::Relaxed).is_ok()
    }

    /// Waits until our predecessor makes us the head; halts if that takes long.
    fn wait_to_be_head<M: Machine>(&self, m: &M, node: &HaltingNode) {
        let start = m.history_mark();
        loop {
            // Pairs with the store of `locked` in `wait_in_queue`, as does the load below.
            let turn = Until::differs(0);
            if m.await_for(&node.locked, turn, Ordering::Acquire, LOADS).is_some() {
                return;
            }
            // running -> halted. SeqCst: this store precedes the load of `locked`.
            node.state.swap(m, HALTED, Ordering::SeqCst);
            if node.locked.load(m, Ordering::SeqCst) == 0 {
                self.halt(m, node);
            }
            // halted -> running; hashed stays, because the unlock will kick us. Relaxed: only we
            // and our predecessor write it, and it orders no other memory.
            let _ = node.state.compare_exchange(m, HALTED, RUNNING, Ordering::Relaxed);
            m.forget_history(start, 0);
        }
    }

    /// Takes the lock as the head of the queue; halts if that takes long.
    fn wait_as_head<M: Machine>(&self, m: &M, mem: &QueuedParavirtualMem, mine: u32) {
        let node = self.0.node(mine);
        // Relaxed: our predecessor wrote it before the unlock that we acquire.
        let mut named = node.state.load(m, Ordering::Relaxed) == HASHED;
        let start = m.history_mark();
        loop {
            node.state.store(m, RUNNING, Ordering::Relaxed);
            // t,0,* -> t,1,*: from here on no task steals the lock.
            mem.lock.pending.store(m, 1, Ordering::Relaxed);
            if take_as_head(m, &mem.lock) {
                return;
            }
            // t,1,* -> t,0,*
            mem.lock.pending.store(m, 0, Ordering::Relaxed);
            if !named {
                mem.head.store(m, mine, Ordering::Relaxed);
                // *,*,1 -> *,*,3. Release: the head is named. Acquire: the lock may be free.
                if mem.lock.locked.swap(m, SLOW, Ordering::AcqRel) == 0 {
                    // *,*,3 -> *,*,1: the lock is ours.
                    mem.lock.locked.store(m, LOCKED, Ordering::Relaxed);
                    return;
                }
                named = true;
            }
            node.state.store(m, HASHED, Ordering::Relaxed);
            if mem.lock.locked.load(m, Ordering::Relaxed) == SLOW {
                self.halt(m, node);
            }
            // If another task has stolen the lock, `locked` is 1 and no kick would come: poll on.
            m.forget_history(start, u64::from(named));
        }
    }

    /// Halts this CPU until it is kicked; returns immediately if it was kicked since the last halt.
    fn halt<M: Machine>(&self, m: &M, node: &HaltingNode) {
        m.halt(&node.kicked, 0);
        // Acquire: the caller reads again what the kick was about. Pairs with the release in `kick`. A store could wait in the
        // store buffer until after the next kick, which it would undo.
        node.kicked.swap(m, 0, Ordering::Acquire);
    }

    fn kick<M: Machine>(&self, m: &M, code: u32) {
        let node = self.0.node(code);
        // Release: the free lock is visible to the virtual CPU that the kick wakes. A hypervisor orders so: KVM has
        // smp_wmb() in kvm_make_request(), which pv_kick() ends in, and smp_mb__after_atomic() in kvm_check_request(),
        // by which the halted CPU finds the kick (include/linux/kvm_host.h).
        node.kicked.store(m, 1, Ordering::Release);
        m.kick(&node.kicked);
    }
}

/// Takes the lock past the queue, while the head of the queue does not poll.
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

/// Polls the lock for a while, and takes it when it is free.
fn take_as_head<M: Machine>(m: &M, lock: &QueuedMem) -> bool {
    let start = m.history_mark();
    while m.await_for(&lock.locked, Until::equals(0), Ordering::Relaxed, LOADS).is_some() {
        // t,1,0 -> t,0,1. Fails if a task stole the lock. Pairs with the releases in `unlock`.
        let word = lock.locked_pending();
        if word.compare_exchange(m, PENDING, LOCKED.into(), Ordering::Acquire).is_ok() {
            return true;
        }
        m.forget_history(start, 0);
    }
    false
}
