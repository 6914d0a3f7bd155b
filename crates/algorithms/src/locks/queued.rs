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
//! First in, first out, but for a waiter that finds the lock free just before it queues. The
//! first to wait spins on the lock itself (pending) and touches no node; from the second on,
//! waiters queue as in an MCS lock, whose head waits for holder and pending. So two CPUs
//! handing the lock to and fro cost one line, and many cost what an MCS lock does. The node
//! goes back within `lock`, so locks nest freely, four to a CPU that wait at once.
//!
//! Linux 6.x kernel/locking/qspinlock.c, by Waiman Long and Peter Zijlstra, 2015 (locking/
//! qspinlock: Introduce a simple generic 4-byte queued spinlock; Add pending bit); the diagram
//! is theirs. The reads of `next` after the hand-over are acquires here: the kernel relies on
//! the dependency of the address, which this language does not know.

use std::ptr;

use machine::{Atom, Machine, Annotation, Ordering, Region, Until, image};

use super::nodes::Nodes;
use crate::{Equivalent, Hold, Lock, Shape};

/// Looks while somebody who was pending takes over.
const PENDING_LOOKS: u32 = 512;

const LOCKED: u32 = 1;
const LOCKED_MASK: u32 = 0xFF;
const PENDING: u32 = 1 << 8;
const PENDING_MASK: u32 = 0xFF00;
const TAIL_SHIFT: u32 = 16;

const _: () = assert!(cfg!(target_endian = "little"), "the bytes of the word lie otherwise");

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
        // SAFETY: four bytes of atomics, aligned to four, in an `Atom` of that size. Accesses
        // of both sizes meet there, which the language leaves open for atomics: x86 and Arm
        // do as Linux expects, single bytes in one order with the whole word.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    /// Locked and pending.
    #[inline(always)]
    pub(super) fn locked_pending(&self) -> &Atom<u16> {
        // SAFETY: as for `word`, with the first two bytes.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

/// Queued spin locks, and the nodes of all CPUs.
#[derive(Debug)]
pub struct Queued(Nodes);

impl Lock for Queued {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, 0, LOCKED",
            why: "every value but 0 is locked",
        },
        Equivalent {
            change: "off by one",
            line: "locked_pending().store(m, LOCKED",
            why: "every value but 0 is locked",
        },
        Equivalent {
            change: "off by one",
            line: "compare_exchange(m, word, LOCKED",
            why: "every value but 0 is locked",
        },
        Equivalent {
            change: "off by one",
            line: "at.locked.store(m, LOCKED",
            why: "every value but 0 is locked",
        },
        Equivalent {
            change: "no wait",
            line: "m.await_for(at.word(), until",
            why: "a wait for a while may give up at once",
        },
        Equivalent {
            change: "off by one",
            line: ".locked.store(m, 1,",
            why: "every value but 0 makes it the head",
        },
        Equivalent {
            change: "relaxed",
            line: "m.await_until(&node.locked",
            why: "the head acquires the lock word next, which orders all that this would",
        },
        Equivalent {
            change: "relaxed",
            line: ".locked.store(m, 1,",
            why: "the head acquires the lock word next, which orders all that this would",
        },
    ];
    const FIFO: bool = true;
    type Mem = QueuedMem;

    fn new(region: &Region, shape: Shape) -> Queued {
        Queued(Nodes::new(region, shape))
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &QueuedMem) -> Hold {
        // 0,0,0 -> 0,0,1. Pairs with the release in `unlock`.
        match at.word().compare_exchange(m, 0, LOCKED, Ordering::Acquire) {
            Ok(_) => m.annotate(Annotation::Arrive),
            Err(word) => self.lock_contended(m, at, word),
        }
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &QueuedMem, _: Hold) {
        // *,*,1 -> *,*,0. Pairs with every acquire of the word or of `locked`.
        at.locked.store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &QueuedMem) -> bool {
        at.word().load(m, Ordering::Relaxed) == 0 && self.0.all_free(m)
    }
}

