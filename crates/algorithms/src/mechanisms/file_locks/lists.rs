//! Lists of records, linked both ways: those of a file.

use machine::{Field, Machine};

use super::FileLocks;
use crate::Lock;

impl<L: Lock> FileLocks<L> {
    /// Puts a record before another one, or at the end where that is 0.
    pub(super) fn insert<M: Machine>(&self, m: &M, list: &Field<u32>, name: u32, next: u32) {
        let start = m.history_mark();
        let before = match next {
            0 => self.last(m, list),
            next => self.record(next).before.get(m),
        };
        self.insert_between(m, list, name, [before, next]);
        m.forget_history(start, 0);
    }

    /// Puts a record between two that are next to each other.
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

    /// Takes a record out.
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
        let (mut last, mut at) = (0, list.get(m));
        while at != 0 {
            (last, at) = (at, self.record(at).next.get(m));
        }
        last
    }
}
