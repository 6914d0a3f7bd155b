//! knee's locks on the native machine, ready to be measured.

use std::hint::black_box;
use std::sync::Arc;

use algorithms::{Hold, Lock, Shape, SharedLock};
use machine::{Array, Field, Image, Native, Region, image};

use super::race::Task;
use super::{CPUS, Entry, Passed};

image! {
    /// A lock and its counter on a page of their own.
    #[repr(align(4096))]
    struct Guarded<L: Image> {
        lock: L,
        count: Field<u64>,
    }
}

struct Ours<L: Lock, const COPY: u32> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

/// A lock of knee, ready to be measured.
pub fn ours<L: Lock, const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    let lock = L::new(region, Shape::new(CPUS, 1));
    let guarded = region.array("guarded", 1);
    Box::new(Ours::<L, COPY> { lock, guarded })
}

impl<L: Lock, const COPY: u32> Passed for Ours<L, COPY> {
    #[inline(never)]
    fn pass(&self, task: &Task, times: u64) {
        black_box(COPY);
        let m = &task.native;
        let Guarded { lock, count } = &self.guarded[0];
        for _ in 0..times {
            let hold: Hold = self.lock.lock(m, lock);
            count.set(m, count.get(m) + 1);
            self.lock.unlock(m, lock, hold);
        }
    }

    fn entry(&self) -> Entry {
        Entry::new(self)
    }

    fn counted(&self) -> u64 {
        self.guarded[0].count.get(&Native::new(0, 0))
    }
}

struct OursShared<L: SharedLock, const COPY: u32> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

/// A read-write lock of knee, ready to be measured.
pub fn ours_shared<L: SharedLock, const COPY: u32>(region: &Arc<Region>) -> Box<dyn Passed> {
    let lock = L::new(region, Shape::new(CPUS, 1));
    let guarded = region.array("guarded", 1);
    Box::new(OursShared::<L, COPY> { lock, guarded })
}

/// A pass writes once and reads once.
impl<L: SharedLock, const COPY: u32> Passed for OursShared<L, COPY> {
    #[inline(never)]
    fn pass(&self, task: &Task, times: u64) {
        black_box(COPY);
        let m = &task.native;
        let Guarded { lock, count } = &self.guarded[0];
        for _ in 0..times {
            let hold = self.lock.write_lock(m, lock);
            count.set(m, count.get(m) + 1);
            self.lock.write_unlock(m, lock, hold);
            let hold = self.lock.read_lock(m, lock);
            count.get(m);
            self.lock.read_unlock(m, lock, hold);
        }
    }

    fn entry(&self) -> Entry {
        Entry::new(self)
    }

    fn counted(&self) -> u64 {
        self.guarded[0].count.get(&Native::new(0, 0))
    }
}
