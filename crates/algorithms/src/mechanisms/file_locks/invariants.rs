//! The invariants of a file's lists and tree, which hold between any two calls.

use machine::{Field, Machine};

use super::{FileLocks, LockKind, Owner, Range, code_of};
use crate::Lock;

/// A set of records, one bit each.
type RecordSet = u64;

impl<L: Lock> FileLocks<L> {
    /// Checks all invariants of a manager of one file and one CPU, while no other task uses it. The
    /// caller knows which requests were `woken`: those are in no list.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub(super) fn assert_invariants<M: Machine>(&self, m: &M, woken: RecordSet) {
        let file = &self.files[0];
        let [posix, flock, waits] =
            [&file.posix, &file.flock, &file.waits].map(|list| self.linked(m, list));
        let free = self.free(m);
        assert_eq!(posix & flock | (posix | flock) & waits, 0, "a record is in two lists");
        assert_eq!((posix | flock | waits) & woken, 0, "a woken request is in a list");
        let used = posix | flock | waits | woken;
        assert_eq!(used & free, 0, "a record is both in use and free");
        assert_eq!((used | free).count_ones(), self.records_per_cpu, "a record is lost");
        assert_eq!(self.listed(m), posix | flock, "the held lists differ from the held locks");
        assert_eq!(
            self.blocked_by_table(m),
            self.blocked_by_queue(m),
            "the table differs from the blocked requests"
        );
        self.assert_last(m);
        self.assert_order(m);
        if self.has_tree(Owner::Process(0)) {
            self.assert_tree(m);
        }
    }

    /// The records of a list, whose links must agree in both directions.
    fn linked<M: Machine>(&self, m: &M, list: &Field<u32>) -> RecordSet {
        let (mut records, mut before, mut name) = (0, 0, list.get(m));
        while name != 0 {
            assert_eq!(records & bit(name), 0, "a list is circular");
            records |= bit(name);
            assert_eq!(self.record(name).before.get(m), before, "a link back is wrong");
            (before, name) = (name, self.record(name).next.get(m));
        }
        records
    }

    fn free<M: Machine>(&self, m: &M) -> RecordSet {
        let (mut records, mut name) = (0, self.pools[0].first.get(m));
        while name != 0 {
            assert_eq!(records & bit(name), 0, "the list of free records is circular");
            records |= bit(name);
            name = self.record(name).next.get(m);
        }
        records
    }

    /// The records of all held lists.
    fn listed<M: Machine>(&self, m: &M) -> RecordSet {
        let mut records = 0;
        for (index, list) in self.held.iter().enumerate() {
            let (mut before, mut name) = (0, list.first.get(m));
            while name != 0 {
                let record = self.record(name);
                assert_eq!(records & bit(name), 0, "a record is in the held lists twice");
                records |= bit(name);
                assert_eq!(
                    record.listed_in.get(m),
                    index as u32 + 1,
                    "a record names another list"
                );
                assert_eq!(record.held_before.get(m), before, "a link back is wrong");
                (before, name) = (name, record.held_next.get(m));
            }
        }
        records
    }

    fn blocked_by_table<M: Machine>(&self, m: &M) -> RecordSet {
        let mut records = 0;
        for (index, bucket) in self.blocked[0].buckets.iter().enumerate() {
            let (mut before, mut name) = (0, bucket.get(m));
            while name != 0 {
                let record = self.record(name);
                assert_eq!(record.blocked_before.get(m), before, "a link back is wrong");
                assert_eq!(records & bit(name), 0, "a request is in the table twice");
                records |= bit(name);
                assert_eq!(
                    self.bucket(record.owner.get(m)),
                    index,
                    "a request is in a wrong bucket"
                );
                (before, name) = (name, record.blocked_next.get(m));
            }
        }
        records
    }

    fn blocked_by_queue<M: Machine>(&self, m: &M) -> RecordSet {
        let (mut records, mut name) = (0, self.files[0].waits.get(m));
        while name != 0 {
            if self.is_listed_as_blocked(m, name) {
                records |= bit(name);
            }
            name = self.record(name).next.get(m);
        }
        records
    }

    fn assert_last<M: Machine>(&self, m: &M) {
        let (mut last, mut name) = (0, self.files[0].waits.get(m));
        while name != 0 {
            (last, name) = (name, self.record(name).next.get(m));
        }
        assert_eq!(self.files[0].last_waits.get(m), last, "the end of the queue is wrong");
    }

    /// The ranges of an owner are together and in order, and do not overlap. Those of the same kind
    /// do not touch.
    fn assert_order<M: Machine>(&self, m: &M) {
        let (mut name, mut before) = (self.files[0].posix.get(m), None::<Range>);
        let mut earlier_owners = 0_u128;
        while name != 0 {
            let range = self.range(m, name);
            assert!(range.start <= range.end, "{range:?} ends before it starts");
            assert!(range.kind != LockKind::Unlock, "{range:?} is no lock");
            match before.filter(|before| before.owner == range.owner) {
                Some(before) => {
                    assert!(before.end < range.start, "{before:?} is listed before {range:?}");
                    let touch = before.end + 1 == range.start && before.kind == range.kind;
                    assert!(!touch, "{before:?} and {range:?} are not merged");
                }
                None => {
                    let owner = 1 << code_of(range.owner);
                    assert_eq!(
                        earlier_owners & owner,
                        0,
                        "{range:?} is apart from its owner's ranges"
                    );
                    earlier_owners |= owner;
                }
            }
            (before, name) = (Some(range), self.record(name).next.get(m));
        }
    }

    /// The number of an owner's ranges or flocks.
    pub(super) fn count_of<M: Machine>(&self, m: &M, owner: Owner) -> usize {
        let (mut count, mut name) = (0, self.list_of(0, owner).get(m));
        while name != 0 {
            count += usize::from(self.range(m, name).owner == owner);
            name = self.record(name).next.get(m);
        }
        count
    }
}

/// The set of one record.
pub(super) fn bit(name: u32) -> RecordSet {
    assert!((1..=64).contains(&name), "a set holds the records 1 to 64, not {name}");
    1 << (name - 1)
}
