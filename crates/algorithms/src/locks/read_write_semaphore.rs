//! Read-write semaphore: the sleeping read-write lock of Linux since 5.3. Its waiters sleep in a FIFO list.
//!
//!     bit 0: a task writes; bit 1: tasks wait; bit 2: hand-off; bits 8-63: number of readers
//!
//!     (readers, handoff, waiting, writing)
//!     r,0,0,0 -> r+1,0,0,0    read: no task writes or waits
//!     0,0,1,0 -> 1,0,1,0      read, past the waiters; the readers among them get the lock with it
//!     r,*,*,* -> r+1,*,*,* -> r,*,1,*    read failed: wait in the list
//!     r,*,1,0 -> r+k,0,*,0    the first waiter reads: it and all other readers in the list get the lock
//!     0,0,0,0 -> 0,0,0,1      write
//!     0,0,1,0 -> 0,0,1,1      write, past the waiters, while it polls for a moment
//!     *,0,1,* -> *,1,1,*      the first waiter was passed over, which no task does again
//!     0,*,1,0 -> 0,0,*,1      write, as the first waiter
//!
//! A writer is not handed the lock: it is woken, and until it runs, a task that polls or has just come may take the
//! lock. So the lock does not wait for a wake-up while others want it. A first waiter that was passed over sets the
//! hand-off bit now and then, and no task passes it after that. Readers are handed the lock before they run, all that
//! wait, so also past a writer that came earlier. All readers share one counter, so even reading alone does not scale.
//!
//! Linux 6.x kernel/locking/rwsem.c, by Waiman Long, 2019 (locking/rwsem: Implement a new locking scheme; Implement
//! lock handoff to prevent lock starvation) and 2020 (Enable reader optimistic lock stealing). What differs here:
//!
//! - A writer polls for a bounded time before it sleeps, beside other pollers. In Linux writers that poll queue for it
//!   (OSQ), and poll as long as the lock's owner runs.
//! - A waiter asks for a hand-off after a random number of failures, not after 4 ms, and then sleeps.
//! - A writer in the list tries only as the first, and wakes none of those before it.
//! - No word names the owner. A reader passes waiters where no other reader is counted; in Linux, where it does not
//!   see that readers own the lock.
//! - Any number of readers is handed the lock at a time, not up to 256.
//! - A ticket lock guards the list, which keeps searches small; in Linux a queued one.

use machine::{Atom, Machine, Ordering, Region, Until, image};

use super::wait_list::{WaitListMem, WaitLists};
use crate::{Equivalent, Hold, Shape, SharedLock, Waits};

/// Loads of the word before a writer sleeps: as long as several short critical sections.
const LOADS: u32 = 128;

const WRITING: u64 = 1;
const WAITING: u64 = 1 << 1;
const HANDOFF: u64 = 1 << 2;
const READER: u64 = 1 << 8;
/// A task writes or reads.
const HELD: u64 = WRITING | !(READER - 1);

/// One failed attempt of a first waiter in this many asks for a hand-off: some milliseconds of waking up in vain.
const LATE_ONE_IN: u32 = 256;

const LATER: &str = "it only bounds how often the first waiter is passed over";
const NO_SLEEP: &str = "the waiter tries again without sleeping";

image! {
    /// The lock.
    pub struct ReadWriteSemaphoreMem {
        count: Atom<u64>,
        list: WaitListMem,
    }
}

/// Read-write semaphores.
#[derive(Debug)]
pub struct ReadWriteSemaphore(WaitLists);

/// Which waiters may be woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    /// Readers, or a writer.
    Any,
    /// Readers.
    Readers,
    /// Readers, and the caller reads already.
    MoreReaders,
}

/// Waiters that may go on, whose tasks sleep yet. 0: none.
struct Woken {
    writer: u32,
    /// The first of a chain.
    readers: u32,
}

const NOBODY: Woken = Woken { writer: 0, readers: 0 };

impl SharedLock for ReadWriteSemaphore {
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no wait", line: "m.await_for(&mem.count", why: "a bounded wait may give up immediately" },
        Equivalent { change: "skipped", line: "mem.count.fetch_or(m, HANDOFF", why: LATER },
        Equivalent { change: "off by one", line: ".woken.store(m, 1,", why: "every value but 0 lets the task go on" },
        Equivalent { change: "no wait", line: "m.park(woken", why: "parking may return at any time" },
        Equivalent { change: "skipped", line: ".woken.store(m, 0,", why: NO_SLEEP },
        Equivalent { change: "off by one", line: ".woken.store(m, 0,", why: NO_SLEEP },
    ];
    const WAITS: Waits = Waits::Asleep;
    type Mem = ReadWriteSemaphoreMem;

