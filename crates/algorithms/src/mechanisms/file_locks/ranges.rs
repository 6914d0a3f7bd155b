//! Setting a lock merges, splits, shortens or replaces the locks that its owner already has. Follows
//! posix_lock_inode and flock_lock_inode of Linux 6.x.

use machine::Machine;

use super::{FileLocks, LockKind, Range, Refused, TO_THE_END, code_of, digest};
use crate::Lock;

/// The result of the walk over the owner's ranges.
struct Walk {
    /// The record that covers the request; 0 if there is none yet.
    covers: u32,
    /// Whether nothing is left to insert.
    added: bool,
    /// A range of another kind whose end the request cuts off; 0: none.
    left: u32,
    /// A range of another kind whose start the request cuts off; 0: none. It is the same record as
    /// `left` if the request lies within it.
    right: u32,
    /// The record before which a new one is inserted; 0: at the end.
    insert_before: u32,
    /// Whether a range was dropped or cut off, so that waiting requests must be woken.
    must_wake: bool,
}

impl Walk {
    /// The result as one number, for `Machine::forget_history`.
    fn live(&self) -> u64 {
        let names = [self.covers, self.left, self.right, self.insert_before];
        let flags = [u32::from(self.added), u32::from(self.must_wake)];
        digest(names.into_iter().chain(flags).map(u64::from))
    }
}

impl<L: Lock> FileLocks<L> {
    /// Grants a range that no other owner is in the way of, or unlocks it.
    pub(super) fn set_range<M: Machine>(
        &self,
        m: &M,
        file: usize,
        mut range: Range,
    ) -> Result<(), Refused> {
        // At most two records are needed; we take them first, so that we cannot fail half-way.
        let spare = self.spare_records(m, range)?;
        let start = m.history_mark();
        let mut walk = self.walk(m, file, &mut range, spare[0]);
        m.forget_history(start, digest([walk.live(), range.start, range.end]));
        let mut used = [walk.covers != 0 && walk.covers == spare[0], false];
        if !walk.added && range.kind != LockKind::Unlock {
            self.insert_range(m, file, spare[0], walk.insert_before);
            self.list(m, spare[0]);
            (walk.covers, walk.insert_before) = (spare[0], spare[0]);
            used[0] = true;
        }
        if walk.right != 0 {
            if walk.left == walk.right {
                // The request lies within a range of another kind. The left part of that range
                // gets a new record, whose end is cut off below.
                let whole = self.range(m, walk.right);
                self.record(spare[1]).kind.set(m, u32::from(whole.kind == LockKind::Write));
                self.record(spare[1]).start.set(m, whole.start);
                self.insert_range(m, file, spare[1], walk.insert_before);
                self.list(m, spare[1]);
                (walk.left, used[1]) = (spare[1], true);
            }
            self.record(walk.right).start.set(m, range.end + 1);
            self.range_changed(m, walk.right);
            walk.must_wake = true;
        }
        if walk.left != 0 {
            self.record(walk.left).end.set(m, range.start - 1);
            self.range_changed(m, walk.left);
            walk.must_wake = true;
        }
        for (name, used) in spare.into_iter().zip(used) {
            if name != 0 && !used {
                self.give_record(m, name);
            }
        }
        if walk.must_wake {
            self.wake(m, file, range.owner);
        }
        Ok(())
    }

    fn spare_records<M: Machine>(&self, m: &M, range: Range) -> Result<[u32; 2], Refused> {
        if range.kind == LockKind::Unlock && range.start == 0 && range.end == TO_THE_END {
            return Ok([0, 0]);
        }
        let first = self.take_record(m, range)?;
        match self.take_record(m, range) {
            Ok(second) => Ok([first, second]),
            Err(why) => {
                self.give_record(m, first);
                Err(why)
            }
        }
    }

