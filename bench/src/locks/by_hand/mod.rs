//! The locks as one would write them without a machine in between, on the atomics of the standard
//! library. Each is knee's algorithm of the same name with the same memory layout, so the two
//! differ only in how they are written. Beside them are two mutexes in common use.

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

/// A kind of lock, with what all its locks share, such as the nodes of all CPUs.
pub trait ByHand: Default + Send + Sync + 'static {
    /// The memory of one lock.
    type Lock: Default + Send + Sync;
    /// Takes the lock; returns what `unlock` needs.
    fn lock(&self, mem: &Self::Lock, task: &Task) -> u32;
    fn unlock(&self, mem: &Self::Lock, task: &Task, hold: u32);
}

/// A kind of lock that readers share.
pub trait SharedByHand: Default + Send + Sync + 'static {
    type Lock: Default + Send + Sync;
    fn read_lock(&self, mem: &Self::Lock, task: &Task);
    fn read_unlock(&self, mem: &Self::Lock, task: &Task);
    fn write_lock(&self, mem: &Self::Lock, task: &Task);
    fn write_unlock(&self, mem: &Self::Lock, task: &Task);
}

/// A lock by hand, ready to be measured.
pub fn hand<L: ByHand, const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    Box::new(Hand::<L, COPY>(Mapped::new(region)))
}

/// A read-write lock by hand, ready to be measured.
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
        Entry::new(self)
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
        Entry::new(self)
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
            let _guard = guarded.lock.lock().expect("no thread panics inside");
            guarded.count();
        }
    }

    fn entry(&self) -> Entry {
        Entry::new(self)
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
        Entry::new(self)
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

/// A kind and one lock, at the offsets that they have in a region with one of knee's locks.
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

/// A value in a region, like the locks of knee.
struct Mapped<T> {
    region: Arc<Region>,
    value: PhantomData<T>,
}

impl<T: Default> Mapped<T> {
    fn new(region: &Arc<Region>) -> Mapped<T> {
        assert!(size_of::<T>() <= MEMORY && region.used() == 0, "the region is not empty");
        // SAFETY: large enough, aligned to a page, and not used by any array.
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
