//! The queued spin lock, by hand.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use super::nodes::{Node, Nodes};
use super::{ByHand, Task};

#[derive(Default)]
pub struct Queued(Nodes);

#[repr(C, align(4))]
#[derive(Default)]
pub struct QueuedLock {
    pub locked: AtomicU8,
    pub pending: AtomicU8,
    pub tail: AtomicU16,
}

impl QueuedLock {
    #[inline(always)]
    pub fn word(&self) -> &AtomicU32 {
        // SAFETY: four bytes of atomics, aligned to four.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    #[inline(always)]
    pub fn locked_pending(&self) -> &AtomicU16 {
        // SAFETY: the first two bytes.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    #[inline(always)]
    fn try_lock(&self) -> bool {
        self.word().load(Relaxed) == 0
            && self.word().compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }
}

impl ByHand for Queued {
    type Lock = QueuedLock;

    #[inline(always)]
    fn lock(&self, mem: &QueuedLock, task: &Task) -> u32 {
        if let Err(word) = mem.word().compare_exchange(0, 1, Acquire, Relaxed) {
            self.contended(mem, task, word);
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &QueuedLock, _: &Task, _: u32) {
        mem.locked.store(0, Release);
    }
}

impl Queued {
    #[cold]
    fn contended(&self, mem: &QueuedLock, task: &Task, mut word: u32) {
        if word == 0x100 {
            for _ in 0..512 {
                word = mem.word().load(Relaxed);
                if word != 0x100 {
                    break;
                }
                spin_loop();
            }
        }
        if word & !0xFF != 0 {
            return self.queue(mem, task);
        }
        word = mem.word().fetch_or(0x100, Acquire);
        if word & !0xFF != 0 {
            if word & 0xFF00 == 0 {
                mem.pending.store(0, Relaxed);
            }
            return self.queue(mem, task);
        }
        if word & 0xFF != 0 {
            while mem.locked.load(Acquire) != 0 {
                spin_loop();
            }
        }
        mem.locked_pending().store(1, Relaxed);
    }

    #[cold]
    fn queue(&self, mem: &QueuedLock, task: &Task) {
        if let Some((_, mine, node)) = self.0.take(task) {
            self.wait_in_queue(mem, mine, node);
            return self.0.give_back(mine);
        }
        while !mem.try_lock() {
            while mem.word().load(Relaxed) != 0 {
                spin_loop();
            }
        }
    }

    #[inline(always)]
    fn wait_in_queue(&self, mem: &QueuedLock, mine: u32, node: &Node) {
        node.locked.store(0, Relaxed);
        node.next.store(0, Relaxed);
        if mem.try_lock() {
            return;
        }
        let before = mem.tail.swap(mine as u16, AcqRel);
        let mut next = 0;
        if before != 0 {
            self.0.node(before.into()).next.store(mine, Release);
            while node.locked.load(Acquire) == 0 {
                spin_loop();
            }
            next = node.next.load(Acquire);
        }
        let mut word = mem.word().load(Acquire);
        while word & 0xFFFF != 0 {
            spin_loop();
            word = mem.word().load(Acquire);
        }
        if word >> 16 == mine && mem.word().compare_exchange(word, 1, Relaxed, Relaxed).is_ok() {
            return;
        }
        mem.locked.store(1, Relaxed);
        while next == 0 {
            next = node.next.load(Acquire);
            if next == 0 {
                spin_loop();
            }
        }
        self.0.node(next).locked.store(1, Release);
    }
}