    /// Goes over the owner's ranges in order. Merges adjacent ranges of the same kind; removes
    /// ranges that the request covers, or replaces them by `spare`.
    fn walk<M: Machine>(&self, m: &M, file: usize, range: &mut Range, spare: u32) -> Walk {
        let mut walk =
            Walk { covers: 0, added: false, left: 0, right: 0, insert_before: 0, must_wake: false };
        let mut name = self.first_to_visit(m, file, *range);
        while name != 0 {
            let (old, next) = (self.range(m, name), self.record(name).next.get(m));
            if old.owner != range.owner {
                break;
            }
            if old.kind == range.kind {
                // Not `old.end + 1`, which might overflow.
                if range.start > 0 && old.end < range.start - 1 {
                    name = next;
                    continue;
                }
                if old.start > 0 && old.start - 1 > range.end {
                    break;
                }
                range.start = range.start.min(old.start);
                range.end = range.end.max(old.end);
                if walk.added {
                    self.drop_range(m, file, name);
                } else {
                    (walk.covers, walk.added) = (name, true);
                }
                self.record(walk.covers).start.set(m, range.start);
                self.record(walk.covers).end.set(m, range.end);
                self.range_changed(m, walk.covers);
            } else {
                if old.end < range.start {
                    name = next;
                    continue;
                }
                if old.start > range.end {
                    break;
                }
                walk.added |= range.kind == LockKind::Unlock;
                if old.start < range.start {
                    walk.left = name;
                }
                if old.end > range.end {
                    walk.right = name;
                    break;
                }
                if old.start >= range.start {
                    if !walk.added {
                        // The spare still has the request's range: nothing was merged with it so far.
                        self.insert_range(m, file, spare, name);
                        self.list(m, spare);
                        (walk.covers, walk.added) = (spare, true);
                    }
                    self.drop_range(m, file, name);
                    walk.must_wake = true;
                }
            }
            name = next;
        }
        walk.insert_before = name;
        walk
    }

    /// The record at which the walk begins: no earlier range of the owner meets or touches the
    /// request.
    fn first_to_visit<M: Machine>(&self, m: &M, file: usize, range: Range) -> u32 {
        if self.has_tree(range.owner) {
            let first = self.first_of(m, file, range.owner);
            return if first == 0 { 0 } else { self.near(m, file, first, range.start) };
        }
        let mut name = self.list_of(file, range.owner).get(m);
        while name != 0 && self.range(m, name).owner != range.owner {
            name = self.record(name).next.get(m);
        }
        name
    }

    /// Inserts a range before another one, or at the end of the list if that is 0.
    fn insert_range<M: Machine>(&self, m: &M, file: usize, name: u32, next: u32) {
        let owner = self.range(m, name).owner;
        let list = self.list_of(file, owner);
        if !self.has_tree(owner) {
            return self.insert(m, list, name, next);
        }
        let start = m.history_mark();
        let before = match next {
            0 => self.last_in_tree(m, file),
            next => self.record(next).before.get(m),
        };
        self.insert_between(m, list, name, [before, next]);
        self.insert_in_tree(m, file, name);
        m.forget_history(start, 0);
    }

    /// Updates the tree after the start or the end of a granted range has changed.
    fn range_changed<M: Machine>(&self, m: &M, name: u32) {
        if self.has_tree(self.range(m, name).owner) {
            let start = m.history_mark();
            self.update_bounds_from(m, name);
            m.forget_history(start, 0);
        }
    }

    /// Removes a granted range from the file and from its list of held locks.
    fn drop_range<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let start = m.history_mark();
        let owner = self.range(m, name).owner;
        if self.has_tree(owner) {
            self.remove_from_tree(m, file, name);
            m.forget_history(start, code_of(owner).into());
        }
        self.remove(m, self.list_of(file, owner), name);
        self.unlist(m, name);
        self.give_record(m, name);
    }

    /// Whether an open file already has the requested flock. Removes a flock of another kind: a
    /// change is an unlock and then a lock, and another open file may get the lock in between
    /// (flock(2)).
    pub(super) fn has_flock<M: Machine>(&self, m: &M, file: usize, range: Range) -> bool {
        let mut name = self.list_of(file, range.owner).get(m);
        while name != 0 && self.range(m, name).owner != range.owner {
            name = self.record(name).next.get(m);
        }
        if name != 0 && self.range(m, name).kind == range.kind {
            return true;
        }
        if name != 0 {
            self.drop_range(m, file, name);
            self.wake(m, file, range.owner);
        }
        range.kind == LockKind::Unlock
    }

    /// Grants a flock to an open file that has none.
    pub(super) fn set_flock<M: Machine>(
        &self,
        m: &M,
        file: usize,
        range: Range,
    ) -> Result<(), Refused> {
        let name = self.take_record(m, range)?;
        self.insert(m, self.list_of(file, range.owner), name, 0);
        self.list(m, name);
        Ok(())
    }
}