impl Queued {
    #[cold]
    fn lock_contended<M: Machine>(&self, m: &M, at: &QueuedMem, mut word: u32) {
        let start = m.history_mark();
        // 0,1,0 -> 0,0,1 is about to be done by the one who is pending. Relaxed: the word
        // only says which way to go.
        if word == PENDING {
            let until = Until::differs(PENDING);
            let changed = m.await_for(at.word(), until, Ordering::Relaxed, PENDING_LOOKS);
            word = changed.unwrap_or(PENDING);
        }
        if word & !LOCKED_MASK != 0 {
            m.forget_history(start, 0);
            return self.queue(m, at);
        }
        // 0,0,* -> 0,1,*. Pairs with the release in `unlock`.
        word = at.word().fetch_or(m, PENDING, Ordering::Acquire);
        if word & !LOCKED_MASK != 0 {
            // Somebody else is pending or queues. Was it us who set the bit, then away with
            // it: n,1,* -> n,0,*. Relaxed: nobody learns anything from it.
            if word & PENDING_MASK == 0 {
                at.pending.store(m, 0, Ordering::Relaxed);
            }
            m.forget_history(start, 0);
            return self.queue(m, at);
        }
        m.annotate(Annotation::Arrive);
        // 0,1,1 -> *,1,0. Pairs with the release in `unlock`.
        if word & LOCKED_MASK != 0 {
            m.await_until(&at.locked, Until::equals(0), Ordering::Acquire);
        }
        // *,1,0 -> *,0,1. Relaxed: it is ours already.
        at.locked_pending().store(m, LOCKED as u16, Ordering::Relaxed);
    }

    #[cold]
    fn queue<M: Machine>(&self, m: &M, at: &QueuedMem) {
        let Some((_, mine, node)) = self.0.take(m) else {
            return self.spin(m, at);
        };
        m.init(&node.locked, 0);
        m.init(&node.next, 0);
        let start = m.history_mark();
        // We touched a line that may have been cold: perhaps somebody let go meanwhile.
        if try_lock(m, at) {
            m.annotate(Annotation::Arrive);
            return self.0.give_back(m, mine);
        }
        m.forget_history(start, 0);
        // p,*,* -> n,*,*. Release: our node is ready for whoever comes next. Acquire: so is
        // that of the one before us.
        let before = at.tail.swap(m, mine as u16, Ordering::AcqRel);
        m.annotate(Annotation::Arrive);
        let mut next = 0;
        if before != 0 {
            // Release: whoever hands us the head of the queue finds our node ready.
            self.0.node(before.into()).next.store(m, mine, Ordering::Release);
            m.forget_history(start, 1);
            // Pairs with the release at the end of this function.
            m.await_until(&node.locked, Until::differs(0), Ordering::Acquire);
            // Pairs with the release of `next` above, as does the wait for it below.
            next = node.next.load(m, Ordering::Acquire);
        }
        // *,x,y -> *,0,0. Pairs with the release in `unlock`.
        let clear = Until::clear(LOCKED_MASK | PENDING_MASK);
        let word = m.await_until(at.word(), clear, Ordering::Acquire);
        // n,0,0 -> 0,0,1. Relaxed: the wait has acquired.
        if word >> TAIL_SHIFT == mine
            && at.word().compare_exchange(m, word, LOCKED, Ordering::Relaxed).is_ok()
        {
            return self.0.give_back(m, mine);
        }
        // *,*,0 -> *,*,1. Relaxed: it is ours already.
        at.locked.store(m, LOCKED as u8, Ordering::Relaxed);
        if next == 0 {
            next = m.await_until(&node.next, Until::differs(0), Ordering::Acquire);
        }
        // The head of the queue goes on. Pairs with the acquire of `locked` above.
        self.0.node(next).locked.store(m, 1, Ordering::Release);
        self.0.give_back(m, mine);
    }

    /// For a CPU that waits for more locks at once than it has nodes.
    #[cold]
    fn spin<M: Machine>(&self, m: &M, at: &QueuedMem) {
        let start = m.history_mark();
        while !try_lock(m, at) {
            m.await_until(at.word(), Until::equals(0), Ordering::Relaxed);
            m.forget_history(start, 0);
        }
        m.annotate(Annotation::Arrive);
    }
}

#[inline(always)]
fn try_lock<M: Machine>(m: &M, at: &QueuedMem) -> bool {
    // 0,0,0 -> 0,0,1. Relaxed: the look only saves a line. Pairs with the release in `unlock`.
    at.word().load(m, Ordering::Relaxed) == 0
        && at.word().compare_exchange(m, 0, LOCKED, Ordering::Acquire).is_ok()
}
