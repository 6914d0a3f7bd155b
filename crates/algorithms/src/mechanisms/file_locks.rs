//! File locks: POSIX byte ranges, open-file-description locks and flock, in several designs.
//! They are managed as in the kernel, before and after its file locks were made to scale.
//!
//!     file ── posix ──> record ⇄ record ⇄ …     granted ranges, grouped by owner; an owner's
//!                                               ranges are in order of their starts
//!          ── flock ──> record ⇄ …              granted flocks
//!          ── waits ──> record ⇄ …              waiting requests, in order of arrival
//!     held lists ──> every granted record, for a listing of all locks
//!     blocked ──> every waiting POSIX request, by owner, for deadlock detection
//!
//!     request:  free ──> waits (woken = 0) ──> in no list (woken = 1) ──> tries again
//!                    └─> granted ──> merged, split, shortened, gone
//!
//! Ranges of one owner never overlap, and those of the same kind never touch. Ranges of different
//! owners overlap only if both are read locks. With deadlock detection, a request that would close
//! a cycle of waiting owners fails. A lock is not handed over: a woken request tries again.
//!
//! Designs: one global lock, or one lock per file and one for each list that is not part of a
//! file; one list of all held locks, or one per CPU; blocked requests in a list or in a hash
//! table; deadlock detection or none; a change wakes all waiters, or only those whose obstacle
//! changed; the lock of the blocked requests taken at each change of a process's lock, or
//! only if a request waits; ranges found by a walk over their list, or in a tree beside it; the
//! global lock in the cache line of the list head of held locks, or in a line of its own.
//!
//! Linux fs/locks.c of 3.10 (the first of each pair) and of 6.x (the second), by Andy Walker,
//! Matthew Wilcox, Jeff Layton and others; locks: encapsulate the fl_link list handling,
//! protect most of the file_lock handling with i_lock, 2013. The treatment of ranges follows
//! posix_lock_inode of 6.x step by step.

mod blocked;
mod contract;
mod held;
mod invariants;
mod lists;
mod operation;
mod ranges;
mod single_task_model;
mod tree;

pub use operation::LockedFiles;

use machine::{Array, Atom, Field, Image, Line, Machine, Ordering, Region, image};

use crate::{Hold, Lock, Shape, digest};

/// The last byte that a lock can cover.
pub const TO_THE_END: u64 = i64::MAX as u64;

/// The design of the lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// What the spin locks cover.
    pub locking: Locking,
    /// Where all held locks are listed.
    pub held: Held,
    /// How blocked requests are found.
    pub blocked: Blocked,
    /// Whether deadlocks are detected.
    pub deadlocks: Deadlocks,
    /// Which waiting requests a change wakes.
    pub wake: Wake,
    /// The locks under which requests are woken.
    pub waking: Waking,
    /// How the ranges of a file are found.
    pub ranges: Ranges,
    /// Where the global lock is.
    pub layout: Layout,
}

/// What the spin locks cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// One lock covers everything.
    Global,
    /// Each file has a lock, and so has each list that is not part of a file.
    PerFile,
}

/// Where all held locks are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// In one list.
    OneList,
    /// In a list of the CPU that took the lock.
    PerCpu,
}

/// How blocked requests are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// In one list.
    List,
    /// By a hash of their owners.
    Hash,
}

/// Whether deadlocks are detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlocks {
    /// A request that would wait forever fails.
    Found,
    /// A request may wait forever.
    Ignored,
}

/// Which waiting requests a change wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// All requests that wait for a lock of the file.
    All,
    /// Only requests whose obstacle is gone or has changed.
    Concerned,
}

/// The locks under which waiting requests are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// The lock of their file.
    UnderTheFile,
    /// Also the lock of the blocked requests, at each change of a process's lock, even if no
    /// request waits: as in the patches under review.
    UnderTheBlocked,
}

/// How the ranges of a file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// By a walk over their list.
    List,
    /// In a tree beside the list.
    Tree,
}

/// Where the global lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In a cache line of its own.
    Apart,
    /// In the cache line of the list head of held locks, next to which Linux declares it.
    Together,
}

impl Design {
    /// The design of Linux 3.10.
    pub const BEFORE: Design = Design {
        locking: Locking::Global,
        held: Held::OneList,
        blocked: Blocked::List,
        deadlocks: Deadlocks::Found,
        wake: Wake::All,
        waking: Waking::UnderTheFile,
        ranges: Ranges::List,
        layout: Layout::Apart,
    };

