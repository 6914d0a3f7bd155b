//! Requests that wait: in the queue of their file, and by owner, so that circles are seen.

use machine::{Machine, Ordering, Sleepers};

use super::{BUCKETS, Blocked, Deadlocks, File, FileLocks, Outcome, Owner, Range, Refused, Wake};
use super::{Waiting, Waking, code_of, owner_of};
use crate::{Hold, Lock};

/// Owners that the search of a circle follows. Longer chains are taken for none.
const CHAIN_MAX: u32 = 10;

impl<L: Lock> FileLocks<L> {
    /// Queues a request behind its obstacle, unless that would close a circle.
    pub(super) fn begin_to_wait<M: Machine>(
        &self,
        m: &M,
        file: usize,
        range: Range,
        obstacle: u32,
    ) -> Outcome {
        let name = match self.take_record(m, range) {
            Ok(name) => name,
            Err(why) => return Outcome::Refused(why),
        };
        let record = self.record(name);
        record.obstacle.set(m, self.record(obstacle).owner.get(m));
        m.init(&record.woken, 0);
        if !self.block(m, name) {
            self.give_record(m, name);
            return Outcome::Refused(Refused::Deadlock);
        }
        self.queue_up(m, file, name);
        Outcome::Waits(Waiting(name))
    }

    /// Puts a request behind all that wait for the file.
    fn queue_up<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let start = m.history_mark();
        let File { waits, last_waits, .. } = &*self.files[file];
        self.insert_between(m, waits, name, [last_waits.get(m), 0]);
        last_waits.set(m, name);
        m.forget_history(start, 0);
    }

    /// Takes a request out of that queue.
    fn leave_queue<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let start = m.history_mark();
        let File { waits, last_waits, .. } = &*self.files[file];
        let record = self.record(name);
        if record.next.get(m) == 0 {
            last_waits.set(m, record.before.get(m));
        }
        self.remove(m, waits, name);
        m.forget_history(start, 0);
    }

    /// A request waits no more, for whatever reason. Who woke it has taken it out of the lists.
    pub(super) fn stop_waiting<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let woken = &self.record(name).woken;
        // Relaxed: it changes under the lock of the file.
        if woken.load(m, Ordering::Relaxed) == 0 {
            self.leave_queue(m, file, name);
            self.unblock(m, name);
        }
        m.poison(woken);
        self.give_record(m, name);
    }

    /// Something that this owner had of the file was unlocked, shortened or downgraded: wakes
    /// those who wait, which do no more (locks_wake_up_blocks).
    pub(super) fn wake<M: Machine>(&self, m: &M, file: usize, owner: Owner) {
        let start = m.history_mark();
        let waits = &self.files[file].waits;
        let under = self.design.waking == Waking::UnderTheBlocked;
        let mut at = waits.get(m);
        if at == 0 && !(under && matches!(owner, Owner::Process(_))) {
            return m.forget_history(start, 0);
        }
        // None of those who wait for a flock is in the table.
        let table = !matches!(owner, Owner::Flock(_));
        let hold = if table { self.lock_blocked(m) } else { None };
        let held = hold.as_ref().map_or(0, |hold| u64::from(hold.0) + 1);
        m.forget_history(start, held << 32 | u64::from(at));
        while at != 0 {
            let record = self.record(at);
            let next = record.next.get(m);
            let concerned = match self.design.wake {
                Wake::All => true,
                Wake::Concerned => self.is_concerned(m, file, at),
            };
            if concerned {
                self.leave_queue(m, file, at);
                self.unlist_blocked(m, at);
                // Relaxed: who wakes takes the lock of the file.
                record.woken.store(m, 1, Ordering::Relaxed);
                m.wake(&record.woken, Sleepers::All);
            }
            at = next;
            m.forget_history(start, held << 32 | u64::from(at));
        }
        self.unlock_beside(m, &self.blocked[0].lock, hold);
        m.forget_history(start, 0);
    }

    /// Whether another owner is in the way of a request than it knows of, or none.
    fn is_concerned<M: Machine>(&self, m: &M, file: usize, waiting: u32) -> bool {
        let known = self.record(waiting).obstacle.get(m);
        let obstacle = self.obstacle(m, file, self.range(m, waiting));
        obstacle.is_none_or(|obstacle| self.record(obstacle).owner.get(m) != known)
    }

    /// Makes it known whom the owner of a request waits for. Fails if that closes a circle;
    /// looking and making known are one step under the lock of the table.
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
        // An open file can be shared: nobody knows who would unlock it, so it is not refused.
        let circle = self.design.deadlocks == Deadlocks::Found
            && is_process(owner)
            && self.leads_to(m, obstacle, owner);
        if !circle && self.is_listed_as_blocked(m, name) {
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
        m.forget_history(start, circle.into());
        !circle
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

    /// Takes a request out of the table, if it is there.
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

    /// Whether a request is one that a circle could lead through: it waits for a process. So
    /// a process is refused also where an open file waits for it whose locks it wants itself,
    /// as in Linux (__locks_insert_block).
    pub(super) fn is_listed_as_blocked<M: Machine>(&self, m: &M, name: u32) -> bool {
        let record = self.record(name);
        let flock = matches!(owner_of(record.owner.get(m)), Owner::Flock(_));
        !flock && is_process(record.obstacle.get(m))
    }

    /// Whether following who waits for whom leads from one owner to another.
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

    /// Whom a blocked owner waits for.
    fn obstacle_of<M: Machine>(&self, m: &M, owner: u32) -> Option<u32> {
        let mut at = self.blocked[0].buckets[self.bucket(owner)].get(m);
        while at != 0 {
            let record = self.record(at);
            if record.owner.get(m) == owner {
                return Some(record.obstacle.get(m));
            }
            at = record.blocked_next.get(m);
        }
        None
    }

    /// Locks the table of the blocked, unless the global lock covers it.
    fn lock_blocked<M: Machine>(&self, m: &M) -> Option<Hold> {
        self.lock_beside(m, &self.blocked[0].lock)
    }

    pub(super) fn bucket(&self, owner: u32) -> usize {
        match self.design.blocked {
            Blocked::List => 0,
            Blocked::Hash => (owner >> 2) as usize % BUCKETS,
        }
    }

    /// Whether nothing is held and nobody waits.
    pub fn at_rest<M: Machine>(&self, m: &M) -> bool {
        let empty = |file: &super::File<L::Mem>| {
            let File { posix, flock, waits, last_waits, root, owners, .. } = file;
            let lists = [posix, flock, waits, last_waits, root, owners];
            lists.iter().all(|list| list.get(m) == 0)
        };
        self.files.iter().all(|file| empty(file))
            && self.held.iter().all(|list| list.first.get(m) == 0)
            && self.blocked[0].buckets.iter().all(|bucket| bucket.get(m) == 0)
    }

    /// Whether anybody waits for a lock of this file.
    pub fn somebody_waits<M: Machine>(&self, m: &M, file: usize) -> bool {
        self.files[file].waits.get(m) != 0
    }

    /// Whether this owner waits, by the table of the blocked.
    pub fn is_blocked<M: Machine>(&self, m: &M, owner: Owner) -> bool {
        self.obstacle_of(m, code_of(owner)).is_some()
    }
}

fn is_process(owner: u32) -> bool {
    matches!(owner_of(owner), Owner::Process(_))
}
