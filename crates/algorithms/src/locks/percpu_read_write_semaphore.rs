//! Per-CPU read-write semaphore: readers count themselves per CPU, a writer blocks all of them. Waiters sleep.
//!
//!     readers[cpu]      readers of this CPU, and readers that are about to look at `blocked`
//!     blocked = 1       a task writes, or waits for the readers that are inside
//!     drains = 1        the writer sleeps, or is about to, until readers leave
//!
//!     read     readers[own] + 1 ──> blocked = 0 ──> inside
//!                          └──────> blocked = 1 ──> readers[own] - 1, wake the writer, wait in the list
//!     unlock   readers[own] - 1, wake the writer if drains = 1
//!     write    blocked 0 -> 1, or wait in the list ──> sleep until each readers[cpu] = 0
//!     unlock   blocked = 0, then for the waiters in order: take the lock as they would, up to the first writer
//!
//! Reading touches the own CPU's counter and a line that only writers change: it scales as long as nobody writes.
//! Writing costs a line transfer for each CPU, and keeps all readers out. An unlock gives the lock to waiters in the
//! order in which they came, but a newcomer may be faster. In contrast to `per_cpu_read_write`, readers of one CPU do
//! not exclude each other, a writer changes one word and not the lock of each CPU, and waiters sleep.
//!
//! Linux 6.x kernel/locking/percpu-rwsem.c and include/linux/percpu-rwsem.h, by Oleg Nesterov, 2012, and Peter
//! Zijlstra, 2020 (locking/percpu-rwsem: Remove the embedded rwsem). Linux saves readers the barrier and the look at
//! `blocked` and `drains` while no task wants to write: a writer first makes an RCU grace period pass, after which all
//! readers look. A task of these algorithms cannot wait for a grace period. So readers always do what Linux's do from
//! the writer's announcement on. There the barriers stand alone; here the counters' read-modify-writes are barriers.

use std::sync::atomic::AtomicU32;

use machine::{Array, Atom, Field, Line, Machine, Native, Ordering, Region, Sleepers, image};

use super::wait_list::{WaitListMem, WaitLists};
use crate::{Equivalent, FULL_BARRIER, Hold, Shape, SharedLock, Waits};

const ONE_AT_A_TIME: &str = "one task at a time changes a counter: that of its CPU, or one that hands it the lock; and \
                             a SeqCst store, too, is visible before the load after it";
const NO_SLEEP: &str = "the writer looks again without sleeping";

image! {
    /// What readers look at.
    pub struct Writer {
        blocked: Atom<u32>,
        drains: Atom<u32>,
        /// Which counters are this lock's; never changes.
        counters: Field<u32>,
    }

    /// The lock, but for the counters: those of CPUs cannot lie in the data that it guards.
    pub struct PercpuReadWriteSemaphoreMem {
        writer: Line<Writer>,
        list: Line<WaitListMem>,
    }
}

type Counters = Array<Line<Atom<u32>>>;

/// The counters of all locks.
#[derive(Debug)]
pub struct PercpuReadWriteSemaphore {
    lists: WaitLists,
    readers: Vec<Counters>,
    /// How many locks have theirs.
    prepared: AtomicU32,
}

