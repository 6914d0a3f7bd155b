//! What holds of the lists and the tree of a file between any two changes of it.

use machine::{Field, Machine};

use super::{FileLocks, Kind, Owner, Range, code_of};
use crate::Lock;

/// Records, a bit each.
type Names = u64;

impl<L: Lock> FileLocks<L> {
    /// Looks through everything, for one who is alone with a manager of one file and one CPU, and knows
    /// which requests were woken: those are in no list.
    ///
    /// # Panics
    /// Where something is not as it must be; says what.
    pub(super) fn assert_sound<M: Machine>(&self, m: &M, woken: Names) {
        let file = &self.files[0];
        let [posix, flock, waits] = [&file.posix, &file.flock, &file.waits]
            .map(|list| self.linked(m, list));
        let free = self.free(m);
        assert_eq!(posix & flock | (posix | flock) & waits, 0, "a record is in two lists");
        assert_eq!((posix | flock | waits) & woken, 0, "a woken request is in a list");
        let used = posix | flock | waits | woken;
        assert_eq!(used & free, 0, "a record is used and free");
        assert_eq!((used | free).count_ones(), self.records_a_cpu, "a record is lost");
        assert_eq!(self.listed(m), posix | flock, "what is held is listed");
        assert_eq!(self.known_as_blocked(m), self.to_be_blocked(m), "the blocked are known");
        self.assert_last(m);
        self.assert_order(m);
        if self.has_tree(Owner::Process(0)) {
            self.assert_tree(m);
        }
    }

    /// The records of a list whose links lead both ways.
    fn linked<M: Machine>(&self, m: &M, list: &Field<u32>) -> Names {
        let (mut names, mut before, mut at) = (0, 0, list.get(m));
        while at != 0 {
            assert_eq!(names & bit(at), 0, "a list leads back to itself");
            names |= bit(at);
            assert_eq!(self.record(at).before.get(m), before, "a list has another way back");
            (before, at) = (at, self.record(at).next.get(m));
        }
        names
    }

    fn free<M: Machine>(&self, m: &M) -> Names {
        let (mut names, mut at) = (0, self.pools[0].first.get(m));
        while at != 0 {
            assert_eq!(names & bit(at), 0, "the free records lead back to themselves");
            names |= bit(at);
            at = self.record(at).next.get(m);
        }
        names
    }

    /// The records of all held lists.
    fn listed<M: Machine>(&self, m: &M) -> Names {
        let mut names = 0;
        for (which, list) in self.held.iter().enumerate() {
            let (mut before, mut at) = (0, list.first.get(m));
            while at != 0 {
                let record = self.record(at);
                assert_eq!(names & bit(at), 0, "a record is listed twice");
                names |= bit(at);
                assert_eq!(record.listed_in.get(m), which as u32 + 1, "it knows its list");
                assert_eq!(record.held_before.get(m), before, "a list has another way back");
                (before, at) = (at, record.held_next.get(m));
            }
        }
        names
    }

    fn known_as_blocked<M: Machine>(&self, m: &M) -> Names {
        let mut names = 0;
        for (which, bucket) in self.blocked[0].buckets.iter().enumerate() {
            let (mut before, mut at) = (0, bucket.get(m));
            while at != 0 {
                let record = self.record(at);
                assert_eq!(record.blocked_before.get(m), before, "a bucket has another way back");
                assert_eq!(names & bit(at), 0, "a request is twice among the blocked");
                names |= bit(at);
                assert_eq!(self.bucket(record.owner.get(m)), which, "it is in its bucket");
                (before, at) = (at, record.blocked_next.get(m));
            }
        }
        names
    }

    fn to_be_blocked<M: Machine>(&self, m: &M) -> Names {
        let (mut names, mut at) = (0, self.files[0].waits.get(m));
        while at != 0 {
            if self.is_listed_as_blocked(m, at) {
                names |= bit(at);
            }
            at = self.record(at).next.get(m);
        }
        names
    }

    fn assert_last<M: Machine>(&self, m: &M) {
        let (mut last, mut at) = (0, self.files[0].waits.get(m));
        while at != 0 {
            (last, at) = (at, self.record(at).next.get(m));
        }
        assert_eq!(self.files[0].last_waits.get(m), last, "the last that waits is known");
    }

    /// Ranges of an owner lie together, in order, apart, and do not touch with the same kind.
    fn assert_order<M: Machine>(&self, m: &M) {
        let (mut at, mut before) = (self.files[0].posix.get(m), None::<Range>);
        let mut owners_before = 0_u128;
        while at != 0 {
            let range = self.range(m, at);
            assert!(range.start <= range.end && range.kind != Kind::Unlock, "{range:?} is one");
            match before.filter(|before| before.owner == range.owner) {
                Some(before) => {
                    assert!(before.end < range.start, "{before:?} comes before {range:?}");
                    let touch = before.end + 1 == range.start && before.kind == range.kind;
                    assert!(!touch, "{before:?} and {range:?} are one");
                }
                None => {
                    let owner = 1 << code_of(range.owner);
                    assert_eq!(owners_before & owner, 0, "{range:?} lies apart from its owner's");
                    owners_before |= owner;
                }
            }
            (before, at) = (Some(range), self.record(at).next.get(m));
        }
    }

    /// Whether an owner has so many ranges, or flocks, in all.
    pub(super) fn count_of<M: Machine>(&self, m: &M, owner: Owner) -> usize {
        let (mut count, mut at) = (0, self.list_of(0, owner).get(m));
        while at != 0 {
            count += usize::from(self.range(m, at).owner == owner);
            at = self.record(at).next.get(m);
        }
        count
    }
}

/// The bit of a record's name.
pub(super) fn bit(name: u32) -> Names {
    assert!((1..=64).contains(&name), "there are 64 records at most where all are looked at");
    1 << (name - 1)
}
