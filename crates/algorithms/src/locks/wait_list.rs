//! The list of tasks that sleep until they get a lock, as the kernel's semaphores have it: first in, first out, under
//! a spin lock of its own. Each task has one waiter, as it sleeps for one lock at a time. A name is the number of a
//! task plus one; 0 is no waiter:
//!
//!     first ─> waiter ─> waiter ─> 0      last: the waiter that has no next one
//!     woken 0 -> 1                        it may get the lock, or has it already; then a wake-up for its task

use machine::{Array, Atom, Field, Line, Machine, Ordering, Region, Sleepers, image};

use super::ticket::{Ticket, TicketMem};
use crate::{Hold, Lock, Shape};

image! {
    /// A list of waiters. Its lock guards the list, and all waiters that are in it but for `woken`.
    pub struct WaitListMem {
        lock: TicketMem,
        #[cpu(0)]
        first: Field<u32>,
        #[cpu(0)]
        last: Field<u32>,
    }

    /// A task that waits for a lock.
    pub struct Waiter {
        /// Not 0 once the task may go on.
        woken: Atom<u32>,
        #[cpu(0)]
        next: Field<u32>,
        /// Where the lock will count it as a reader: the number of a CPU plus one. 0: it wants to write.
        #[cpu(0)]
        reads_on: Field<u32>,
    }
}

impl WaitListMem {
    /// The first waiter; 0 if there is none.
    #[inline(always)]
    pub fn first<M: Machine>(&self, m: &M) -> u32 {
        self.first.get(m)
    }
}

/// Waiters linked by `next`.
#[derive(Default)]
struct Chain {
    first: u32,
    /// Means nothing while there is no first one.
    last: u32,
}

/// Wait lists, and the waiters of all tasks.
#[derive(Debug)]
pub struct WaitLists {
    lock: Ticket,
    waiters: Array<Line<Waiter>>,
}

impl WaitLists {
    /// Allocates the waiters.
    pub fn new(region: &Region, shape: Shape) -> WaitLists {
        WaitLists {
            lock: Ticket::new(region, shape),
            waiters: region.per_cpu("waiter", shape.tasks),
        }
    }

    /// Locks the list.
    #[inline(always)]
    pub fn lock<M: Machine>(&self, m: &M, list: &WaitListMem) -> Hold {
        let start = m.history_mark();
        let hold = self.lock.lock(m, &list.lock);
        m.forget_history(start, 0);
        hold
    }

    /// Unlocks the list.
    #[inline(always)]
    pub fn unlock<M: Machine>(&self, m: &M, list: &WaitListMem, hold: Hold) {
        self.lock.unlock(m, &list.lock, hold);
    }

    /// Whether the list is empty and not locked. Called only when no task uses it.
    pub fn at_rest<M: Machine>(&self, m: &M, list: &WaitListMem) -> bool {
        list.first.get(m) == 0 && self.lock.at_rest(m, &list.lock)
    }

    /// The name of this task's waiter.
    #[inline(always)]
    pub fn own<M: Machine>(&self, m: &M) -> u32 {
        m.task() as u32 + 1
    }

    /// The CPU on which a waiter of a locked list wants to read; `None` if it wants to write.
    #[inline(always)]
    pub fn reads_on<M: Machine>(&self, m: &M, name: u32) -> Option<u32> {
        self.waiter(name).reads_on.get(m).checked_sub(1)
    }

    #[inline(always)]
    fn waiter(&self, name: u32) -> &Waiter {
        &self.waiters[name as usize - 1]
    }

    /// Puts this task's waiter at the end of a list that it has locked.
    #[inline(always)]
    pub fn append<M: Machine>(&self, m: &M, list: &WaitListMem, reads_on: Option<u32>) {
        let own = self.own(m);
        let waiter = self.waiter(own);
        m.init(&waiter.woken, 0);
        waiter.reads_on.set(m, reads_on.map_or(0, |cpu| cpu + 1));
        let mut chain = Chain::default();
        if list.first.get(m) != 0 {
            chain = Chain { first: list.first.get(m), last: list.last.get(m) };
        }
        self.extend(m, &mut chain, own);
        list.first.set(m, chain.first);
        list.last.set(m, chain.last);
    }

