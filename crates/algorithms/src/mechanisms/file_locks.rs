//! File locks: POSIX byte ranges, open-file-description locks and flock, in designs to switch.
//! As a kernel manages them, before and after that was made to scale.
//!
//!     file ── posix ──> record ⇄ record ⇄ …     granted ranges: grouped by owner, in order of
//!          ── flock ──> record ⇄ …              their starts within an owner
//!          ── waits ──> record ⇄ …              requests that wait, the first first
//!     held lists ──> every granted record, for a listing of all
//!     blocked ──> every POSIX request that waits, by owner, for the search of deadlocks
//!
//!     request:  free ──> waits (woken = 0) ──> in no list (woken = 1) ──> tries again
//!                    └─> granted ──> merged, split, shortened, gone
//!
//! Ranges of one owner never overlap and never touch with the same kind; ranges of different
//! owners overlap only where both read. A request that would close a circle of waiting owners
//! fails, where that is looked for. Nobody is queued: whoever is woken tries again.
//!
//! Designs: one lock for everything, or one a file (with one each for the lists beside it);
//! one list of all held locks, or one a CPU; the blocked in a list or in a hash; deadlocks
//! looked for or not; all waiters woken at a change, or those who need to look; the lock of the
//! blocked taken at each change of a process's lock, or not; ranges found by a walk over their
//! list, or by a tree beside it; the one lock in the line of the one list's head, or apart.
//!
//! Linux kernel/fs/locks.c of 3.10 (the former of each) and of 6.x (the latter), by Andy Walker,
//! Matthew Wilcox, Jeff Layton and others; locks: encapsulate the fl_link list handling,
//! protect most of the file_lock handling with i_lock, 2013. The treatment of ranges follows
//! posix_lock_inode of 6.x step by step.

mod alone;
mod blocked;
mod contract;
mod held;
mod lists;
mod operation;
mod ranges;
mod soundness;
mod tree;

pub use operation::LockedFiles;

use machine::{Array, Atom, Field, Image, Line, Machine, Ordering, Region, image};

use crate::{Hold, Lock, Shape, digest};

/// The last byte that a lock can cover.
pub const TO_THE_END: u64 = i64::MAX as u64;

/// How the manager is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// What the locks cover.
    pub locking: Locking,
    /// Where all held locks are listed.
    pub held: Held,
    /// How the blocked are found.
    pub blocked: Blocked,
    /// Whether deadlocks are looked for.
    pub deadlocks: Deadlocks,
    /// Who is woken at a change.
    pub wake: Wake,
    /// Under which locks.
    pub waking: Waking,
    /// How the ranges of a file are found.
    pub ranges: Ranges,
    /// Where the lock of everything is.
    pub layout: Layout,
}

/// What the locks cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// One lock, everything.
    Global,
    /// One lock a file, one for each list beside.
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

/// How the blocked are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// In one list.
    List,
    /// By a hash of their owners.
    Hash,
}

/// Whether deadlocks are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlocks {
    /// A request that would wait for ever fails.
    Found,
    /// It waits for ever.
    Ignored,
}

/// Who is woken at a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Everybody who waits for a lock of the file.
    All,
    /// Those whose obstacle is gone or another one now.
    Concerned,
}

/// Under which locks those who wait are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waking {
    /// That of their file.
    UnderTheFile,
    /// That of the blocked too, where a lock of a process changes, also if nobody waits: as it
    /// was while the change was under review.
    UnderTheBlocked,
}

/// How the ranges of a file are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// By a walk over the list of all.
    List,
    /// By a tree beside it.
    Tree,
}

/// Where the lock of everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In a cache line of its own.
    Apart,
    /// In that of the head of the one list of held locks, beside which it is declared.
    Together,
}

impl Design {
    /// As it was before it was made to scale.
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

    /// As it was afterwards.
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

/// The design before, with one thing changed at a time, and the design after.
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

/// Whose lock it is, which also says what kind of owner that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A process, with POSIX locks.
    Process(u32),
    /// An open file, with POSIX ranges.
    OpenFile(u32),
    /// An open file, with flock.
    Flock(u32),
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Shared.
    Read,
    /// Exclusive.
    Write,
    /// Nothing: what is there goes.
    Unlock,
}

/// A request, or what is in the way of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Whose.
    pub owner: Owner,
    /// What.
    pub kind: Kind,
    /// The first byte.
    pub start: u64,
    /// The last byte.
    pub end: u64,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Somebody else has it (EAGAIN).
    Again,
    /// It would wait for ever (EDEADLK).
    Deadlock,
    /// There are no records left (ENOLCK).
    NoRecords,
}

