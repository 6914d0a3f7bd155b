//! Queued read-write lock: the lock of Linux since 3.16. Readers count themselves; who has to
//! wait takes a spin lock first, which makes the queue.
//!
//!     bits 0-7: 0xFF while somebody writes; bit 8: a writer waits; bits 9-31: readers
//!
//!     (readers, waiting, writing)
//!     r,0,0 -> r+1,0,0    read: nobody writes or waits to
//!     r,x,y -> r+1,x,y -> r,x,y    it was in vain: queue
//!     r,*,* -> r+1,*,*    read, at the head of the queue; then wait until nobody writes
//!     0,0,0 -> 0,0,1      write
//!     r,0,y -> r,1,y      write, at the head of the queue: newcomers must queue now
//!     0,1,0 -> 0,0,1      write, when the last reader has left
//!
//! As fair as its queue is: readers and writers take turns in the order in which they queued,
//! and a reader that need not queue may pass. Readers still share one counter, so reading
//! alone does not scale.
//!
//! Linux 6.x kernel/locking/qrwlock.c and include/asm-generic/qrwlock.h, by Waiman Long, 2014
//! (rwlock: Introduce queued read-write lock; the writer's byte is by Will Deacon, 2017).

use std::ptr;

use machine::{Atom, Machine, Ordering, Region, Until, image};

use super::queued::{Queued, QueuedMem};
use crate::{Equivalent, Hold, Lock, Shape, SharedLock};

const WRITING: u32 = 0xFF;
const WAITING: u32 = 0x100;
const READER: u32 = 0x200;

const _: () = assert!(cfg!(target_endian = "little"), "the bytes of the word lie otherwise");

image! {
    /// The lock.
    pub struct QueuedReadWriteMem {
        state: State,
        queue: QueuedMem,
    }

    /// Its word.
    #[repr(align(4))]
    pub struct State {
        /// 0xFF while somebody writes.
        pub writing: Atom<u8>,
        /// The bit, and the low bits of the count.
        pub waiting: Atom<u8>,
        /// The high bits of the count.
        pub readers: Atom<u16>,
    }
}

impl QueuedReadWriteMem {
    #[inline(always)]
    fn word(&self) -> &Atom<u32> {
        // SAFETY: four bytes of atomics, aligned to four; both sizes meet there as in Linux.
        unsafe { &*ptr::from_ref(&self.state).cast() }
    }
}

/// Queued read-write locks, over queued spin locks.
#[derive(Debug)]
pub struct QueuedReadWrite(Queued);

impl SharedLock for QueuedReadWrite {
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "no wait",
            line: "m.await_until(at.word(), Until::equals(WAITING)",
            why: "the exchange decides; it is only tried more often",
        },
    ];
    type Mem = QueuedReadWriteMem;

    fn new(region: &Region, shape: Shape) -> QueuedReadWrite {
        QueuedReadWrite(Queued::new(region, shape))
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, at: &Self::Mem) -> Hold {
        // r,0,0 -> r+1,0,0. Pairs with the release in `write_unlock`.
        if at.word().fetch_add(m, READER, Ordering::Acquire) & (WRITING | WAITING) != 0 {
            self.read_contended(m, at);
        }
        Hold(0)
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, at: &Self::Mem, _: Hold) {
        // r,*,* -> r-1,*,*. Pairs with the acquires of writers.
        at.word().fetch_add(m, READER.wrapping_neg(), Ordering::Release);
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, at: &Self::Mem) -> Hold {
        // 0,0,0 -> 0,0,1. Pairs with the releases of both unlocks.
        if at.word().compare_exchange(m, 0, WRITING, Ordering::Acquire).is_err() {
            self.write_contended(m, at);
        }
        Hold(0)
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, at: &Self::Mem, _: Hold) {
        // *,*,1 -> *,*,0. A byte: the other bits are not ours.
        at.state.writing.store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &Self::Mem) -> bool {
        at.word().load(m, Ordering::Relaxed) == 0 && self.0.at_rest(m, &at.queue)
    }
}

impl QueuedReadWrite {
    #[cold]
    fn read_contended<M: Machine>(&self, m: &M, at: &QueuedReadWriteMem) {
        // r+1,x,y -> r,x,y. Relaxed: we have read nothing.
        at.word().fetch_add(m, READER.wrapping_neg(), Ordering::Relaxed);
        let place = self.0.lock(m, &at.queue);
        // r,*,* -> r+1,*,*. Relaxed: the wait acquires.
        at.word().fetch_add(m, READER, Ordering::Relaxed);
        // Nobody waits but us, so only a writer that holds it can be in the way. Pairs with
        // the release in `write_unlock`.
        m.await_until(at.word(), Until::clear(WRITING), Ordering::Acquire);
        self.0.unlock(m, &at.queue, place);
    }

    #[cold]
    fn write_contended<M: Machine>(&self, m: &M, at: &QueuedReadWriteMem) {
        let place = self.0.lock(m, &at.queue);
        // 0,0,0 -> 0,0,1. Relaxed: the look saves a line. Pairs with both unlocks.
        let free = at.word().load(m, Ordering::Relaxed) == 0
            && at.word().compare_exchange(m, 0, WRITING, Ordering::Acquire).is_ok();
        if !free {
            // r,0,y -> r,1,y. Relaxed: it asks newcomers to queue, no more.
            at.word().fetch_or(m, WAITING, Ordering::Relaxed);
            let start = m.history_mark();
            loop {
                // Relaxed: the exchange acquires.
                m.await_until(at.word(), Until::equals(WAITING), Ordering::Relaxed);
                // 0,1,0 -> 0,0,1. Fails if a reader comes by that cannot stay. Pairs with
                // both unlocks.
                let taken = at.word().compare_exchange(m, WAITING, WRITING, Ordering::Acquire);
                if taken.is_ok() {
                    break;
                }
                m.forget_history(start, 0);
            }
        }
        self.0.unlock(m, &at.queue, place);
    }
}

