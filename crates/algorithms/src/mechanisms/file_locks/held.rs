//! The lists of all held locks, which nothing needs but a listing of them.

use machine::Machine;

use super::{FileLocks, Held, Range};
use crate::Lock;

impl<L: Lock> FileLocks<L> {
    /// Lists a record that was granted.
    pub(super) fn list<M: Machine>(&self, m: &M, name: u32) {
        let start = m.history_mark();
        let which = match self.design.held {
            Held::OneList => 0,
            Held::PerCpu => m.cpu(),
        };
        let list = &self.held[which];
        let hold = self.lock_beside(m, &list.lock);
        let (record, first) = (self.record(name), list.first.get(m));
        record.listed_in.set(m, which as u32 + 1);
        record.held_next.set(m, first);
        record.held_before.set(m, 0);
        if first != 0 {
            self.record(first).held_before.set(m, name);
        }
        list.first.set(m, name);
        self.unlock_beside(m, &list.lock, hold);
        m.forget_history(start, 0);
    }

    /// Takes it out again, on whichever CPU.
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

    /// Tells all held locks, list by list. With a lock a file, ranges may change meanwhile;
    /// under the global lock, or where nobody is at work, it is one moment's picture.
    pub fn each_held<M: Machine>(&self, m: &M, mut tell: impl FnMut(Range)) {
        for list in self.held.iter() {
            let hold = self.lock_listing(m, &list.lock);
            let mut at = list.first.get(m);
            while at != 0 {
                tell(self.range(m, at));
                at = self.record(at).held_next.get(m);
            }
            self.unlock_listing(m, &list.lock, hold);
        }
    }

    fn lock_listing<M: Machine>(&self, m: &M, list: &L::Mem) -> crate::Hold {
        let at = if self.locks_all() { self.global() } else { list };
        self.lock.lock(m, at)
    }

    fn unlock_listing<M: Machine>(&self, m: &M, list: &L::Mem, hold: crate::Hold) {
        let at = if self.locks_all() { self.global() } else { list };
        self.lock.unlock(m, at, hold);
    }
}