    fn new(region: &Region, shape: Shape) -> ReadWriteSemaphore {
        ReadWriteSemaphore(WaitLists::new(region, shape))
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold {
        let start = m.history_mark();
        // r,0,0,0 -> r+1,0,0,0. Pairs with the release in `write_unlock`.
        let count = mem.count.fetch_add(m, READER, Ordering::Acquire) + READER;
        if count & (WRITING | WAITING | HANDOFF) != 0 {
            self.read_contended(m, mem, count, start);
        }
        Hold(0)
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, _: Hold) {
        let start = m.history_mark();
        // r,*,*,0 -> r-1,*,*,0. Pairs with the acquires of writers.
        let count = mem.count.fetch_add(m, READER.wrapping_neg(), Ordering::Release) - READER;
        if count & (HELD | WAITING) == WAITING {
            self.wake_any(m, mem, start);
        }
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, mem: &Self::Mem) -> Hold {
        let start = m.history_mark();
        // 0,0,0,0 -> 0,0,0,1. Pairs with the releases of both unlocks.
        if mem.count.compare_exchange(m, 0, WRITING, Ordering::Acquire).is_err()
            && !steal(m, mem, start)
        {
            self.write_contended(m, mem, start);
        }
        Hold(0)
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, mem: &Self::Mem, _: Hold) {
        let start = m.history_mark();
        // *,*,*,1 -> *,*,*,0. Pairs with the acquires of readers and writers.
        let count = mem.count.fetch_add(m, WRITING.wrapping_neg(), Ordering::Release);
        if count & WAITING != 0 {
            self.wake_any(m, mem, start);
        }
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &Self::Mem) -> bool {
        mem.count.load(m, Ordering::Relaxed) == 0 && self.0.at_rest(m, &mem.list)
    }
}

/// Polls for a while, and takes the lock to write when it is free, past tasks that wait.
#[cold]
fn steal<M: Machine>(m: &M, mem: &ReadWriteSemaphoreMem, start: M::HistoryMark) -> bool {
    m.forget_history(start, 0);
    // Relaxed: the exchange acquires.
    let free = Until::clear(HELD | HANDOFF);
    while let Some(count) = m.await_for(&mem.count, free, Ordering::Relaxed, LOADS) {
        // 0,0,*,0 -> 0,0,*,1. Pairs with the releases of both unlocks.
        if mem.count.compare_exchange(m, count, count | WRITING, Ordering::Acquire).is_ok() {
            return true;
        }
        m.forget_history(start, 0);
    }
    false
}

impl ReadWriteSemaphore {
    /// Waits with a reader counted that did not find the lock free, in a word with this value.
    #[cold]
    fn read_contended<M: Machine>(
        &self,
        m: &M,
        mem: &ReadWriteSemaphoreMem,
        count: u64,
        start: M::HistoryMark,
    ) {
        let alone = count & !(READER - 1) == READER;
        if alone && count & (WRITING | HANDOFF) == 0 {
            m.forget_history(start, 0);
            let hold = self.0.lock(m, &mem.list);
            let woken = self.let_go(m, mem, Wake::MoreReaders);
            self.0.unlock(m, &mem.list, hold);
            return self.wake(m, &woken);
        }
        m.forget_history(start, 0);
        let hold = self.0.lock(m, &mem.list);
        let is_first = mem.list.first(m) == 0;
        // Nobody waits, so nobody can be passed. Pairs with the release in `write_unlock`.
        if is_first && mem.count.load(m, Ordering::Acquire) & WRITING == 0 {
            return self.0.unlock(m, &mem.list, hold);
        }
        self.0.append(m, &mem.list, Some(m.cpu() as u32));
        // r+1,*,*,* -> r,*,1,*. Relaxed: we have read nothing.
        let change = READER.wrapping_neg().wrapping_add(if is_first { WAITING } else { 0 });
        let count = mem.count.fetch_add(m, change, Ordering::Relaxed).wrapping_add(change);
        let woken = self.let_go_if_free(m, mem, count);
        self.0.unlock(m, &mem.list, hold);
        self.wake(m, &woken);
        m.forget_history(start, 0);
        self.0.sleep_until_handed_over(m);
    }

    #[cold]
    fn write_contended<M: Machine>(
        &self,
        m: &M,
        mem: &ReadWriteSemaphoreMem,
        start: M::HistoryMark,
    ) {
        m.forget_history(start, 0);
        let mut hold = self.0.lock(m, &mem.list);
        self.0.append(m, &mem.list, None);
        if mem.list.first(m) == self.0.own(m) {
            // *,0,0,* -> *,0,1,*. Relaxed: whoever unlocks from here on locks the list.
            mem.count.fetch_or(m, WAITING, Ordering::Relaxed);
        }
        m.forget_history(start, 0);
        while !self.take_as_first(m, mem) {
            self.0.unlock(m, &mem.list, hold);
            self.0.sleep(m);
            hold = self.0.lock(m, &mem.list);
            self.0.wait_again(m);
            m.forget_history(start, 0);
        }
        self.0.unlock(m, &mem.list, hold);
    }

