//! The lists of all held locks. Only the listing of all locks (/proc/locks in Linux) needs them.

use machine::Machine;

use super::{FileLocks, Held, Range};
use crate::Lock;

impl<L: Lock> FileLocks<L> {
    /// Adds a granted record to a list of held locks.
    pub(super) fn list<M: Machine>(&self, m: &M, name: u32) {
        let start = m.history_mark();
        let index = match self.design.held {
            Held::OneList => 0,
            Held::PerCpu => m.cpu(),
        };
        let list = &self.held[index];
        let hold = self.lock_beside(m, &list.lock);
        let (record, first) = (self.record(name), list.first.get(m));
        record.listed_in.set(m, index as u32 + 1);
        record.held_next.set(m, first);
        record.held_before.set(m, 0);
        if first != 0 {
            self.record(first).held_before.set(m, name);
        }
        list.first.set(m, name);
        self.unlock_beside(m, &list.lock, hold);
        m.forget_history(start, 0);
    }

    /// Removes a record from its list of held locks, on whichever CPU.
    pub(super) fn unlist<M: Machine>(&self, m: &M, name: u32) {
        let start = m.history_mark();
        let record = self.record(name);
        let list = &self.held[record.listed_in.get(m) as usize - 1];
        let hold = self.lock_beside(m, &list.lock);
        let (before, next) = (record.held_before.get(m), record.held_next.get(m));
        match before {
            0 => list.first.set(m, next),
            before => self.record(before).held_next.set(m, next),
        }
        if next != 0 {
            self.record(next).held_before.set(m, before);
        }
        self.unlock_beside(m, &list.lock, hold);
        m.forget_history(start, 0);
    }

    /// Visits all held locks, list by list. With a lock per file, ranges may change during the
    /// visit. Under the global lock, or if no other task uses the manager, it is a snapshot.
    pub fn each_held<M: Machine>(&self, m: &M, mut visit: impl FnMut(Range)) {
        for list in self.held.iter() {
            let mem = if self.has_global_lock() { self.global() } else { &list.lock };
            let hold = self.lock.lock(m, mem);
            let mut name = list.first.get(m);
            while name != 0 {
                visit(self.range(m, name));
                name = self.record(name).held_next.get(m);
            }
            self.lock.unlock(m, mem, hold);
        }
    }
}