    /// Takes the first waiter out of a locked list.
    #[inline(always)]
    pub fn take_first<M: Machine>(&self, m: &M, list: &WaitListMem) {
        let next = self.waiter(list.first.get(m)).next.get(m);
        list.first.set(m, next);
        if next == 0 {
            m.poison_field(&list.last);
        }
    }

    /// Poisons the waiter of this task, which is in no list.
    #[inline(always)]
    pub fn poison_own<M: Machine>(&self, m: &M) {
        let waiter = self.waiter(self.own(m));
        m.poison(&waiter.woken);
        m.poison_field(&waiter.next);
        m.poison_field(&waiter.reads_on);
    }

    /// Whether no waiter is behind this one in a locked list.
    #[inline(always)]
    pub fn is_last<M: Machine>(&self, m: &M, name: u32) -> bool {
        self.waiter(name).next.get(m) == 0
    }

    /// Takes all readers out of a locked list. Returns the first of them, and their number.
    pub fn take_readers<M: Machine>(&self, m: &M, list: &WaitListMem) -> (u32, u32) {
        let (mut readers, mut writers) = (Chain::default(), Chain::default());
        let mut number = 0;
        let mut name = list.first.get(m);
        while name != 0 {
            let next = self.waiter(name).next.get(m);
            if self.reads_on(m, name).is_some() {
                self.extend(m, &mut readers, name);
                number += 1;
            } else {
                self.extend(m, &mut writers, name);
            }
            name = next;
        }
        list.first.set(m, writers.first);
        list.last.set(m, writers.last);
        if writers.first == 0 {
            m.poison_field(&list.last);
        }
        (readers.first, number)
    }

    #[inline(always)]
    fn extend<M: Machine>(&self, m: &M, chain: &mut Chain, name: u32) {
        self.waiter(name).next.set(m, 0);
        if chain.first == 0 {
            chain.first = name;
        } else {
            self.waiter(chain.last).next.set(m, name);
        }
        chain.last = name;
    }

    /// Lets a waiter of a locked list go on, whose task has then to be woken.
    #[inline(always)]
    pub fn let_go<M: Machine>(&self, m: &M, name: u32) {
        // Relaxed: the task looks at nothing before it has locked the list.
        self.waiter(name).woken.store(m, 1, Ordering::Relaxed);
    }

    /// Wakes the task of a waiter that may go on.
    #[inline(always)]
    pub fn wake<M: Machine>(&self, m: &M, name: u32) {
        m.wake(&self.waiter(name).woken, Sleepers::One);
    }

    /// Lets a waiter that is in no list go on, and wakes its task: it has the lock. From then on the waiter belongs to
    /// its task again.
    #[inline(always)]
    pub fn hand_over<M: Machine>(&self, m: &M, name: u32) {
        // Pairs with the acquire in `sleep`.
        self.waiter(name).woken.store(m, 1, Ordering::Release);
        self.wake(m, name);
    }

    /// Lets all waiters of a chain go on, and wakes their tasks: they have the lock.
    pub fn hand_over_all<M: Machine>(&self, m: &M, chain: u32) {
        let mut name = chain;
        while name != 0 {
            let next = self.waiter(name).next.get(m);
            self.hand_over(m, name);
            name = next;
        }
    }

    /// Sleeps until this task's waiter is handed a lock.
    pub fn sleep_until_handed_over<M: Machine>(&self, m: &M) {
        self.sleep(m);
        self.poison_own(m);
    }

    /// Sleeps until this task's waiter may go on.
    pub fn sleep<M: Machine>(&self, m: &M) {
        let woken = &self.waiter(self.own(m)).woken;
        let start = m.history_mark();
        // Pairs with the release in `hand_over`.
        while woken.load(m, Ordering::Acquire) == 0 {
            m.park(woken, 0);
            m.forget_history(start, 0);
        }
        m.forget_history(start, 0);
    }

    /// Makes this task's waiter, in a locked list, wait once more.
    #[inline(always)]
    pub fn wait_again<M: Machine>(&self, m: &M) {
        // Relaxed: only this task reads it, and who writes it has locked the list.
        self.waiter(self.own(m)).woken.store(m, 0, Ordering::Relaxed);
    }
}