    /// Takes the lock to write if this task's waiter is the first in the locked list. Asks for a
    /// hand-off now and then when it fails.
    fn take_as_first<M: Machine>(&self, m: &M, mem: &ReadWriteSemaphoreMem) -> bool {
        let own = self.0.own(m);
        if mem.list.first(m) != own {
            return false;
        }
        let waiting = if self.0.is_last(m, own) { 0 } else { WAITING };
        let start = m.history_mark();
        loop {
            // Relaxed: the exchange acquires.
            let count = mem.count.load(m, Ordering::Relaxed);
            let is_held = count & HELD != 0;
            if is_held && (count & HANDOFF != 0 || !m.chance(LATE_ONE_IN)) {
                return false;
            }
            // 0,*,1,0 -> 0,0,*,1, or *,0,1,* -> *,1,1,*. Pairs with the releases of both unlocks.
            let new = if is_held { count | HANDOFF } else { WRITING | waiting };
            if mem.count.compare_exchange(m, count, new, Ordering::Acquire).is_ok() {
                if !is_held {
                    self.0.take_first(m, &mem.list);
                    self.0.poison_own(m);
                }
                return !is_held;
            }
            m.forget_history(start, 0);
        }
    }

    /// Wakes those who are next.
    #[cold]
    fn wake_any<M: Machine>(
        &self,
        m: &M,
        mem: &ReadWriteSemaphoreMem,
        start: M::HistoryMark,
    ) {
        m.forget_history(start, 0);
        let hold = self.0.lock(m, &mem.list);
        let woken = self.let_go(m, mem, Wake::Any);
        self.0.unlock(m, &mem.list, hold);
        self.wake(m, &woken);
    }

    /// Lets the waiters go on that can do so in a lock with this word. The list is locked.
    fn let_go_if_free<M: Machine>(
        &self,
        m: &M,
        mem: &ReadWriteSemaphoreMem,
        count: u64,
    ) -> Woken {
        match count {
            count if count & WRITING != 0 => NOBODY,
            count if count & HELD != 0 => self.let_go(m, mem, Wake::Readers),
            _ => self.let_go(m, mem, Wake::Any),
        }
    }

    /// Lets a writer go on if it is first in the locked list; or gives the lock to all readers in the list if one of
    /// them is.
    fn let_go<M: Machine>(&self, m: &M, mem: &ReadWriteSemaphoreMem, wake: Wake) -> Woken {
        let first = mem.list.first(m);
        if first == 0 {
            return NOBODY;
        }
        if self.0.reads_on(m, first).is_none() {
            if wake != Wake::Any {
                return NOBODY;
            }
            self.0.let_go(m, first);
            return Woken { writer: first, readers: 0 };
        }
        let counted = if wake == Wake::MoreReaders { 0 } else { READER };
        if counted > 0 && !count_first_reader(m, mem) {
            return NOBODY;
        }
        let (readers, number) = self.0.take_readers(m, &mem.list);
        // r+1,*,1,0 -> r+k,0,*,0. Relaxed, both: the wake-up publishes what we acquired.
        let handoff = mem.count.load(m, Ordering::Relaxed) & HANDOFF;
        let waiting = if mem.list.first(m) == 0 { WAITING } else { 0 };
        let change = u64::from(number) * READER;
        let change = change.wrapping_sub(counted).wrapping_sub(handoff).wrapping_sub(waiting);
        mem.count.fetch_add(m, change, Ordering::Relaxed);
        Woken { writer: 0, readers }
    }

    fn wake<M: Machine>(&self, m: &M, woken: &Woken) {
        if woken.writer != 0 {
            self.0.wake(m, woken.writer);
        }
        self.0.hand_over_all(m, woken.readers);
    }
}

/// Counts the first waiter, a reader. Fails if a task writes, and then asks for a hand-off if it is late.
fn count_first_reader<M: Machine>(m: &M, mem: &ReadWriteSemaphoreMem) -> bool {
    // r,*,1,* -> r+1,*,1,*. Pairs with the release in `write_unlock`.
    let count = mem.count.fetch_add(m, READER, Ordering::Acquire);
    if count & WRITING == 0 {
        return true;
    }
    if m.chance(LATE_ONE_IN) {
        // *,0,1,1 -> *,1,1,1. Relaxed: it only keeps others out.
        mem.count.fetch_or(m, HANDOFF, Ordering::Relaxed);
    }
    // r+1,*,1,1 -> r,*,1,1. Relaxed: nobody has read anything.
    mem.count.fetch_add(m, READER.wrapping_neg(), Ordering::Relaxed);
    false
}