    /// The design of Linux 6.x.
    pub const AFTER: Design = Design {
        locking: Locking::PerFile,
        held: Held::PerCpu,
        blocked: Blocked::Hash,
        deadlocks: Deadlocks::Found,
        wake: Wake::All,
        waking: Waking::UnderTheFile,
        ranges: Ranges::List,
        layout: Layout::Apart,
    };
}

/// The designs before and after, and variants of each with one thing changed.
pub const DESIGNS: &[(&str, Design)] = &[
    ("before", Design::BEFORE),
    ("before+per-file", Design { locking: Locking::PerFile, ..Design::BEFORE }),
    ("before+per-cpu", Design { held: Held::PerCpu, ..Design::BEFORE }),
    ("before+hash", Design { blocked: Blocked::Hash, ..Design::BEFORE }),
    ("before+no-detection", Design { deadlocks: Deadlocks::Ignored, ..Design::BEFORE }),
    ("before+wake-concerned", Design { wake: Wake::Concerned, ..Design::BEFORE }),
    ("before+tree", Design { ranges: Ranges::Tree, ..Design::BEFORE }),
    ("before+together", Design { layout: Layout::Together, ..Design::BEFORE }),
    ("after", Design::AFTER),
    ("after+no-detection", Design { deadlocks: Deadlocks::Ignored, ..Design::AFTER }),
    ("after+wake-concerned", Design { wake: Wake::Concerned, ..Design::AFTER }),
    ("after+wake-locked", Design { waking: Waking::UnderTheBlocked, ..Design::AFTER }),
    ("after+tree", Design { ranges: Ranges::Tree, ..Design::AFTER }),
];

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process, with POSIX locks.
    Process(u32),
    /// An open file, with POSIX ranges.
    OpenFile(u32),
    /// An open file, with flock.
    Flock(u32),
}

/// The kind of a lock or of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// No lock: the request removes the owner's locks.
    Unlock,
}

/// A request, or a granted lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The owner of the lock.
    pub owner: Owner,
    /// The kind of the lock.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub end: u64,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another owner has the lock (EAGAIN).
    Again,
    /// The request would wait forever (EDEADLK).
    Deadlock,
    /// No records are left (ENOLCK).
    NoRecords,
}

image! {
    /// A granted range or a waiting request. A record's name is its index plus one; 0 is none. The
    /// lock of the file guards all fields but the last four.
    struct LockRecord {
        next: Field<u32>,
        before: Field<u32>,
        owner: Field<u32>,
        /// 0 read, 1 write.
        kind: Field<u32>,
        start: Field<u64>,
        end: Field<u64>,
        /// The index of its list of held locks, plus one.
        listed_in: Field<u32>,
        /// In a waiting request: the owner in its way.
        obstacle: Field<u32>,
        /// In a waiting request: 1 once it should try again.
        woken: Atom<u32>,
        held_next: Field<u32>,
        held_before: Field<u32>,
        blocked_next: Field<u32>,
        blocked_before: Field<u32>,
    }

    /// The locks of a file.
    struct FileState<L: Image> {
        lock: L,
        posix: Field<u32>,
        flock: Field<u32>,
        waits: Field<u32>,
        last_waits: Field<u32>,
        /// The root of the tree of ranges.
        root: Field<u32>,
        /// In a tree: the chain of the owners' first ranges.
        owners: Field<u32>,
    }

    /// A list of held locks.
    struct HeldList<L: Image> {
        lock: L,
        first: Field<u32>,
    }

    /// The free records of a CPU. Only that CPU uses them.
    struct Pool {
        /// The first of the records that were given back.
        first: Field<u32>,
        /// How many of the CPU's own records were ever taken.
        taken: Field<u32>,
    }

    /// The blocked requests, by bucket.
    struct BlockedTable<L: Image> {
        lock: L,
        buckets: [Field<u32>; BUCKETS],
    }
}

/// Buckets of the hash table of blocked requests.
const BUCKETS: usize = 16;

