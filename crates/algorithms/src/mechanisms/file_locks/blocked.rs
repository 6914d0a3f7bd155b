//! Waiting requests: the queue of each file, and the table of blocked owners that shows deadlocks.

use machine::{Machine, Ordering, Sleepers};

use super::{
    BUCKETS, Blocked, Deadlocks, FileLocks, FileState, LockOutcome, Owner, Range, Refused,
};
use super::{WaitingRequest, Wake, Waking, owner_of};
use crate::{Hold, Lock};

/// Owners that deadlock detection follows. It takes a longer chain for no cycle.
const CHAIN_MAX: u32 = 10;

impl<L: Lock> FileLocks<L> {
    /// Makes a request wait for the owner of its obstacle, unless that would close a cycle.
    pub(super) fn begin_to_wait<M: Machine>(
        &self,
        m: &M,
        file: usize,
        range: Range,
        obstacle: u32,
    ) -> LockOutcome {
        let name = match self.take_record(m, range) {
            Ok(name) => name,
            Err(why) => return LockOutcome::Refused(why),
        };
        let record = self.record(name);
        record.obstacle.set(m, self.record(obstacle).owner.get(m));
        m.init(&record.woken, 0);
        if !self.block(m, name) {
            self.give_record(m, name);
            return LockOutcome::Refused(Refused::Deadlock);
        }
        self.enqueue(m, file, name);
        LockOutcome::Waits(WaitingRequest(name))
    }