image! {
    /// A granted range, or a request that waits. Records are named by index plus one; 0 is
    /// none. What guards the file guards it, but for the last four fields.
    struct Record {
        next: Field<u32>,
        before: Field<u32>,
        owner: Field<u32>,
        /// 0 read, 1 write.
        kind: Field<u32>,
        start: Field<u64>,
        end: Field<u64>,
        /// Which held list it is in, plus one.
        listed_in: Field<u32>,
        /// Of a waiting request: the owner in its way.
        obstacle: Field<u32>,
        /// Of a waiting request: 1 once it should look again.
        woken: Atom<u32>,
        held_next: Field<u32>,
        held_before: Field<u32>,
        blocked_next: Field<u32>,
        blocked_before: Field<u32>,
    }

    /// A file.
    struct File<L: Image> {
        lock: L,
        posix: Field<u32>,
        flock: Field<u32>,
        waits: Field<u32>,
        last_waits: Field<u32>,
        /// Of the tree of ranges: its root, and the chain of owners.
        root: Field<u32>,
        owners: Field<u32>,
    }

    /// A list of held locks.
    struct HeldList<L: Image> {
        lock: L,
        first: Field<u32>,
    }

    /// The records that a CPU has to give. Only it looks at them.
    struct Pool {
        /// Given back before.
        first: Field<u32>,
        /// How many were never given.
        taken: Field<u32>,
    }

    /// The blocked, by bucket.
    struct BlockedTable<L: Image> {
        lock: L,
        buckets: [Field<u32>; BUCKETS],
    }
}

/// Buckets of the hash of the blocked.
const BUCKETS: usize = 16;

/// The manager of some files.
#[derive(Debug)]
pub struct FileLocks<L: Lock> {
    design: Design,
    lock: L,
    global: Array<Line<L::Mem>>,
    files: Array<Line<File<L::Mem>>>,
    held: Array<Line<HeldList<L::Mem>>>,
    blocked: Array<Line<BlockedTable<L::Mem>>>,
    pools: Array<Line<Pool>>,
    records: Array<Line<Record>>,
    branches: Array<tree::Branch>,
    records_a_cpu: u32,
    in_lock_ns: u64,
    in_beside_ns: u64,
}

/// A request that waits: the record that stands for it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting(u32);

/// What became of a request.
#[derive(Debug)]
pub enum Outcome {
    /// It is done.
    Granted,
    /// It is refused.
    Refused(Refused),
    /// It waits: park, and try again.
    Waits(Waiting),
}

impl Outcome {
    /// All that matters of it.
    fn live(&self) -> u64 {
        match self {
            Outcome::Granted => 0,
            Outcome::Refused(why) => 1 + *why as u64,
            Outcome::Waits(waiting) => 8 + u64::from(waiting.0),
        }
    }
}