/// The lock manager of some files.
#[derive(Debug)]
pub struct FileLocks<L: Lock> {
    design: Design,
    lock: L,
    global: Array<Line<L::Mem>>,
    files: Array<Line<FileState<L::Mem>>>,
    held: Array<Line<HeldList<L::Mem>>>,
    blocked: Array<Line<BlockedTable<L::Mem>>>,
    pools: Array<Line<Pool>>,
    records: Array<Line<LockRecord>>,
    branches: Array<tree::Branch>,
    records_per_cpu: u32,
    in_lock_ns: u64,
    in_beside_ns: u64,
}

/// The record of a waiting request.
#[derive(Clone, Copy, Debug)]
pub struct WaitingRequest(u32);

/// The outcome of a request.
#[derive(Debug)]
pub enum LockOutcome {
    /// The request is done.
    Granted,
    /// The request has failed.
    Refused(Refused),
    /// The request waits: the caller must park and try again.
    Waits(WaitingRequest),
}

impl LockOutcome {
    /// The outcome as one number, for `Machine::forget_history`.
    fn live(&self) -> u64 {
        match self {
            LockOutcome::Granted => 0,
            LockOutcome::Refused(why) => 1 + *why as u64,
            LockOutcome::Waits(waiting) => 8 + u64::from(waiting.0),
        }
    }
}

impl<L: Lock> FileLocks<L> {
    /// Manages the locks of `files` files. Each CPU has `records` records.
    pub fn new(region: &Region, cpus: usize, files: usize, records: usize, design: Design) -> Self {
        let lists = match design.held {
            Held::OneList => 1,
            Held::PerCpu => cpus,
        };
        let branches = match design.ranges {
            Ranges::List => 0,
            Ranges::Tree => cpus * records,
        };
        FileLocks {
            design,
            lock: L::new(region, Shape::new(cpus, files + lists + 2)),
            global: region.array("global", 1),
            files: region.array("file", files),
            held: region.array("held", lists),
            blocked: region.array("blocked", 1),
            pools: region.array("pool", cpus),
            records: region.array("record", cpus * records),
            branches: region.array("branch", branches),
            records_per_cpu: records as u32,
            in_lock_ns: 0,
            in_beside_ns: 0,
        }
    }

    /// Adds work under the lock that covers a file, and under each lock of another list.
    pub fn with_work(self, in_lock_ns: u64, in_beside_ns: u64) -> Self {
        FileLocks { in_lock_ns, in_beside_ns, ..self }
    }

    /// Sets, changes or removes locks of the owner, and waits until that is possible. Returns how
    /// often it waited.
    pub fn set<M: Machine>(&self, m: &M, file: usize, range: Range) -> Result<u32, Refused> {
        let start = m.history_mark();
        let mut outcome = self.attempt(m, file, range, true);
        let mut waits = 0;
        loop {
            match outcome {
                LockOutcome::Granted => return Ok(waits),
                LockOutcome::Refused(why) => return Err(why),
                LockOutcome::Waits(waiting) => {
                    m.forget_history(start, waiting.0.into());
                    waits += 1;
                    self.sleep(m, waiting);
                    outcome = self.again(m, file, range, waiting);
                }
            }
        }
    }

    /// Sets, changes or removes locks of the owner, but never waits.
    pub fn try_set<M: Machine>(&self, m: &M, file: usize, range: Range) -> Result<(), Refused> {
        match self.attempt(m, file, range, false) {
            LockOutcome::Granted => Ok(()),
            LockOutcome::Refused(why) => Err(why),
            LockOutcome::Waits(_) => unreachable!("a request waits that must not"),
        }
    }

    /// Tries once. If another lock is in the way and `wait` is set, queues the request at the file.
    pub fn attempt<M: Machine>(&self, m: &M, file: usize, range: Range, wait: bool) -> LockOutcome {
        let start = m.history_mark();
        let hold = self.lock_file(m, file);
        m.forget_history(start, hold.0.into());
        let outcome = self.attempt_locked(m, file, range, wait);
        m.forget_history(start, digest([hold.0.into(), outcome.live()]));
        self.unlock_file(m, file, hold);
        m.forget_history(start, outcome.live());
        outcome
    }

    /// Takes a waiting request out of the queue, and tries once more.
    pub fn again<M: Machine>(
        &self,
        m: &M,
        file: usize,
        range: Range,
        waiting: WaitingRequest,
    ) -> LockOutcome {
        let start = m.history_mark();
        let hold = self.lock_file(m, file);
        self.stop_waiting(m, file, waiting.0);
        m.forget_history(start, hold.0.into());
        let outcome = self.attempt_locked(m, file, range, true);
        m.forget_history(start, digest([hold.0.into(), outcome.live()]));
        self.unlock_file(m, file, hold);
        m.forget_history(start, outcome.live());
        outcome
    }

