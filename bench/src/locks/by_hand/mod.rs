//! The locks as one would write them without a machine in between: on the atomics of the
//! standard library, each for this purpose only. Each is the algorithm of ours with the same name,
//! and its words lie in memory as those do, so that the two differ in how they are written and
//! in nothing else. And two mutexes that everybody uses.

mod clh;
mod cna;
mod mcs;
mod nodes;
mod parking;
mod per_cpu_read_write;
mod queued;
mod queued_paravirtual;
mod queued_read_write;
mod test_and_set;
mod test_and_test_and_set;
mod ticket;

pub use clh::Clh;
pub use cna::Cna;
pub use mcs::Mcs;
pub use parking::Parking;
pub use per_cpu_read_write::PerCpuReadWrite;
pub use queued::Queued;
pub use queued_paravirtual::QueuedParavirtual;
pub use queued_read_write::QueuedReadWrite;
pub use test_and_set::TestAndSet;
pub use test_and_test_and_set::TestAndTestAndSet;
pub use ticket::Ticket;

use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use machine::Region;

use super::race::{MEMORY, Task};
use super::{CPUS, Entry, Passed};

/// A kind of lock: what its locks share, such as the nodes of all CPUs.
pub trait ByHand: Default + Send + Sync + 'static {
    /// One lock.
    type Lock: Default + Send + Sync;
    /// Returns what `unlock` wants to be told.
    fn lock(&self, at: &Self::Lock, task: &Task) -> u32;
    fn unlock(&self, at: &Self::Lock, task: &Task, hold: u32);
}

/// The same, shared by readers.
pub trait SharedByHand: Default + Send + Sync + 'static {
    type Lock: Default + Send + Sync;
    fn read_lock(&self, at: &Self::Lock, task: &Task);
    fn read_unlock(&self, at: &Self::Lock, task: &Task);
    fn write_lock(&self, at: &Self::Lock, task: &Task);
    fn write_unlock(&self, at: &Self::Lock, task: &Task);
}

/// A lock by hand, ready to be measured.
pub fn hand<L: ByHand, const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    Box::new(Hand::<L, COPY>(Mapped::new(region)))
}

/// The same of one that readers share.
pub fn hand_shared<L: SharedByHand, const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    Box::new(HandShared::<L, COPY>(Mapped::new(region)))
}

/// The standard library's mutex.
pub fn std_mutex<const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    Box::new(StdMutex::<COPY>(Mapped::new(region)))
}

/// parking_lot's mutex.
pub fn parking_lot<const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    Box::new(ParkingLot::<COPY>(Mapped::new(region)))
}

struct Hand<L: ByHand, const COPY: u32>(Mapped<Placed<L, L::Lock>>);

impl<L: ByHand, const COPY: u32> Passed for Hand<L, COPY> {
    #[inline(never)]
    fn pass(&self, task: &Task, times: u64) {
        black_box(COPY);
        let Placed { kind, guarded } = &*self.0;
        for _ in 0..times {
            let hold = kind.lock(&guarded.lock, task);
            guarded.count();
            kind.unlock(&guarded.lock, task, hold);
        }
    }

    fn entry(&self) -> Entry {
        Entry::of(self)
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

struct HandShared<L: SharedByHand, const COPY: u32>(Mapped<Placed<L, L::Lock>>);

/// A pass writes once and reads once.
impl<L: SharedByHand, const COPY: u32> Passed for HandShared<L, COPY> {
    #[inline(never)]
    fn pass(&self, task: &Task, times: u64) {
        black_box(COPY);
        let Placed { kind, guarded } = &*self.0;
        for _ in 0..times {
            kind.write_lock(&guarded.lock, task);
            guarded.count();
            kind.write_unlock(&guarded.lock, task);
            kind.read_lock(&guarded.lock, task);
            guarded.counted();
            kind.read_unlock(&guarded.lock, task);
        }
    }

    fn entry(&self) -> Entry {
        Entry::of(self)
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

struct StdMutex<const COPY: u32>(Mapped<Placed<(), std::sync::Mutex<()>>>);

impl<const COPY: u32> Passed for StdMutex<COPY> {
    #[inline(never)]
    fn pass(&self, _: &Task, times: u64) {
        black_box(COPY);
        let guarded = &self.0.guarded;
        for _ in 0..times {
            let _guard = guarded.lock.lock().expect("nobody panics inside");
            guarded.count();
        }
    }

    fn entry(&self) -> Entry {
        Entry::of(self)
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

struct ParkingLot<const COPY: u32>(Mapped<Placed<(), parking_lot::Mutex<()>>>);

impl<const COPY: u32> Passed for ParkingLot<COPY> {
    #[inline(never)]
    fn pass(&self, _: &Task, times: u64) {
        black_box(COPY);
        let guarded = &self.0.guarded;
        for _ in 0..times {
            let _guard = guarded.lock.lock();
            guarded.count();
        }
    }

    fn entry(&self) -> Entry {
        Entry::of(self)
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

/// Where a region with one lock of ours has its parts too.
#[repr(C)]
#[derive(Default)]
struct Placed<K, L> {
    kind: K,
    guarded: Guarded<L>,
}

/// A lock and its counter on a page of their own.
#[repr(C, align(4096))]
#[derive(Default)]
struct Guarded<L> {
    lock: L,
    count: AtomicU64,
}

impl<L> Guarded<L> {
    #[inline(always)]
    fn count(&self) {
        self.count.store(self.counted() + 1, Relaxed);
    }

    #[inline(always)]
    fn counted(&self) -> u64 {
        self.count.load(Relaxed)
    }
}

/// A value in memory of the same kind as that of ours.
struct Mapped<T> {
    region: Arc<Region>,
    value: PhantomData<T>,
}

impl<T: Default> Mapped<T> {
    fn new(region: &Arc<Region>) -> Mapped<T> {
        // One of ours would have all of the region, which has no arrays now.
        assert!(size_of::<T>() <= MEMORY && region.used() == 0, "a region of its own");
        // SAFETY: large enough, aligned to a page, and nobody else's.
        unsafe { region.start().cast::<T>().write(T::default()) };
        Mapped { region: region.clone(), value: PhantomData }
    }
}

impl<T> Deref for Mapped<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `new` wrote it there, and the mapping lives as long as the region.
        unsafe { &*self.region.start().cast::<T>() }
    }
}

/// A futex call without a timeout.
#[cold]
fn futex(word: &AtomicU32, command: libc::c_int, value: u32) {
    let timeout = ptr::null::<libc::timespec>();
    // SAFETY: the word is live, and the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), command, value, timeout) };
}
