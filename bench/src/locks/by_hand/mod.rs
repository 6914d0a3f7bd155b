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

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use anyhow::{Context, Result};
use machine::Region;

use super::{CPUS, Passed, Task};

/// A kind of lock: what its locks share, such as the nodes of all CPUs.
pub trait ByHand: Default + Sync + 'static {
    /// One lock.
    type Lock: Default + Sync;
    /// Returns what `unlock` wants to be told.
    fn lock(&self, at: &Self::Lock, task: &Task) -> u32;
    fn unlock(&self, at: &Self::Lock, task: &Task, hold: u32);
}

/// The same, shared by readers.
pub trait SharedByHand: Default + Sync + 'static {
    type Lock: Default + Sync;
    fn read_lock(&self, at: &Self::Lock, task: &Task);
    fn read_unlock(&self, at: &Self::Lock, task: &Task);
    fn write_lock(&self, at: &Self::Lock, task: &Task);
    fn write_unlock(&self, at: &Self::Lock, task: &Task);
}

/// A lock by hand, ready to be measured.
pub fn hand<L: ByHand>() -> Result<Box<dyn Passed>> {
    Ok(Box::new(Hand(Mapped::<Placed<L, L::Lock>>::new()?)))
}

/// The same of one that readers share.
pub fn hand_shared<L: SharedByHand>() -> Result<Box<dyn Passed>> {
    Ok(Box::new(HandShared(Mapped::<Placed<L, L::Lock>>::new()?)))
}

/// The standard library's mutex.
pub fn std_mutex() -> Result<Box<dyn Passed>> {
    Ok(Box::new(Mapped::<Placed<(), std::sync::Mutex<()>>>::new()?))
}

/// parking_lot's mutex.
pub fn parking_lot() -> Result<Box<dyn Passed>> {
    Ok(Box::new(Mapped::<Placed<(), parking_lot::Mutex<()>>>::new()?))
}

struct Hand<L: ByHand>(Mapped<Placed<L, L::Lock>>);

impl<L: ByHand> Passed for Hand<L> {
    fn pass(&self, task: &Task, times: u64) {
        let Placed { kind, guarded } = &*self.0;
        for _ in 0..times {
            let hold = kind.lock(&guarded.lock, task);
            guarded.count();
            kind.unlock(&guarded.lock, task, hold);
            task.idle();
        }
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

struct HandShared<L: SharedByHand>(Mapped<Placed<L, L::Lock>>);

/// A pass writes once and reads once.
impl<L: SharedByHand> Passed for HandShared<L> {
    fn pass(&self, task: &Task, times: u64) {
        let Placed { kind, guarded } = &*self.0;
        for _ in 0..times {
            kind.write_lock(&guarded.lock, task);
            guarded.count();
            kind.write_unlock(&guarded.lock, task);
            kind.read_lock(&guarded.lock, task);
            guarded.counted();
            kind.read_unlock(&guarded.lock, task);
            task.idle();
        }
    }

    fn counted(&self) -> u64 {
        self.0.guarded.counted()
    }
}

impl Passed for Mapped<Placed<(), std::sync::Mutex<()>>> {
    fn pass(&self, task: &Task, times: u64) {
        for _ in 0..times {
            let guard = self.guarded.lock.lock().expect("nobody panics inside");
            self.guarded.count();
            drop(guard);
            task.idle();
        }
    }

    fn counted(&self) -> u64 {
        self.guarded.counted()
    }
}

impl Passed for Mapped<Placed<(), parking_lot::Mutex<()>>> {
    fn pass(&self, task: &Task, times: u64) {
        for _ in 0..times {
            let guard = self.guarded.lock.lock();
            self.guarded.count();
            drop(guard);
            task.idle();
        }
    }

    fn counted(&self) -> u64 {
        self.guarded.counted()
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
    region: Region,
    value: PhantomData<T>,
}

impl<T: Default> Mapped<T> {
    fn new() -> Result<Mapped<T>> {
        let region = Region::new(size_of::<T>()).context("mapping memory for a lock")?;
        // SAFETY: large enough, aligned to a page, and nobody else's.
        unsafe { region.start().cast::<T>().write(T::default()) };
        Ok(Mapped { region, value: PhantomData })
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
