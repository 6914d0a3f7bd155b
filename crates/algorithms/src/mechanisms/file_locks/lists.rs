//! The doubly linked lists of records in a file.

use machine::{Field, Machine};

use super::FileLocks;
use crate::Lock;

impl<L: Lock> FileLocks<L> {
    /// Inserts a record before another one, or at the end of the list if that is 0.
    pub(super) fn insert<M: Machine>(&self, m: &M, list: &Field<u32>, name: u32, next: u32) {
        let start = m.history_mark();
        let before = match next {
            0 => self.last(m, list),
            next => self.record(next).before.get(m),
        };
        self.insert_between(m, list, name, [before, next]);
        m.forget_history(start, 0);
    }

    /// Inserts a record between two neighbours; 0 is an end of the list.
    pub(super) fn insert_between<M: Machine>(
        &self,
        m: &M,
        list: &Field<u32>,
        name: u32,
        [before, next]: [u32; 2],
    ) {
        let start = m.history_mark();
        let record = self.record(name);
        record.next.set(m, next);
        record.before.set(m, before);
        match before {
            0 => list.set(m, name),
            before => self.record(before).next.set(m, name),
        }
        if next != 0 {
            self.record(next).before.set(m, name);
        }
        m.forget_history(start, 0);
    }

    /// Removes a record.
    pub(super) fn remove<M: Machine>(&self, m: &M, list: &Field<u32>, name: u32) {
        let start = m.history_mark();
        let record = self.record(name);
        let (before, next) = (record.before.get(m), record.next.get(m));
        match before {
            0 => list.set(m, next),
            before => self.record(before).next.set(m, next),
        }
        if next != 0 {
            self.record(next).before.set(m, before);
        }
        m.forget_history(start, 0);
    }

    fn last<M: Machine>(&self, m: &M, list: &Field<u32>) -> u32 {
        let (mut last, mut name) = (0, list.get(m));
        while name != 0 {
            (last, name) = (name, self.record(name).next.get(m));
        }
        last
    }
}
