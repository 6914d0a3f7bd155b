//! Queued spin lock: the lock of Linux since 4.2, in four bytes.
//!
//!     bits 0-7 locked, 8-15 pending, 16-31 tail: the code of the last waiter's node
//!
//!     (tail, pending, locked)
//!
//!              fast      :    slow                                      :    unlock
//!     uncontended (0,0,0) -:--> (0,0,1) ---------------------------------:--> (*,*,0)
//!                         :       | ^--------.------.                /  :
//!                         :       v           \      \               |  :
//!     pending             :    (0,1,1) +--> (0,1,0)   \              |  :
//!                         :       | ^--'               |             |  :
//!                         :       v                    |             |  :
//!     uncontended queue   :    (n,x,y) +--> (n,0,0) ---'             |  :
//!                         :       | ^--'                             |  :
//!                         :       v                                  |  :
//!     contended queue     :    (*,x,y) +--> (*,0,0) ---> (*,0,1) ----'  :
//!                                ^--'
//!
//! First in, first out, except for a waiter that finds the lock free just before it queues. The
//! first waiter spins on the lock itself (pending) and touches no node; from the second on,
//! waiters queue as in an MCS lock, and the head of the queue waits for the holder and the pending
//! CPU. So two CPUs that pass the lock back and forth transfer one line, and many cost what an MCS
//! lock does. The node is given back within `lock`, so locks nest freely: a CPU can wait for four.
//!
//! Linux 6.x kernel/locking/qspinlock.c, by Waiman Long and Peter Zijlstra, 2015 (locking/
//! qspinlock: Introduce a simple generic 4-byte queued spinlock; Add pending bit); the diagram
//! is theirs. The reads of `next` after the hand-over are acquires here: the kernel relies on
//! the address dependency, which Rust does not have.

use std::ptr;

use machine::{Annotation, Atom, Machine, Ordering, Region, Until, image};

use super::nodes::QueueNodes;
use crate::{Equivalent, Hold, Lock, Shape};

/// Loads of the word while the pending CPU takes over (_Q_PENDING_LOOPS).
const PENDING_LOADS: u32 = 512;

const LOCKED: u32 = 1;
const LOCKED_MASK: u32 = 0xFF;
const PENDING: u32 = 1 << 8;
const PENDING_MASK: u32 = 0xFF00;
const TAIL_SHIFT: u32 = 16;

const _: () = assert!(cfg!(target_endian = "little"), "the word's bytes are in another order");

image! {
    /// The lock.
    #[repr(align(4))]
    pub struct QueuedMem {
        pub(super) locked: Atom<u8>,
        pub(super) pending: Atom<u8>,
        #[cpu(2)]
        pub(super) tail: Atom<u16>,
    }
}

impl QueuedMem {
    /// The whole word.
    #[inline(always)]
    pub(super) fn word(&self) -> &Atom<u32> {
        // SAFETY: four bytes of atomics, aligned to four, as an `Atom` of that size. Accesses of
        // both sizes overlap, which Rust leaves open for atomics. x86 and Arm do what Linux
        // expects: accesses of a byte and of the whole word are in one coherence order.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    /// The two bytes `locked` and `pending`.
    #[inline(always)]
    pub(super) fn locked_pending(&self) -> &Atom<u16> {
        // SAFETY: as for `word`, with the first two bytes.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

/// Queued spin locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct Queued(QueueNodes);

impl Lock for Queued {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, 0, LOCKED",
            why: "every value but 0 means locked",
        },
        Equivalent {
            change: "off by one",
            line: "locked_pending().store(m, LOCKED",
            why: "every value but 0 means locked",
        },
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, word, LOCKED",
            why: "every value but 0 means locked",
        },
        Equivalent {
            change: "off by one",
            line: "mem.locked.store(m, LOCKED",
            why: "every value but 0 means locked",
        },
        Equivalent {
            change: "no wait",
            line: "m.await_for(mem.word(), until",
            why: "a bounded wait may give up immediately",
        },
        Equivalent {
            change: "off by one",
            line: ".locked.store(m, 1,",
            why: "every value but 0 makes the waiter the head",
        },
        Equivalent {
            change: "relaxed",
            line: "m.await_until(&node.locked",
            why: "the head acquires the lock word next, which orders all that this access would",
        },
        Equivalent {
            change: "relaxed",
            line: ".locked.store(m, 1,",
            why: "the head acquires the lock word next, which orders all that this access would",
        },
    ];
    const FIFO: bool = true;
    type Mem = QueuedMem;

