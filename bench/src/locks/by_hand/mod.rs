//! The locks as one would write them without a machine in between: on the atomics of the
//! standard library, each for this purpose only. And two mutexes that everybody uses.

mod cna;
mod paravirtual;
mod read_write;

pub use read_write::{per_cpu_read_write, queued_read_write};

use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

use super::{CPUS, Passed};

/// A lock and its counter on a page of their own.
#[repr(C, align(4096))]
#[derive(Default)]
struct Page<L> {
    lock: L,
    count: AtomicU64,
}

/// Tells these locks from the mutexes.
#[derive(Default)]
struct Hand<L>(L);

trait ByHand: Sync + Default {
    fn lock(&self, cpu: usize);
    fn unlock(&self, cpu: usize);
}

impl<L: ByHand> Passed for Box<Page<Hand<L>>> {
    fn pass(&self, cpu: usize, times: u64) {
        for _ in 0..times {
            self.lock.0.lock(cpu);
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
            self.lock.0.unlock(cpu);
        }
    }

    fn counted(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

pub fn test_and_set() -> impl Passed {
    Box::<Page<Hand<TestAndSet>>>::default()
}

pub fn test_and_test_and_set() -> impl Passed {
    Box::<Page<Hand<TestAndTestAndSet>>>::default()
}

pub fn ticket() -> impl Passed {
    Box::<Page<Hand<Ticket>>>::default()
}

pub fn mcs() -> impl Passed {
    Box::<Page<Hand<Mcs>>>::default()
}

pub fn clh() -> impl Passed {
    let clh = Box::<Page<Hand<Clh>>>::default();
    for (cpu, node) in clh.lock.0.nodes.iter().enumerate() {
        node.spare.store(cpu as u32 + 1, Relaxed);
    }
    clh
}

pub fn queued() -> impl Passed {
    Box::<Page<Hand<Queued>>>::default()
}

pub fn cna() -> impl Passed {
    Box::<Page<Hand<cna::Cna>>>::default()
}

pub fn queued_paravirtual() -> impl Passed {
    Box::<Page<Hand<paravirtual::QueuedParavirtual>>>::default()
}

pub fn parking() -> impl Passed {
    Box::<Page<Hand<Parking>>>::default()
}

#[derive(Default)]
struct TestAndSet(AtomicU32);

impl ByHand for TestAndSet {
    #[inline(always)]
    fn lock(&self, _: usize) {
        while self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            spin_loop();
        }
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        self.0.store(0, Release);
    }
}

#[derive(Default)]
struct TestAndTestAndSet(AtomicU32);

impl ByHand for TestAndTestAndSet {
    #[inline(always)]
    fn lock(&self, cpu: usize) {
        let (mut pause, mut seed) = (8, cpu as u32 | 1);
        while self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            seed ^= seed << 13;
            seed ^= seed >> 17;
            seed ^= seed << 5;
            for _ in 0..((u64::from(seed) * pause) >> 32) {
                spin_loop();
            }
            pause = 1024.min(pause * 2);
            while self.0.load(Relaxed) != 0 {
                spin_loop();
            }
        }
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        self.0.store(0, Release);
    }
}

#[derive(Default)]
struct Ticket {
    next: AtomicU32,
    serving: AtomicU32,
}

impl ByHand for Ticket {
    #[inline(always)]
    fn lock(&self, _: usize) {
        let mine = self.next.fetch_add(1, Relaxed);
        while self.serving.load(Acquire) != mine {
            spin_loop();
        }
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        self.serving.store(self.serving.load(Relaxed).wrapping_add(1), Release);
    }
}

#[repr(align(64))]
#[derive(Default)]
struct Node {
    next: AtomicU32,
    locked: AtomicU32,
}

#[derive(Default)]
struct Mcs {
    tail: AtomicU32,
    nodes: [Node; CPUS],
}

impl ByHand for Mcs {
    #[inline(always)]
    fn lock(&self, cpu: usize) {
        let (node, mine) = (&self.nodes[cpu], cpu as u32 + 1);
        node.next.store(0, Relaxed);
        node.locked.store(0, Relaxed);
        let before = self.tail.swap(mine, AcqRel);
        if before != 0 {
            self.nodes[before as usize - 1].next.store(mine, Release);
            while node.locked.load(Acquire) == 0 {
                spin_loop();
            }
        }
    }

    #[inline(always)]
    fn unlock(&self, cpu: usize) {
        let (node, mine) = (&self.nodes[cpu], cpu as u32 + 1);
        let mut next = node.next.load(Acquire);
        if next == 0 {
            if self.tail.compare_exchange(mine, 0, Release, Relaxed).is_ok() {
                return;
            }
            while next == 0 {
                spin_loop();
                next = node.next.load(Acquire);
            }
        }
        self.nodes[next as usize - 1].locked.store(1, Release);
    }
}

#[repr(align(64))]
#[derive(Default)]
struct ClhNode {
    locked: AtomicU32,
    spare: AtomicU32,
}

#[derive(Default)]
struct Clh {
    tail: AtomicU32,
    head: AtomicU32,
    /// The first is nobody's, and free.
    first: ClhNode,
    nodes: [ClhNode; CPUS],
}

impl Clh {
    #[inline(always)]
    fn node(&self, index: u32) -> &ClhNode {
        if index == 0 { &self.first } else { &self.nodes[index as usize - 1] }
    }
}