    /// Gives up waiting, as after a signal.
    pub fn give_up<M: Machine>(&self, m: &M, file: usize, waiting: WaitingRequest) {
        let hold = self.lock_file(m, file);
        self.stop_waiting(m, file, waiting.0);
        self.unlock_file(m, file, hold);
    }

    /// Whether a waiting request should try again.
    pub fn is_woken<M: Machine>(&self, m: &M, waiting: WaitingRequest) -> bool {
        // Relaxed: as in `sleep`.
        self.record(waiting.0).woken.load(m, Ordering::Relaxed) != 0
    }

    /// Sleeps until the request is woken.
    fn sleep<M: Machine>(&self, m: &M, waiting: WaitingRequest) {
        let woken = &self.record(waiting.0).woken;
        let start = m.history_mark();
        // Relaxed: the lock of the file, taken next, orders the rest.
        while woken.load(m, Ordering::Relaxed) == 0 {
            m.park(woken, 0);
            m.forget_history(start, 0);
        }
    }

    /// The first lock that is in the way of this range (F_GETLK).
    pub fn get<M: Machine>(&self, m: &M, file: usize, range: Range) -> Option<Range> {
        let hold = self.lock_file(m, file);
        let obstacle = self.obstacle(m, file, range).map(|record| self.range(m, record));
        self.unlock_file(m, file, hold);
        obstacle
    }

    /// Removes all locks of an owner, because the owner closes the file. An owner `Flock` or
    /// `OpenFile` does so at the last close of the open file, a `Process` at any close.
    pub fn close<M: Machine>(&self, m: &M, file: usize, owner: Owner) {
        let everything = Range { owner, kind: LockKind::Unlock, start: 0, end: TO_THE_END };
        let result = self.try_set(m, file, everything);
        assert_eq!(result, Ok(()), "unlocking everything needs no record");
    }

    fn attempt_locked<M: Machine>(
        &self,
        m: &M,
        file: usize,
        range: Range,
        wait: bool,
    ) -> LockOutcome {
        if let Owner::Flock(_) = range.owner
            && self.has_flock(m, file, range)
        {
            return LockOutcome::Granted;
        }
        if range.kind != LockKind::Unlock
            && let Some(obstacle) = self.obstacle(m, file, range)
        {
            if !wait {
                return LockOutcome::Refused(Refused::Again);
            }
            return self.begin_to_wait(m, file, range, obstacle);
        }
        let result = match range.owner {
            Owner::Flock(_) => self.set_flock(m, file, range),
            Owner::Process(_) | Owner::OpenFile(_) => self.set_range(m, file, range),
        };
        result.map_or_else(LockOutcome::Refused, |()| LockOutcome::Granted)
    }

    /// The first record in the way of this range.
    fn obstacle<M: Machine>(&self, m: &M, file: usize, range: Range) -> Option<u32> {
        if self.has_tree(range.owner) {
            return self.obstacle_in_tree(m, file, range);
        }
        let mut name = self.list_of(file, range.owner).get(m);
        while name != 0 {
            let record = self.record(name);
            if in_the_way(self.range(m, name), range) {
                return Some(name);
            }
            name = record.next.get(m);
        }
        None
    }

    /// Whether the locks of this owner are also in a tree.
    fn has_tree(&self, owner: Owner) -> bool {
        self.design.ranges == Ranges::Tree && !matches!(owner, Owner::Flock(_))
    }

    fn list_of(&self, file: usize, owner: Owner) -> &Field<u32> {
        match owner {
            Owner::Flock(_) => &self.files[file].flock,
            _ => &self.files[file].posix,
        }
    }

    fn record(&self, name: u32) -> &LockRecord {
        &self.records[name as usize - 1]
    }

    fn range<M: Machine>(&self, m: &M, name: u32) -> Range {
        let record = self.record(name);
        let kind = if record.kind.get(m) == 0 { LockKind::Read } else { LockKind::Write };
        let owner = owner_of(record.owner.get(m));
        Range { owner, kind, start: record.start.get(m), end: record.end.get(m) }
    }

    // The spin locks.