    fn new(region: &Region, shape: Shape) -> Queued {
        Queued(QueueNodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &QueuedMem) -> Hold {
        // 0,0,0 -> 0,0,1. Pairs with the release in `unlock`.
        match mem.word().compare_exchange(m, 0, LOCKED, Ordering::Acquire) {
            Ok(_) => m.annotate(Annotation::Arrive),
            Err(word) => self.lock_contended(m, mem, word),
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &QueuedMem, _: Hold) {
        // *,*,1 -> *,*,0. Pairs with every acquire of the word or of `locked`.
        mem.locked.store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &QueuedMem) -> bool {
        mem.word().load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}

impl Queued {
    #[cold]
    fn lock_contended<M: Machine>(&self, m: &M, mem: &QueuedMem, mut word: u32) {
        let start = m.history_mark();
        // The pending CPU is about to do 0,1,0 -> 0,0,1. Relaxed: the word only selects a path.
        if word == PENDING {
            let until = Until::differs(PENDING);
            let changed = m.await_for(mem.word(), until, Ordering::Relaxed, PENDING_LOADS);
            word = changed.unwrap_or(PENDING);
        }
        if word & !LOCKED_MASK != 0 {
            m.forget_history(start, 0);
            return self.queue(m, mem);
        }
        // 0,0,* -> 0,1,*. Pairs with the release in `unlock`.
        word = mem.word().fetch_or(m, PENDING, Ordering::Acquire);
        if word & !LOCKED_MASK != 0 {
            // Another CPU is pending or queued. If we set the bit, we clear it: n,1,* -> n,0,*.
            // Relaxed: it publishes nothing.
            if word & PENDING_MASK == 0 {
                mem.pending.store(m, 0, Ordering::Relaxed);
            }
            m.forget_history(start, 0);
            return self.queue(m, mem);
        }
        m.annotate(Annotation::Arrive);
        // 0,1,1 -> *,1,0. Pairs with the release in `unlock`.
        if word & LOCKED_MASK != 0 {
            m.await_until(&mem.locked, Until::equals(0), Ordering::Acquire);
        }
        // *,1,0 -> *,0,1. Relaxed: the lock is ours already.
        mem.locked_pending().store(m, LOCKED as u16, Ordering::Relaxed);
    }

    #[cold]
    fn queue<M: Machine>(&self, m: &M, mem: &QueuedMem) {
        let Some((_, mine, node)) = self.0.take(m) else {
            return self.spin(m, mem);
        };
        m.init(&node.locked, 0);
        m.init(&node.next, 0);
        let start = m.history_mark();
        // The line of our node may have been cold: the lock may be free by now.
        if try_lock(m, mem) {
            m.annotate(Annotation::Arrive);
            return self.0.give_back(m, mine);
        }
        m.forget_history(start, 0);
        // p,*,* -> n,*,*. Release: our node is ready for the next waiter. Acquire: our
        // predecessor's node is ready too.
        let before = mem.tail.swap(m, mine as u16, Ordering::AcqRel);
        m.annotate(Annotation::Arrive);
        let mut next = 0;
        if before != 0 {
            // Release: the CPU that makes us the head of the queue finds our node ready.
            self.0.node(before.into()).next.store(m, mine, Ordering::Release);
            m.forget_history(start, 1);
            // Pairs with the release at the end of this function.
            m.await_until(&node.locked, Until::differs(0), Ordering::Acquire);
            // Pairs with the release of `next` above, as does the wait for it below.
            next = node.next.load(m, Ordering::Acquire);
        }
        // *,x,y -> *,0,0. Pairs with the release in `unlock`.
        let clear = Until::clear(LOCKED_MASK | PENDING_MASK);
        let word = m.await_until(mem.word(), clear, Ordering::Acquire);
        // n,0,0 -> 0,0,1. Relaxed: the wait has acquired.
        if word >> TAIL_SHIFT == mine
            && mem.word().compare_exchange(m, word, LOCKED, Ordering::Relaxed).is_ok()
        {
            return self.0.give_back(m, mine);
        }
        // *,*,0 -> *,*,1. Relaxed: the lock is ours already.
        mem.locked.store(m, LOCKED as u8, Ordering::Relaxed);
        if next == 0 {
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        // The next waiter becomes the head. Pairs with the acquire of `locked` above.
        self.0.node(next).locked.store(m, 1, Ordering::Release);
        self.0.give_back(m, mine);
    }

    /// Takes the lock without a node, for a CPU that waits for more locks than it has nodes.
    #[cold]
    fn spin<M: Machine>(&self, m: &M, mem: &QueuedMem) {
        let start = m.history_mark();
        while !try_lock(m, mem) {
            m.await_until(mem.word(), Until::equals(0), Ordering::Relaxed);
            m.forget_history(start, 0);
        }
        m.annotate(Annotation::Arrive);
    }
}

#[inline(always)]
fn try_lock<M: Machine>(m: &M, mem: &QueuedMem) -> bool {
    // 0,0,0 -> 0,0,1. Relaxed: the load only saves an exclusive access. Pairs with the release in
    // `unlock`.
    mem.word().load(m, Ordering::Relaxed) == 0
        && mem.word().compare_exchange(m, 0, LOCKED, Ordering::Acquire).is_ok()
}