impl SharedLock for PercpuReadWriteSemaphore {
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no acquire", line: "fetch_add(m, 1, Ordering::SeqCst)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "fetch_add(m, 1, Ordering::SeqCst)", why: FULL_BARRIER },
        Equivalent { change: "torn", line: "fetch_add(m, 1, Ordering::SeqCst)", why: ONE_AT_A_TIME },
        Equivalent { change: "no acquire", line: "wrapping_neg(), Ordering::SeqCst)", why: FULL_BARRIER },
        Equivalent { change: "torn", line: "wrapping_neg(), Ordering::SeqCst)", why: ONE_AT_A_TIME },
        Equivalent { change: "relaxed", line: "drains.load(m, Ordering::SeqCst)", why: "the access before it is the barrier" },
        Equivalent { change: "no release", line: "blocked.compare_exchange", why: FULL_BARRIER },
        Equivalent { change: "off by one", line: "blocked.compare_exchange", why: "every value but 0 blocks" },
        Equivalent { change: "skipped", line: "drains.store(m, 1,", why: NO_SLEEP },
        Equivalent { change: "off by one", line: "drains.store(m, 1,", why: NO_SLEEP },
        Equivalent { change: "no wait", line: "m.park(", why: "parking may return at any time" },
        Equivalent { change: "off by one", line: ".woken.store(m, 1,", why: "every value but 0 lets the task go on" },
    ];
    /// A writer looks at the CPUs' counters in order.
    const SYMMETRIC: bool = false;
    const WAITS: Waits = Waits::Asleep;
    type Mem = PercpuReadWriteSemaphoreMem;

    fn new(region: &Region, shape: Shape) -> PercpuReadWriteSemaphore {
        PercpuReadWriteSemaphore {
            lists: WaitLists::new(region, shape),
            readers: (0..shape.locks).map(|_| region.per_cpu("readers", shape.cpus)).collect(),
            prepared: AtomicU32::new(0),
        }
    }

    fn more_bytes(shape: Shape) -> usize {
        (shape.locks - 1) * shape.cpus * size_of::<Line<Atom<u32>>>()
    }

    fn prepare(&self, mem: &Self::Mem) {
        let mine = self.prepared.fetch_add(1, Ordering::Relaxed);
        mem.writer.counters.set(&Native::new(0, 0), mine);
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold {
        let start = m.history_mark();
        // A task that sleeps may wake up on another CPU.
        let cpu = m.cpu() as u32;
        if !self.enter(m, mem, cpu) {
            m.forget_history(start, 0);
            self.wait(m, mem, Some(cpu));
        }
        Hold(cpu)
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, Hold(cpu): Hold) {
        self.leave(m, mem, cpu);
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold {
        let start = m.history_mark();
        if !block(m, mem) {
            m.forget_history(start, 0);
            self.wait(m, mem, None);
        }
        for readers in self.readers(mem).iter() {
            // Pairs with the release in `leave`.
            if readers.load(m, Ordering::SeqCst) != 0 {
                drain(m, mem, readers);
            }
        }
        Hold(0)
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, _: Hold) {
        // 1 -> 0. Pairs with the load in `enter` and the exchange in `block`.
        mem.writer.blocked.store(m, 0, Ordering::Release);
        self.wake_next(m, mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &Self::Mem) -> bool {
        let is_zero = |word: &Atom<u32>| word.load(m, Ordering::Relaxed) == 0;
        let Writer { blocked, drains, .. } = &*mem.writer;
        let nobody_is_inside = self.readers(mem).iter().all(|readers| is_zero(readers));
        nobody_is_inside && is_zero(blocked) && is_zero(drains) && self.lists.at_rest(m, &mem.list)
    }
}

impl PercpuReadWriteSemaphore {
    /// The counters of a lock. Which they are never changes, so this is no access that a machine sees.
    #[inline(always)]
    fn readers(&self, mem: &PercpuReadWriteSemaphoreMem) -> &Counters {
        &self.readers[mem.writer.counters.get(&Native::new(0, 0)) as usize]
    }

    /// Counts a reader of this CPU. Fails if a task writes.
    #[inline(always)]
    fn enter<M: Machine>(&self, m: &M, mem: &PercpuReadWriteSemaphoreMem, cpu: u32) -> bool {
        // r -> r+1. SeqCst, both: a writer that does not see this reader has set `blocked` before we look. Pairs with
        // the exchange in `block`, the load also with the release in `write_unlock`.
        self.readers(mem)[cpu as usize].fetch_add(m, 1, Ordering::SeqCst);
        let is_free = mem.writer.blocked.load(m, Ordering::SeqCst) == 0;
        if !is_free {
            self.leave(m, mem, cpu);
        }
        is_free
    }

    /// Counts a reader of this CPU no longer.
    #[inline(always)]
    fn leave<M: Machine>(&self, m: &M, mem: &PercpuReadWriteSemaphoreMem, cpu: u32) {
        // r -> r-1. SeqCst, both: a writer that does not see this has set `drains` before we look. Pairs with `drain`.
        self.readers(mem)[cpu as usize].fetch_add(m, 1_u32.wrapping_neg(), Ordering::SeqCst);
        if mem.writer.drains.load(m, Ordering::SeqCst) != 0 {
            wake_writer(m, mem);
        }
    }

    /// Takes the lock to read on this CPU, or to write. Fails if a task writes.
    fn take<M: Machine>(
        &self,
        m: &M,
        mem: &PercpuReadWriteSemaphoreMem,
        reads_on: Option<u32>,
    ) -> bool {
        match reads_on {
            Some(cpu) => self.enter(m, mem, cpu),
            None => block(m, mem),
        }
    }

    /// Takes the lock after all that wait already, unless it is free now.
    #[cold]
    fn wait<M: Machine>(&self, m: &M, mem: &PercpuReadWriteSemaphoreMem, reads_on: Option<u32>) {
        let start = m.history_mark();
        let hold = self.lists.lock(m, &mem.list);
        // If this fails, the unlock that makes room will find us in the list.
        let takes = self.take(m, mem, reads_on);
        if !takes {
            self.lists.append(m, &mem.list, reads_on);
        }
        m.forget_history(start, takes.into());
        self.lists.unlock(m, &mem.list, hold);
        if !takes {
            self.lists.sleep_until_handed_over(m);
        }
    }

    /// Takes the lock for the first waiters: readers up to a writer, or a writer.
    #[cold]
    fn wake_next<M: Machine>(&self, m: &M, mem: &PercpuReadWriteSemaphoreMem) {
        let hold = self.lists.lock(m, &mem.list);
        loop {
            let first = mem.list.first(m);
            if first == 0 {
                break;
            }
            let reads_on = self.lists.reads_on(m, first);
            // Another task may have been faster.
            let takes = self.take(m, mem, reads_on);
            if !takes {
                break;
            }
            self.lists.take_first(m, &mem.list);
            self.lists.hand_over(m, first);
            if reads_on.is_none() {
                break;
            }
        }
        self.lists.unlock(m, &mem.list, hold);
    }
}

/// Keeps readers and other writers out. Fails if another writer does.
#[inline(always)]
fn block<M: Machine>(m: &M, mem: &PercpuReadWriteSemaphoreMem) -> bool {
    let blocked = &mem.writer.blocked;
    // 0 -> 1. Relaxed: the load saves an exclusive access. SeqCst: readers that we do not see are not inside; pairs
    // with `enter`, and with the release in `write_unlock`.
    blocked.load(m, Ordering::Relaxed) == 0
        && blocked.compare_exchange(m, 0, 1, Ordering::SeqCst).is_ok()
}

/// Sleeps until this counter is 0.
#[cold]
fn drain<M: Machine>(m: &M, mem: &PercpuReadWriteSemaphoreMem, readers: &Atom<u32>) {
    let drains = &mem.writer.drains;
    let start = m.history_mark();
    loop {
        // 0 -> 1. SeqCst, both: a reader that we see inside sees this when it leaves. Pairs with `leave`.
        drains.store(m, 1, Ordering::SeqCst);
        if readers.load(m, Ordering::SeqCst) == 0 {
            break;
        }
        m.park(drains, 1);
        m.forget_history(start, 0);
    }
    // 1 -> 0. Relaxed: a late wake-up does no harm.
    drains.store(m, 0, Ordering::Relaxed);
}

#[cold]
fn wake_writer<M: Machine>(m: &M, mem: &PercpuReadWriteSemaphoreMem) {
    // 1 -> 0. Relaxed: the writer looks at the counter again.
    mem.writer.drains.store(m, 0, Ordering::Relaxed);
    m.wake(&mem.writer.drains, Sleepers::One);
}