    fn lock_file<M: Machine>(&self, m: &M, file: usize) -> Hold {
        let hold = match self.design.locking {
            Locking::Global => self.lock.lock(m, self.global()),
            Locking::PerFile => self.lock.lock(m, &self.files[file].lock),
        };
        m.work(self.in_lock_ns);
        hold
    }

    fn unlock_file<M: Machine>(&self, m: &M, file: usize, hold: Hold) {
        match self.design.locking {
            Locking::Global => self.lock.unlock(m, self.global(), hold),
            Locking::PerFile => self.lock.unlock(m, &self.files[file].lock, hold),
        }
    }

    /// The global lock.
    fn global(&self) -> &L::Mem {
        match self.design.layout {
            Layout::Apart => &self.global[0],
            Layout::Together => &self.held[0].lock,
        }
    }

    fn has_global_lock(&self) -> bool {
        self.design.locking == Locking::Global
    }

    /// Takes the lock of a list that is not part of a file, unless the global lock covers it.
    fn lock_beside<M: Machine>(&self, m: &M, mem: &L::Mem) -> Option<Hold> {
        match self.design.locking {
            Locking::Global => None,
            Locking::PerFile => {
                let hold = self.lock.lock(m, mem);
                m.work(self.in_beside_ns);
                Some(hold)
            }
        }
    }

    fn unlock_beside<M: Machine>(&self, m: &M, mem: &L::Mem, hold: Option<Hold>) {
        if let Some(hold) = hold {
            self.lock.unlock(m, mem, hold);
        }
    }

    // Records.

    fn take_record<M: Machine>(&self, m: &M, range: Range) -> Result<u32, Refused> {
        let start = m.history_mark();
        let pool = &self.pools[m.cpu()];
        let mut name = pool.first.get(m);
        if name != 0 {
            pool.first.set(m, self.record(name).next.get(m));
        } else {
            let taken = pool.taken.get(m);
            if taken == self.records_per_cpu {
                return Err(Refused::NoRecords);
            }
            pool.taken.set(m, taken + 1);
            name = m.cpu() as u32 * self.records_per_cpu + taken + 1;
        }
        let record = self.record(name);
        record.owner.set(m, code_of(range.owner));
        record.kind.set(m, u32::from(range.kind == LockKind::Write));
        record.start.set(m, range.start);
        record.end.set(m, range.end);
        m.forget_history(start, name.into());
        Ok(name)
    }

    /// Adds an unused record to the pool of this CPU, which from now on consists of such records.
    fn add_to_pool<M: Machine>(&self, m: &M, name: u32) {
        let pool = &self.pools[m.cpu()];
        pool.taken.set(m, self.records_per_cpu);
        self.record(name).next.set(m, pool.first.get(m));
        pool.first.set(m, name);
    }

    /// Gives a record back, to the pool of this CPU, whichever pool it came from.
    fn give_record<M: Machine>(&self, m: &M, name: u32) {
        let start = m.history_mark();
        let (pool, record) = (&self.pools[m.cpu()], self.record(name));
        for field in [&record.before, &record.owner, &record.kind, &record.listed_in] {
            m.poison_field(field);
        }
        for field in [&record.obstacle, &record.held_next, &record.held_before] {
            m.poison_field(field);
        }
        m.poison_field(&record.blocked_next);
        m.poison_field(&record.blocked_before);
        m.poison_field(&record.start);
        m.poison_field(&record.end);
        record.next.set(m, pool.first.get(m));
        pool.first.set(m, name);
        m.forget_history(start, 0);
    }
}

/// Whether a granted range is in the way of a request.
fn in_the_way(granted: Range, requested: Range) -> bool {
    granted.owner != requested.owner
        && granted.start <= requested.end
        && requested.start <= granted.end
        && (granted.kind == LockKind::Write || requested.kind == LockKind::Write)
}

/// An owner as one number, never 0.
fn code_of(owner: Owner) -> u32 {
    match owner {
        Owner::Process(id) => id << 2 | 1,
        Owner::OpenFile(id) => id << 2 | 2,
        Owner::Flock(id) => id << 2 | 3,
    }
}

fn owner_of(code: u32) -> Owner {
    match code & 3 {
        1 => Owner::Process(code >> 2),
        2 => Owner::OpenFile(code >> 2),
        _ => Owner::Flock(code >> 2),
    }
}