impl<L: Lock> FileLocks<L> {
    /// Manages this many files, each CPU with this many records.
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
            lock: L::new(region, Shape { cpus, locks: files + lists + 2 }),
            global: region.array("global", 1),
            files: region.array("file", files),
            held: region.array("held", lists),
            blocked: region.array("blocked", 1),
            pools: region.array("pool", cpus),
            records: region.array("record", cpus * records),
            branches: region.array("branch", branches),
            records_a_cpu: records as u32,
            in_lock_ns: 0,
            in_beside_ns: 0,
        }
    }

    /// The same, with work under the lock that covers a file, and under each beside it.
    pub fn working(self, in_lock_ns: u64, in_beside_ns: u64) -> Self {
        FileLocks { in_lock_ns, in_beside_ns, ..self }
    }

    /// Sets, changes or removes locks of the owner, or waits until it can; how often it waited.
    pub fn set<M: Machine>(&self, m: &M, file: usize, range: Range) -> Result<u32, Refused> {
        let start = m.history_mark();
        let mut outcome = self.attempt(m, file, range, true);
        let mut waits = 0;
        loop {
            match outcome {
                Outcome::Granted => return Ok(waits),
                Outcome::Refused(why) => return Err(why),
                Outcome::Waits(waiting) => {
                    m.forget_history(start, waiting.0.into());
                    waits += 1;
                    self.sleep(m, waiting);
                    outcome = self.again(m, file, range, waiting);
                }
            }
        }
    }

    /// The same, but never waits.
    pub fn try_set<M: Machine>(&self, m: &M, file: usize, range: Range) -> Result<(), Refused> {
        match self.attempt(m, file, range, false) {
            Outcome::Granted => Ok(()),
            Outcome::Refused(why) => Err(why),
            Outcome::Waits(_) => unreachable!("it was not asked to wait"),
        }
    }

    /// Tries once. Where it waits, the request stands in the file's queue.
    pub fn attempt<M: Machine>(&self, m: &M, file: usize, range: Range, wait: bool) -> Outcome {
        let start = m.history_mark();
        let hold = self.lock_file(m, file);
        m.forget_history(start, hold.0.into());
        let outcome = self.attempt_locked(m, file, range, wait);
        m.forget_history(start, digest([hold.0.into(), outcome.live()]));
        self.unlock_file(m, file, hold);
        m.forget_history(start, outcome.live());
        outcome
    }

    /// Takes a request that waited out of the queue, and tries once more.
    pub fn again<M: Machine>(&self, m: &M, file: usize, range: Range, waiting: Waiting) -> Outcome {
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

    /// Gives up waiting, as at a signal.
    pub fn give_up<M: Machine>(&self, m: &M, file: usize, waiting: Waiting) {
        let hold = self.lock_file(m, file);
        self.stop_waiting(m, file, waiting.0);
        self.unlock_file(m, file, hold);
    }

    /// Whether a request that waits should look again.
    pub fn is_woken<M: Machine>(&self, m: &M, waiting: Waiting) -> bool {
        // Relaxed: as in `sleep`.
        self.record(waiting.0).woken.load(m, Ordering::Relaxed) != 0
    }

    /// Sleeps until something has changed.
    fn sleep<M: Machine>(&self, m: &M, waiting: Waiting) {
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

    /// The owner closes the file: all its locks go. The end of an open file for `Flock` and
    /// `OpenFile`; any close of a `Process`.
    pub fn close<M: Machine>(&self, m: &M, file: usize, owner: Owner) {
        let all = Range { owner, kind: Kind::Unlock, start: 0, end: TO_THE_END };
        let done = self.try_set(m, file, all);
        assert_eq!(done, Ok(()), "to unlock everything needs no record");
    }

    fn attempt_locked<M: Machine>(&self, m: &M, file: usize, range: Range, wait: bool) -> Outcome {
        if let Owner::Flock(_) = range.owner
            && self.has_flock(m, file, range)
        {
            return Outcome::Granted;
        }
        if range.kind != Kind::Unlock
            && let Some(obstacle) = self.obstacle(m, file, range)
        {
            if !wait {
                return Outcome::Refused(Refused::Again);
            }
            return self.begin_to_wait(m, file, range, obstacle);
        }
        let granted = match range.owner {
            Owner::Flock(_) => self.set_flock(m, file, range),
            Owner::Process(_) | Owner::OpenFile(_) => self.set_range(m, file, range),
        };
        granted.map_or_else(Outcome::Refused, |()| Outcome::Granted)
    }

    /// The first record in the way of this range.
    fn obstacle<M: Machine>(&self, m: &M, file: usize, range: Range) -> Option<u32> {
        if self.has_tree(range.owner) {
            return self.obstacle_in_tree(m, file, range);
        }
        let mut at = self.list_of(file, range.owner).get(m);
        while at != 0 {
            let record = self.record(at);
            if in_the_way(self.range(m, at), range) {
                return Some(at);
            }
            at = record.next.get(m);
        }
        None
    }

    /// Whether locks of this owner lie in a tree, too.
    fn has_tree(&self, owner: Owner) -> bool {
        self.design.ranges == Ranges::Tree && !matches!(owner, Owner::Flock(_))
    }

    fn list_of(&self, file: usize, owner: Owner) -> &Field<u32> {
        match owner {
            Owner::Flock(_) => &self.files[file].flock,
            _ => &self.files[file].posix,
        }
    }

    fn record(&self, name: u32) -> &Record {
        &self.records[name as usize - 1]
    }

    fn range<M: Machine>(&self, m: &M, name: u32) -> Range {
        let record = self.record(name);
        let kind = if record.kind.get(m) == 0 { Kind::Read } else { Kind::Write };
        let owner = owner_of(record.owner.get(m));
        Range { owner, kind, start: record.start.get(m), end: record.end.get(m) }
    }

    // Locks.

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

    /// The lock of everything.
    fn global(&self) -> &L::Mem {
        match self.design.layout {
            Layout::Apart => &self.global[0],
            Layout::Together => &self.held[0].lock,
        }
    }

    fn locks_all(&self) -> bool {
        self.design.locking == Locking::Global
    }

    /// Locks what lies beside the files, unless the global lock covers it.
    fn lock_beside<M: Machine>(&self, m: &M, at: &L::Mem) -> Option<Hold> {
        match self.design.locking {
            Locking::Global => None,
            Locking::PerFile => {
                let hold = self.lock.lock(m, at);
                m.work(self.in_beside_ns);
                Some(hold)
            }
        }
    }

    fn unlock_beside<M: Machine>(&self, m: &M, at: &L::Mem, hold: Option<Hold>) {
        if let Some(hold) = hold {
            self.lock.unlock(m, at, hold);
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
            if taken == self.records_a_cpu {
                return Err(Refused::NoRecords);
            }
            pool.taken.set(m, taken + 1);
            name = m.cpu() as u32 * self.records_a_cpu + taken + 1;
        }
        let record = self.record(name);
        record.owner.set(m, code_of(range.owner));
        record.kind.set(m, u32::from(range.kind == Kind::Write));
        record.start.set(m, range.start);
        record.end.set(m, range.end);
        m.forget_history(start, name.into());
        Ok(name)
    }

    /// Gives a record that nobody has to the pool of this CPU, which from now on has only such.
    fn bring<M: Machine>(&self, m: &M, name: u32) {
        let pool = &self.pools[m.cpu()];
        pool.taken.set(m, self.records_a_cpu);
        self.record(name).next.set(m, pool.first.get(m));
        pool.first.set(m, name);
    }

    /// Gives a record to the pool of this CPU, whichever it came from.
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

/// Whether a granted range is in the way of another.
fn in_the_way(granted: Range, asked: Range) -> bool {
    granted.owner != asked.owner
        && granted.start <= asked.end
        && asked.start <= granted.end
        && (granted.kind == Kind::Write || asked.kind == Kind::Write)
}

/// Owners as one number, never 0.
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
