//! Queued read-write lock: the lock of Linux since 3.16. Readers count themselves; tasks that
//! have to wait queue for a spin lock first.
//!
//!     bits 0-7: 0xFF while a task writes; bit 8: a writer waits; bits 9-31: number of readers
//!
//!     (readers, waiting, writing)
//!     r,0,0 -> r+1,0,0    read: no task writes or waits to write
//!     r,x,y -> r+1,x,y -> r,x,y    read failed: queue
//!     r,*,* -> r+1,*,*    read, at the head of the queue; then wait until no task writes
//!     0,0,0 -> 0,0,1      write
//!     r,0,y -> r,1,y      write, at the head of the queue: newcomers must queue now
//!     0,1,0 -> 0,0,1      write, when the last reader has left
//!
//! As fair as its queue: readers and writers enter in the order in which they queued, but a
//! reader that need not queue may pass them. All readers share one counter, so even reading alone
//! does not scale.
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

const _: () = assert!(cfg!(target_endian = "little"), "the word's bytes are in another order");

image! {
    /// The lock.
    pub struct QueuedReadWriteMem {
        state: ReadWriteWord,
        queue: QueuedMem,
    }

    /// The word of the lock.
    #[repr(align(4))]
    pub struct ReadWriteWord {
        /// 0xFF while a task writes.
        pub writing: Atom<u8>,
        /// The bit of the waiting writer, and the low bits of the number of readers.
        pub waiting: Atom<u8>,
        /// The high bits of the number of readers.
        pub readers: Atom<u16>,
    }
}

impl QueuedReadWriteMem {
    #[inline(always)]
    fn word(&self) -> &Atom<u32> {
        // SAFETY: four bytes of atomics, aligned to four. Accesses of both sizes overlap, as in
        // Linux.
        unsafe { &*ptr::from_ref(&self.state).cast() }
    }
}

/// Queued read-write locks, over queued spin locks.
#[derive(Debug)]
pub struct QueuedReadWrite(Queued);

impl SharedLock for QueuedReadWrite {
    const EQUIVALENT: &'static [Equivalent] = &[Equivalent {
        change: "no wait",
        line: "m.await_until(mem.word(), Until::equals(WAITING)",
        why: "the exchange decides; it is only attempted more often",
    }];
    type Mem = QueuedReadWriteMem;

    fn new(region: &Region, shape: Shape) -> QueuedReadWrite {
        QueuedReadWrite(Queued::new(region, shape))
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold {
        // r,0,0 -> r+1,0,0. Pairs with the release in `write_unlock`.
        if mem.word().fetch_add(m, READER, Ordering::Acquire) & (WRITING | WAITING) != 0 {
            self.read_contended(m, mem);
        }
        Hold(0)
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, _: Hold) {
        // r,*,* -> r-1,*,*. Pairs with the acquires of writers.
        mem.word().fetch_add(m, READER.wrapping_neg(), Ordering::Release);
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold {
        // 0,0,0 -> 0,0,1. Pairs with the releases of both unlocks.
        if mem.word().compare_exchange(m, 0, WRITING, Ordering::Acquire).is_err() {
            self.write_contended(m, mem);
        }
        Hold(0)
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, _: Hold) {
        // *,*,1 -> *,*,0. A byte: other CPUs change the other bits.
        mem.state.writing.store(m, 0, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &Self::Mem) -> bool {
        mem.word().load(m, Ordering::Relaxed) == 0 && self.0.at_rest(m, &mem.queue)
    }
}

impl QueuedReadWrite {
    #[cold]
    fn read_contended<M: Machine>(&self, m: &M, mem: &QueuedReadWriteMem) {
        // r+1,x,y -> r,x,y. Relaxed: we have read nothing.
        mem.word().fetch_add(m, READER.wrapping_neg(), Ordering::Relaxed);
        let queue_hold = self.0.lock(m, &mem.queue);
        // r,*,* -> r+1,*,*. Relaxed: the wait acquires.
        mem.word().fetch_add(m, READER, Ordering::Relaxed);
        // We are the head of the queue, so only a writer that holds the lock can be in the way.
        // Pairs with the release in `write_unlock`.
        m.await_until(mem.word(), Until::clear(WRITING), Ordering::Acquire);
        self.0.unlock(m, &mem.queue, queue_hold);
    }

    #[cold]
    fn write_contended<M: Machine>(&self, m: &M, mem: &QueuedReadWriteMem) {
        let queue_hold = self.0.lock(m, &mem.queue);
        // 0,0,0 -> 0,0,1. Relaxed: the load saves an exclusive access. Pairs with both unlocks.
        let free = mem.word().load(m, Ordering::Relaxed) == 0
            && mem.word().compare_exchange(m, 0, WRITING, Ordering::Acquire).is_ok();
        if !free {
            // r,0,y -> r,1,y. Relaxed: it only asks newcomers to queue.
            mem.word().fetch_or(m, WAITING, Ordering::Relaxed);
            let start = m.history_mark();
            loop {
                // Relaxed: the exchange acquires.
                m.await_until(mem.word(), Until::equals(WAITING), Ordering::Relaxed);
                // 0,1,0 -> 0,0,1. Fails while a reader has counted itself and not yet backed out.
                // Pairs with both unlocks.
                let taken = mem.word().compare_exchange(m, WAITING, WRITING, Ordering::Acquire);
                if taken.is_ok() {
                    break;
                }
                m.forget_history(start, 0);
            }
        }
        self.0.unlock(m, &mem.queue, queue_hold);
    }
}
