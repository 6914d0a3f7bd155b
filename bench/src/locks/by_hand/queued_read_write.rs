//! The queued read-write lock, by hand.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use super::queued::{Queued, QueuedLock};
use super::{ByHand, SharedByHand, Task};

#[derive(Default)]
pub struct QueuedReadWrite(Queued);

#[repr(C)]
#[derive(Default)]
pub struct QueuedReadWriteLock {
    state: State,
    queue: QueuedLock,
}

#[repr(C, align(4))]
#[derive(Default)]
struct State {
    writing: AtomicU8,
    waiting: AtomicU8,
    readers: AtomicU16,
}

impl QueuedReadWriteLock {
    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: four bytes of atomics, aligned to four.
        unsafe { &*ptr::from_ref(&self.state).cast() }
    }
}

impl SharedByHand for QueuedReadWrite {
    type Lock = QueuedReadWriteLock;

    #[inline(always)]
    fn read_lock(&self, mem: &QueuedReadWriteLock, task: &Task) {
        if mem.word().fetch_add(0x200, Acquire) & 0x1FF != 0 {
            self.read_contended(mem, task);
        }
    }

    #[inline(always)]
    fn read_unlock(&self, mem: &QueuedReadWriteLock, _: &Task) {
        mem.word().fetch_sub(0x200, Release);
    }

    #[inline(always)]
    fn write_lock(&self, mem: &QueuedReadWriteLock, task: &Task) {
        if mem.word().compare_exchange(0, 0xFF, Acquire, Relaxed).is_err() {
            self.write_contended(mem, task);
        }
    }

    #[inline(always)]
    fn write_unlock(&self, mem: &QueuedReadWriteLock, _: &Task) {
        mem.state.writing.store(0, Release);
    }
}

impl QueuedReadWrite {
    #[cold]
    fn read_contended(&self, mem: &QueuedReadWriteLock, task: &Task) {
        mem.word().fetch_sub(0x200, Relaxed);
        let queue_hold = self.0.lock(&mem.queue, task);
        mem.word().fetch_add(0x200, Relaxed);
        while mem.word().load(Acquire) & 0xFF != 0 {
            spin_loop();
        }
        self.0.unlock(&mem.queue, task, queue_hold);
    }

    #[cold]
    fn write_contended(&self, mem: &QueuedReadWriteLock, task: &Task) {
        let queue_hold = self.0.lock(&mem.queue, task);
        let free = mem.word().load(Relaxed) == 0
            && mem.word().compare_exchange(0, 0xFF, Acquire, Relaxed).is_ok();
        if !free {
            mem.word().fetch_or(0x100, Relaxed);
            loop {
                while mem.word().load(Relaxed) != 0x100 {
                    spin_loop();
                }
                if mem.word().compare_exchange(0x100, 0xFF, Acquire, Relaxed).is_ok() {
                    break;
                }
            }
        }
        self.0.unlock(&mem.queue, task, queue_hold);
    }
}