    /// Puts a request at the end of the file's queue.
    fn enqueue<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let start = m.history_mark();
        let FileState { waits, last_waits, .. } = &*self.files[file];
        self.insert_between(m, waits, name, [last_waits.get(m), 0]);
        last_waits.set(m, name);
        m.forget_history(start, 0);
    }

    /// Takes a request out of the file's queue.
    fn dequeue<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let start = m.history_mark();
        let FileState { waits, last_waits, .. } = &*self.files[file];
        let record = self.record(name);
        if record.next.get(m) == 0 {
            last_waits.set(m, record.before.get(m));
        }
        self.remove(m, waits, name);
        m.forget_history(start, 0);
    }

    /// Ends the wait of a request. If it was woken, the waker has taken it out of the lists.
    pub(super) fn stop_waiting<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let woken = &self.record(name).woken;
        // Relaxed: it changes under the lock of the file.
        if woken.load(m, Ordering::Relaxed) == 0 {
            self.dequeue(m, file, name);
            self.unblock(m, name);
        }
        m.poison(woken);
        self.give_record(m, name);
    }

    /// Wakes the waiting requests of a file and takes them out of all lists, because a lock of this
    /// owner was removed, shortened or downgraded (locks_wake_up_blocks).
    pub(super) fn wake<M: Machine>(&self, m: &M, file: usize, owner: Owner) {
        let start = m.history_mark();
        let waits = &self.files[file].waits;
        let always_locks = self.design.waking == Waking::UnderTheBlocked;
        let mut name = waits.get(m);
        if name == 0 && !(always_locks && matches!(owner, Owner::Process(_))) {
            return m.forget_history(start, 0);
        }
        // Requests for a flock are not in the table.
        let in_table = !matches!(owner, Owner::Flock(_));
        let hold = if in_table { self.lock_blocked(m) } else { None };
        let live_hold = hold.as_ref().map_or(0, |hold| u64::from(hold.0) + 1);
        m.forget_history(start, live_hold << 32 | u64::from(name));
        while name != 0 {
            let record = self.record(name);
            let next = record.next.get(m);
            let wakes = match self.design.wake {
                Wake::All => true,
                Wake::Concerned => self.is_concerned(m, file, name),
            };
            if wakes {
                self.dequeue(m, file, name);
                self.unlist_blocked(m, name);
                // Relaxed: the woken task takes the lock of the file.
                record.woken.store(m, 1, Ordering::Relaxed);
                m.wake(&record.woken, Sleepers::All);
            }
            name = next;
            m.forget_history(start, live_hold << 32 | u64::from(name));
        }
        self.unlock_beside(m, &self.blocked[0].lock, hold);
        m.forget_history(start, 0);
    }

    /// Whether no owner, or another owner than recorded, is in the way of a waiting request.
    fn is_concerned<M: Machine>(&self, m: &M, file: usize, waiting: u32) -> bool {
        let recorded = self.record(waiting).obstacle.get(m);
        let obstacle = self.obstacle(m, file, self.range(m, waiting));
        obstacle.is_none_or(|obstacle| self.record(obstacle).owner.get(m) != recorded)
    }

    /// Enters in the table which owner a request waits for. Fails if that closes a cycle. The
    /// search and the entry are one step under the lock of the table.
    fn block<M: Machine>(&self, m: &M, name: u32) -> bool {
        let start = m.history_mark();
        let record = self.record(name);
        let (owner, obstacle) = (record.owner.get(m), record.obstacle.get(m));
        if !self.is_listed_as_blocked(m, name) && !is_process(owner) {
            m.forget_history(start, 0);
            return true;
        }
        let table = &self.blocked[0];
        let hold = self.lock_blocked(m);
        // Processes can share an open file: any of them may unlock it, so its requests never fail.
        let cycle = self.design.deadlocks == Deadlocks::Found
            && is_process(owner)
            && self.leads_to(m, obstacle, owner);
        if !cycle && self.is_listed_as_blocked(m, name) {
            let bucket = &table.buckets[self.bucket(owner)];
            let first = bucket.get(m);
            record.blocked_next.set(m, first);
            record.blocked_before.set(m, 0);
            if first != 0 {
                self.record(first).blocked_before.set(m, name);
            }
            bucket.set(m, name);
        }
        self.unlock_beside(m, &table.lock, hold);
        m.forget_history(start, cycle.into());
        !cycle
    }

    fn unblock<M: Machine>(&self, m: &M, name: u32) {
        let start = m.history_mark();
        if !self.is_listed_as_blocked(m, name) {
            return m.forget_history(start, 0);
        }
        let hold = self.lock_blocked(m);
        self.unlist_blocked(m, name);
        self.unlock_beside(m, &self.blocked[0].lock, hold);
        m.forget_history(start, 0);
    }

    /// Takes a request out of the table, if the table has it.
    fn unlist_blocked<M: Machine>(&self, m: &M, name: u32) {
        let start = m.history_mark();
        if !self.is_listed_as_blocked(m, name) {
            return m.forget_history(start, 0);
        }
        let record = self.record(name);
        let bucket = &self.blocked[0].buckets[self.bucket(record.owner.get(m))];
        let (before, next) = (record.blocked_before.get(m), record.blocked_next.get(m));
        match before {
            0 => bucket.set(m, next),
            before => self.record(before).blocked_next.set(m, next),
        }
        if next != 0 {
            self.record(next).blocked_before.set(m, before);
        }
        m.forget_history(start, 0);
    }

    /// Whether a request can be part of a cycle, which is if it waits for a process. So a process
    /// is also refused a lock of an open file that waits for that process, as in Linux
    /// (__locks_insert_block).
    pub(super) fn is_listed_as_blocked<M: Machine>(&self, m: &M, name: u32) -> bool {
        let record = self.record(name);
        let flock = matches!(owner_of(record.owner.get(m)), Owner::Flock(_));
        !flock && is_process(record.obstacle.get(m))
    }

    /// Whether a chain of owners, each waiting for the next, leads from one owner to another.
    fn leads_to<M: Machine>(&self, m: &M, from: u32, to: u32) -> bool {
        let mut owner = from;
        for _ in 0..=CHAIN_MAX {
            if owner == to {
                return true;
            }
            match self.obstacle_of(m, owner) {
                Some(obstacle) => owner = obstacle,
                None => return false,
            }
        }
        false
    }

    /// The owner that a blocked owner waits for.
    fn obstacle_of<M: Machine>(&self, m: &M, owner: u32) -> Option<u32> {
        let mut name = self.blocked[0].buckets[self.bucket(owner)].get(m);
        while name != 0 {
            let record = self.record(name);
            if record.owner.get(m) == owner {
                return Some(record.obstacle.get(m));
            }
            name = record.blocked_next.get(m);
        }
        None
    }

    /// Locks the table of blocked requests, unless the global lock covers it.
    fn lock_blocked<M: Machine>(&self, m: &M) -> Option<Hold> {
        self.lock_beside(m, &self.blocked[0].lock)
    }

    pub(super) fn bucket(&self, owner: u32) -> usize {
        match self.design.blocked {
            Blocked::List => 0,
            Blocked::Hash => (owner >> 2) as usize % BUCKETS,
        }
    }

    /// Whether no lock is held and no request waits.
    pub fn at_rest<M: Machine>(&self, m: &M) -> bool {
        let is_empty = |file: &FileState<L::Mem>| {
            let FileState { posix, flock, waits, last_waits, root, owners, .. } = file;
            let lists = [posix, flock, waits, last_waits, root, owners];
            lists.iter().all(|list| list.get(m) == 0)
        };
        self.files.iter().all(|file| is_empty(file))
            && self.held.iter().all(|list| list.first.get(m) == 0)
            && self.blocked[0].buckets.iter().all(|bucket| bucket.get(m) == 0)
    }
}

fn is_process(owner: u32) -> bool {
    matches!(owner_of(owner), Owner::Process(_))
}