impl ByHand for Clh {
    #[inline(always)]
    fn lock(&self, cpu: usize) {
        let own = &self.nodes[cpu];
        let mine = own.spare.load(Relaxed);
        self.node(mine).locked.store(1, Relaxed);
        let before = self.tail.swap(mine, AcqRel);
        while self.node(before).locked.load(Acquire) != 0 {
            spin_loop();
        }
        own.spare.store(before, Relaxed);
        self.head.store(mine, Relaxed);
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        self.node(self.head.load(Relaxed)).locked.store(0, Release);
    }
}

#[repr(C, align(4))]
#[derive(Default)]
struct Word {
    locked: AtomicU8,
    pending: AtomicU8,
    tail: AtomicU16,
}

impl Word {
    #[inline(always)]
    fn all(&self) -> &AtomicU32 {
        // SAFETY: four bytes of atomics, aligned to four.
        unsafe { &*ptr::from_ref(self).cast() }
    }

    #[inline(always)]
    fn locked_pending(&self) -> &AtomicU16 {
        // SAFETY: the first two of them.
        unsafe { &*ptr::from_ref(self).cast() }
    }
}

#[derive(Default)]
struct Queued {
    word: Word,
    nodes: [Node; CPUS],
}

impl Queued {
    #[cold]
    fn contended(&self, cpu: usize, mut word: u32) {
        for _ in 0..512 {
            if word != 0x100 {
                break;
            }
            spin_loop();
            word = self.word.all().load(Relaxed);
        }
        if word & !0xFF == 0 {
            word = self.word.all().fetch_or(0x100, Acquire);
            if word & !0xFF == 0 {
                while word & 0xFF != 0 && self.word.locked.load(Acquire) != 0 {
                    spin_loop();
                }
                return self.word.locked_pending().store(1, Relaxed);
            }
            if word & 0xFF00 == 0 {
                self.word.pending.store(0, Relaxed);
            }
        }
        self.queue(cpu);
    }

    #[cold]
    fn queue(&self, cpu: usize) {
        let (node, mine) = (&self.nodes[cpu], cpu as u32 + 1);
        node.next.store(0, Relaxed);
        node.locked.store(0, Relaxed);
        if self.word.all().load(Relaxed) == 0
            && self.word.all().compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        {
            return;
        }
        let before = self.word.tail.swap(mine as u16, AcqRel);
        let mut next = 0;
        if before != 0 {
            self.nodes[before as usize - 1].next.store(mine, Release);
            while node.locked.load(Acquire) == 0 {
                spin_loop();
            }
            next = node.next.load(Acquire);
        }
        let mut word = self.word.all().load(Acquire);
        while word & 0xFFFF != 0 {
            spin_loop();
            word = self.word.all().load(Acquire);
        }
        if word >> 16 == mine && self.word.all().compare_exchange(word, 1, Relaxed, Relaxed).is_ok()
        {
            return;
        }
        self.word.locked.store(1, Relaxed);
        while next == 0 {
            next = node.next.load(Acquire);
        }
        self.nodes[next as usize - 1].locked.store(1, Release);
    }
}

impl ByHand for Queued {
    #[inline(always)]
    fn lock(&self, cpu: usize) {
        if let Err(word) = self.word.all().compare_exchange(0, 1, Acquire, Relaxed) {
            self.contended(cpu, word);
        }
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        self.word.locked.store(0, Release);
    }
}

#[derive(Default)]
struct Parking(AtomicU32);

/// A futex call without a timeout.
fn futex(word: &AtomicU32, command: libc::c_int, value: u32) {
    let timeout = ptr::null::<libc::timespec>();
    // SAFETY: the word is live, and the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), command, value, timeout) };
}

impl Parking {
    #[cold]
    fn contended(&self) {
        let mut state = self.0.load(Relaxed);
        for _ in 1..100 {
            if state != 1 {
                break;
            }
            spin_loop();
            state = self.0.load(Relaxed);
        }
        if state == 0 && self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return;
        }
        while self.0.swap(2, Acquire) != 0 {
            futex(&self.0, libc::FUTEX_WAIT, 2);
        }
    }
}

impl ByHand for Parking {
    #[inline(always)]
    fn lock(&self, _: usize) {
        if self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.contended();
        }
    }

    #[inline(always)]
    fn unlock(&self, _: usize) {
        if self.0.swap(0, Release) == 2 {
            futex(&self.0, libc::FUTEX_WAKE, 1);
        }
    }
}

/// The standard library's mutex.
pub fn std_mutex() -> impl Passed {
    Box::<Page<std::sync::Mutex<()>>>::default()
}

impl Passed for Box<Page<std::sync::Mutex<()>>> {
    fn pass(&self, _: usize, times: u64) {
        for _ in 0..times {
            let _guard = self.lock.lock().expect("nobody panics inside");
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        }
    }

    fn counted(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

/// parking_lot's mutex.
pub fn parking_lot() -> impl Passed {
    Box::<Page<parking_lot::Mutex<()>>>::default()
}

impl Passed for Box<Page<parking_lot::Mutex<()>>> {
    fn pass(&self, _: usize, times: u64) {
        for _ in 0..times {
            let _guard = self.lock.lock();
            self.count.store(self.count.load(Relaxed) + 1, Relaxed);
        }
    }

    fn counted(&self) -> u64 {
        self.count.load(Relaxed)
    }
}
