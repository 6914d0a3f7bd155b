//! What setting a lock does to those that its owner has: merging, splitting, shortening,
//! replacing. Follows posix_lock_inode and flock_lock_inode of Linux 6.x.

use machine::Machine;

use super::{FileLocks, Kind, Range, Refused, TO_THE_END, code_of, digest};
use crate::Lock;

/// What the walk over the owner's ranges has found out.
struct Walk {
    /// The record that covers the request, once there is one.
    covers: u32,
    /// Whether there is nothing to insert any more.
    added: bool,
    /// An other range that the request cuts off at its end, and one at its start; the same
    /// one where the request lies within it.
    left: u32,
    right: u32,
    /// Where a new record belongs: before this one.
    place: u32,
    /// Whether something became free or shared that was not.
    gave: bool,
}

impl Walk {
    /// All that matters of it.
    fn live(&self) -> u64 {
        let names = [self.covers, self.left, self.right, self.place];
        let flags = [u32::from(self.added), u32::from(self.gave)];
        digest(names.into_iter().chain(flags).map(u64::from))
    }
}

impl<L: Lock> FileLocks<L> {
    /// Grants a range that nobody is in the way of, or unlocks it.
    pub(super) fn set_range<M: Machine>(
        &self,
        m: &M,
        file: usize,
        mut range: Range,
    ) -> Result<(), Refused> {
        // Two records at most are needed; taken first, so that nothing is half done.
        let spare = self.spare_records(m, range)?;
        let start = m.history_mark();
        let mut walk = self.walk(m, file, &mut range, spare[0]);
        m.forget_history(start, digest([walk.live(), range.start, range.end]));
        let mut used = [walk.covers != 0 && walk.covers == spare[0], false];
        if !walk.added && range.kind != Kind::Unlock {
            self.insert_range(m, file, spare[0], walk.place);
            self.list(m, spare[0]);
            (walk.covers, walk.place) = (spare[0], spare[0]);
            used[0] = true;
        }
        if walk.right != 0 {
            if walk.left == walk.right {
                // The request lies within a range of another kind: its left part is new, and ends
                // where it is cut off below.
                let whole = self.range(m, walk.right);
                self.record(spare[1]).kind.set(m, u32::from(whole.kind == Kind::Write));
                self.record(spare[1]).start.set(m, whole.start);
                self.insert_range(m, file, spare[1], walk.place);
                self.list(m, spare[1]);
                (walk.left, used[1]) = (spare[1], true);
            }
            self.record(walk.right).start.set(m, range.end + 1);
            self.range_changed(m, walk.right);
            walk.gave = true;
        }
        if walk.left != 0 {
            self.record(walk.left).end.set(m, range.start - 1);
            self.range_changed(m, walk.left);
            walk.gave = true;
        }
        for (name, used) in spare.into_iter().zip(used) {
            if name != 0 && !used {
                self.give_record(m, name);
            }
        }
        if walk.gave {
            self.wake(m, file, range.owner);
        }
        Ok(())
    }

    fn spare_records<M: Machine>(&self, m: &M, range: Range) -> Result<[u32; 2], Refused> {
        if range.kind == Kind::Unlock && range.start == 0 && range.end == TO_THE_END {
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

    /// Goes over the owner's ranges in order; merges what has the same kind and touches,
    /// removes or replaces by `spare` what the request covers.
    fn walk<M: Machine>(&self, m: &M, file: usize, range: &mut Range, spare: u32) -> Walk {
        let mut walk = Walk { covers: 0, added: false, left: 0, right: 0, place: 0, gave: false };
        let mut at = self.begin(m, file, *range);
        while at != 0 {
            let (old, next) = (self.range(m, at), self.record(at).next.get(m));
            if old.owner != range.owner {
                break;
            }
            if old.kind == range.kind {
                // Not `end + 1`, which may be more than there is.
                if range.start > 0 && old.end < range.start - 1 {
                    at = next;
                    continue;
                }
                if old.start > 0 && old.start - 1 > range.end {
                    break;
                }
                range.start = range.start.min(old.start);
                range.end = range.end.max(old.end);
                if walk.added {
                    self.drop_range(m, file, at);
                } else {
                    (walk.covers, walk.added) = (at, true);
                }
                self.record(walk.covers).start.set(m, range.start);
                self.record(walk.covers).end.set(m, range.end);
                self.range_changed(m, walk.covers);
            } else {
                if old.end < range.start {
                    at = next;
                    continue;
                }
                if old.start > range.end {
                    break;
                }
                walk.added |= range.kind == Kind::Unlock;
                if old.start < range.start {
                    walk.left = at;
                }
                if old.end > range.end {
                    walk.right = at;
                    break;
                }
                if old.start >= range.start {
                    if !walk.added {
                        // The spare is the request as it came, which nothing was merged with so far.
                        self.insert_range(m, file, spare, at);
                        self.list(m, spare);
                        (walk.covers, walk.added) = (spare, true);
                    }
                    self.drop_range(m, file, at);
                    walk.gave = true;
                }
            }
            at = next;
        }
        walk.place = at;
        walk
    }

    /// Where the walk begins: at a range of the owner with none before it that matters.
    fn begin<M: Machine>(&self, m: &M, file: usize, range: Range) -> u32 {
        if self.has_tree(range.owner) {
            let first = self.first_of(m, file, range.owner);
            return if first == 0 { 0 } else { self.near(m, file, first, range.start) };
        }
        let mut at = self.list_of(file, range.owner).get(m);
        while at != 0 && self.range(m, at).owner != range.owner {
            at = self.record(at).next.get(m);
        }
        at
    }

    /// Puts a range before another one, or at the end where that is 0.
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
        self.grow(m, file, name);
        m.forget_history(start, 0);
    }

    /// A granted range begins or ends elsewhere now.
    fn range_changed<M: Machine>(&self, m: &M, name: u32) {
        if self.has_tree(self.range(m, name).owner) {
            let start = m.history_mark();
            self.resized(m, name);
            m.forget_history(start, 0);
        }
    }

    /// Takes a granted range out of everything.
    fn drop_range<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let start = m.history_mark();
        let owner = self.range(m, name).owner;
        if self.has_tree(owner) {
            self.shrink(m, file, name);
            m.forget_history(start, code_of(owner).into());
        }
        self.remove(m, self.list_of(file, owner), name);
        self.unlist(m, name);
        self.give_record(m, name);
    }

    /// Whether an open file has the flock that it asks for. One of another kind goes: a
    /// change is an unlock and then a lock, and others may come between, as flock(2) says.
    pub(super) fn has_flock<M: Machine>(&self, m: &M, file: usize, range: Range) -> bool {
        let mut at = self.list_of(file, range.owner).get(m);
        while at != 0 && self.range(m, at).owner != range.owner {
            at = self.record(at).next.get(m);
        }
        if at != 0 && self.range(m, at).kind == range.kind {
            return true;
        }
        if at != 0 {
            self.drop_range(m, file, at);
            self.wake(m, file, range.owner);
        }
        range.kind == Kind::Unlock
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
