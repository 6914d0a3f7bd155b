//! The locks that readers share, by hand. A pass writes once and reads once.

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use super::{ByHand, CPUS, Page, Passed, Queued, Ticket};

/// Tells these locks from those that one holds.
#[derive(Default)]
struct HandShared<L>(L);

trait SharedByHand: Sync + Default {
    fn read_lock(&self, cpu: usize);
    fn read_unlock(&self, cpu: usize);
    fn write_lock(&self, cpu: usize);
    fn write_unlock(&self, cpu: usize);
}

impl<L: SharedByHand> Passed for Box<Page<HandShared<L>>> {
    fn pass(&self, cpu: usize, times: u64) {
        let lock = &self.lock.0;
        for _ in 0..times {
            lock.write_lock(cpu);
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
            lock.write_unlock(cpu);
            lock.read_lock(cpu);
            self.count.load(Relaxed);
            lock.read_unlock(cpu);
        }
    }

    fn counted(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

pub fn queued_read_write() -> impl Passed {
    Box::<Page<HandShared<QueuedReadWrite>>>::default()
}

pub fn per_cpu_read_write() -> impl Passed {
    Box::<Page<HandShared<PerCpuReadWrite>>>::default()
}

#[repr(C, align(4))]
#[derive(Default)]
struct State {
    writing: AtomicU8,
    waiting: AtomicU8,
    readers: AtomicU16,
}

#[derive(Default)]
struct QueuedReadWrite {
    state: State,
    queue: Queued,
}

impl QueuedReadWrite {
    #[inline(always)]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: four bytes of atomics, aligned to four.
        unsafe { &*ptr::from_ref(&self.state).cast() }
    }

    #[cold]
    fn read_contended(&self, cpu: usize) {
        self.word().fetch_sub(0x200, Relaxed);
        self.queue.lock(cpu);
        self.word().fetch_add(0x200, Relaxed);
        while self.word().load(Acquire) & 0xFF != 0 {
            spin_loop();
        }
        self.queue.unlock(cpu);
    }

    #[cold]
    fn write_contended(&self, cpu: usize) {
        self.queue.lock(cpu);
        let free = self.word().load(Relaxed) == 0
            && self.word().compare_exchange(0, 0xFF, Acquire, Relaxed).is_ok();
        if !free {
            self.word().fetch_or(0x100, Relaxed);
            loop {
                while self.word().load(Relaxed) != 0x100 {
                    spin_loop();
                }
                if self.word().compare_exchange(0x100, 0xFF, Acquire, Relaxed).is_ok() {
                    break;
                }
            }
        }
        self.queue.unlock(cpu);
    }
}

impl SharedByHand for QueuedReadWrite {
    #[inline(always)]
    fn read_lock(&self, cpu: usize) {
        if self.word().fetch_add(0x200, Acquire) & 0x1FF != 0 {
            self.read_contended(cpu);
        }
    }

    #[inline(always)]
    fn read_unlock(&self, _: usize) {
        self.word().fetch_sub(0x200, Release);
    }

    #[inline(always)]
    fn write_lock(&self, cpu: usize) {
        if self.word().compare_exchange(0, 0xFF, Acquire, Relaxed).is_err() {
            self.write_contended(cpu);
        }
    }

    #[inline(always)]
    fn write_unlock(&self, _: usize) {
        self.state.writing.store(0, Release);
    }
}

#[repr(align(64))]
#[derive(Default)]
struct OfCpu(Ticket);

#[derive(Default)]
struct PerCpuReadWrite {
    cpus: [OfCpu; CPUS],
}

impl SharedByHand for PerCpuReadWrite {
    #[inline(always)]
    fn read_lock(&self, cpu: usize) {
        self.cpus[cpu].0.lock(cpu);
    }

    #[inline(always)]
    fn read_unlock(&self, cpu: usize) {
        self.cpus[cpu].0.unlock(cpu);
    }

    #[inline(always)]
    fn write_lock(&self, cpu: usize) {
        for each in &self.cpus {
            each.0.lock(cpu);
        }
    }

    #[inline(always)]
    fn write_unlock(&self, cpu: usize) {
        for each in &self.cpus {
            each.0.unlock(cpu);
        }
    }
}
