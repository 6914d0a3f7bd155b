//! Write faults on a file whose file system keeps a journal, in the journals of three file systems.
//! A fault finds the page, marks it dirty, and now and then tells the journal.
//!
//!     handle:       none ──start: joins, with its credits──> open ──stop──> none
//!     transaction:  running ──(full: one closes it)──> locked ──(no handle is open)──> written
//!                      ▲                                                                  │
//!                      └────────────────────────── the next one ──────────────────────────┘
//!
//! A fault takes the lock of the mapping, finds its page, marks it and lets go; one in so many
//! also changes what the journal must log (a time stamp, a block). Its handle joins the running
//! transaction with credits for what it may log, which must not exceed what the journal can
//! take at once. Whoever finds no credits left closes the transaction: nobody joins it any
//! more, and when the handles in it have stopped it is written and the next one runs.
//!
//! Designs: where a handle joins and leaves (under one lock, as jbd did; under the read side
//! of a lock with counters that are added to atomically, as jbd2 does; with counters alone, as
//! XFS reserves space), and what a stop does with what it logged (nothing beside; or lists it
//! under one lock for all, as XFS's committed items; or on its CPU).
//!
//! Invariants: credits never exceed the transaction; who writes a transaction finds no handle
//! open in it, and all that they logged; no change is lost.
//!
//! A fault logs by chance, or because the clock has ticked: time stamps change for all tasks at
//! once, and so all of them come to the journal at once.
//!
//! Differs from Linux: what is logged is counted, not kept; credits that a handle did not need
//! are not given back; who finds the transaction full writes it, where Linux wakes a thread; XFS's
//! reservation waits here for a transaction as a whole. Counters are atomic under the one lock too.
//!
//! Linux fs/jbd/transaction.c of 3.x (start_this_handle under j_state_lock), by Stephen Tweedie,
//! 1998; fs/jbd2/transaction.c since 2.6.36 (jbd2: Change j_state_lock to be a rwlock_t, jbd2: Use
//! atomic variables to avoid taking t_handle_lock in jbd2_journal_stop, both by Theodore Ts'o,
//! 2010); fs/xfs/xfs_log.c (xfs: make AIL tail pushing independent of the grant lock, xfs:
//! convert l_reserve_head to an atomic, by Dave Chinner, 2010) and xfs_log_cil.c.

use machine::{Array, Atom, Field, Image, Line, Machine, Ordering, Region, Until, image};

use super::{Mechanism, Setting, Settings};
use crate::locks::queued_read_write::{QueuedReadWrite, QueuedReadWriteMem};
use crate::{Equivalent, Hold, Lock, Shape, SharedLock, digest};

/// How the journal is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// How a handle joins the running transaction.
    pub join: Join,
    /// What a stop does with what was logged.
    pub list: List,
}

/// How a handle joins the running transaction, and leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// Under one lock, both.
    OneLock,
    /// Under the read side of a lock; leaves by a counter.
    ReadSide,
    /// By counters alone.
    Counters,
}

/// What a stop does with what was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Nothing but to count it, on its CPU.
    PerCpu,
    /// It lists it under one lock.
    OneLock,
}

impl Design {
    /// As in ext3.
    pub const ONE_LOCK: Design = Design { join: Join::OneLock, list: List::PerCpu };
    /// As in ext4.
    pub const READ_SIDE: Design = Design { join: Join::ReadSide, list: List::PerCpu };
    /// As in XFS up to 5.19.
    pub const COUNTERS: Design = Design { join: Join::Counters, list: List::OneLock };
}

image! {
    /// The journal. The words that all handles write to are on lines of their own.
    struct Journal<L: Image> {
        lock: Line<L>,
        state: Line<QueuedReadWriteMem>,
        /// Which transaction runs; what guards joining guards it and the next.
        sequence: Line<Field<u32>>,
        /// 1 while the transaction is locked: nobody joins.
        locked: Line<Atom<u32>>,
        /// Credits in use.
        credits: Line<Atom<u32>>,
        /// Handles that are open.
        updates: Line<Atom<u32>>,
        /// The lock of the list, and what is listed.
        list: Line<Logged<L>>,
        /// The clock that time stamps are of: counted by the first task, read by all.
        tick: Line<Atom<u32>>,
        /// What was written in all. Only who writes uses it.
        written: Line<Field<u64>>,
    }

    /// What was logged and not written.
    struct Logged<L: Image> {
        lock: L,
        changes: Field<u64>,
    }

    /// Of one CPU.
    struct Cpu {
        /// What it logged and nobody has written, where that is counted on each CPU.
        changes: Field<u64>,
        /// Whether it has a handle open, and in which transaction. Who writes looks.
        open: Field<u32>,
        /// What it logged in all.
        logged: Field<u64>,
    }

    /// A mapping and what guards its pages.
    struct Mapping<L: Image> {
        lock: L,
        dirty: Field<u64>,
    }
}

const FULL_BARRIER: &str = "what it orders beside are atomic accesses, for which every \
                            read-modify-write is a full barrier, here and on x86";

/// Mappings and their journal.
#[derive(Debug)]
pub struct FaultPath<L: Lock> {
    design: Design,
    limit: u32,
    credits: u32,
    log_one_in: u32,
    tick_faults: u32,
    fault_ns: u64,
    in_mapping_ns: u64,
    in_handle_ns: u64,
    in_lock_ns: u64,
    write_ns: u64,
    lock: L,
    state: QueuedReadWrite,
    journal: Array<Journal<L::Mem>>,
    cpus: Array<Line<Cpu>>,
    mappings: Array<Line<Mapping<L::Mem>>>,
}

/// What a task has done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    task: usize,
    /// Its faults, and the tick of its last time stamp, where ticks count.
    faults: u32,
    stamped: u32,
    handles: u64,
    commits: u64,
}

impl<L: Lock> Mechanism for FaultPath<L> {
    const NAME: &'static str = "fault_path";
    type Design = Design;
    type Task = Faults;
    const OPERATION: &'static str = "one write fault, with a handle where it logs";
    const TASKS_SHARE_CPUS: bool = true;
    const DESIGNS: &'static [(&'static str, Design)] = &[
        ("one-lock", Design::ONE_LOCK),
        ("one-lock+list", Design { list: List::OneLock, ..Design::ONE_LOCK }),
        ("read-side", Design::READ_SIDE),
        ("read-side+list", Design { list: List::OneLock, ..Design::READ_SIDE }),
        ("counters", Design { list: List::PerCpu, ..Design::COUNTERS }),
        ("counters+list", Design::COUNTERS),
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "mappings",
            about: "files that are mapped: tasks take theirs in turn",
            default: 4096,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "log_one_in",
            about: "faults of which one tells the journal",
            default: 1,
            min: 1,
            max: 1_000_000,
            searched: 1,
        },
        Setting {
            name: "tick_faults",
            about: "faults of the first task after which the clock ticks; then the first fault of each \
                    task after a tick is one that tells the journal, and no other; 0: by chance",
            default: 0,
            min: 0,
            max: 1_000_000,
            searched: 0,
        },
        Setting {
            name: "credits",
            about: "credits of a handle, at most: it takes one to so many",
            default: 8,
            min: 1,
            max: 1024,
            searched: 2,
        },
        Setting {
            name: "limit_credits",
            about: "credits of a transaction; at least those of a handle",
            default: 65536,
            min: 1,
            max: 1 << 30,
            searched: 2,
        },
        Setting::time("fault_ns", "work of a fault outside of all locks, in ns", 0),
        Setting::time("in_mapping_ns", "work under the lock of the mapping, in ns", 0),
        Setting::time("in_handle_ns", "work with the handle open, in ns", 0),
        Setting::time("in_lock_ns", "work under the lock of the journal or its list, in ns", 0),
        Setting::time("write_ns", "work to write a transaction, in ns", 0),
    ];
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no wait", line: "m.await_until(&journal.locked", why: "it looks again, more often" },
        Equivalent { change: "no acquire", line: "journal.updates.fetch_add(m, 1, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "journal.updates.fetch_add(m, 1, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "relaxed", line: "journal.updates.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "journal.locked.swap(m, 1,", why: FULL_BARRIER },
        Equivalent { change: "off by one", line: "journal.locked.swap(m, 1,", why: "every value but 0 says locked" },
        Equivalent { change: "skipped", line: "journal.sequence.set(m,", why: "it is there for the check that a handle stays in its transaction" },
    ];

    fn bytes(tasks: usize, settings: &Settings) -> usize {
        (64 << 10) + tasks * 2048 + settings.get("mappings") as usize * 128
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let number = |name: &str| settings.get(name) as u32;
        let mappings = tasks.min(number("mappings") as usize);
        let credits = number("credits");
        FaultPath {
            design,
            limit: number("limit_credits").max(credits),
            credits,
            log_one_in: number("log_one_in"),
            tick_faults: number("tick_faults"),
            fault_ns: settings.get("fault_ns"),
            in_mapping_ns: settings.get("in_mapping_ns"),
            in_handle_ns: settings.get("in_handle_ns"),
            in_lock_ns: settings.get("in_lock_ns"),
            write_ns: settings.get("write_ns"),
            lock: L::new(region, Shape { cpus: tasks, locks: mappings + 2 }),
            state: QueuedReadWrite::new(region, Shape { cpus: tasks, locks: 1 }),
            journal: region.array("journal", 1),
            cpus: region.per_cpu("cpu", tasks),
            mappings: region.array("mapping", mappings),
        }
    }

    fn start<M: Machine>(&self, _: &M, task: usize) -> Faults {
        Faults { task, ..Faults::default() }
    }

    fn operate<M: Machine>(&self, m: &M, faults: &mut Faults) {
        let begin = m.history_mark();
        m.work(self.fault_ns);
        let mapping = &self.mappings[faults.task % self.mappings.len()];
        let hold = self.lock.lock(m, &mapping.lock);
        m.work(self.in_mapping_ns);
        mapping.dirty.set(m, mapping.dirty.get(m) + 1);
        self.lock.unlock(m, &mapping.lock, hold);
        m.forget_history(begin, 0);
        if self.logs(m, faults) {
            self.start_handle(m, faults);
            m.forget_history(begin, 1);
            m.work(self.in_handle_ns);
            self.log(m);
            m.forget_history(begin, 2);
            self.stop_handle(m);
            faults.handles += 1;
        }
        m.forget_history(begin, 0);
    }

    fn live(faults: &Faults) -> u64 {
        digest([faults.faults.into(), faults.stamped.into()])
    }

    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String> {
        let dirty: u64 = self.mappings.iter().map(|mapping| mapping.dirty.get(m)).sum();
        if dirty != operations {
            return Err(format!("{operations} faults, of which {dirty} marked their page"));
        }
        let journal = &self.journal[0];
        if journal.updates.load(m, Ordering::Relaxed) != 0 {
            return Err("a handle is open still".to_string());
        }
        self.write(m);
        let logged: u64 = self.cpus.iter().map(|cpu| cpu.logged.get(m)).sum();
        let written = journal.written.get(m);
        if logged != written {
            return Err(format!("{logged} changes were logged, {written} were written"));
        }
        let at_rest = self.lock.at_rest(m, &journal.lock)
            && self.lock.at_rest(m, &journal.list.lock)
            && self.state.at_rest(m, &journal.state)
            && self.mappings.iter().all(|mapping| self.lock.at_rest(m, &mapping.lock));
        if at_rest { Ok(()) } else { Err("some lock is still in use".to_string()) }
    }

    fn effects(faults: &Faults) -> Vec<(&'static str, u64)> {
        vec![("handles", faults.handles), ("commits", faults.commits)]
    }
}

/// What guards joining, held.
enum Joining {
    Lock(Hold),
    Read(Hold),
    Nothing,
}

impl<L: Lock> FaultPath<L> {
    /// Whether a fault tells the journal: by chance, or where its time stamp is another one than
    /// that of the fault before (file_update_time), which it is for all tasks at once.
    fn logs<M: Machine>(&self, m: &M, faults: &mut Faults) -> bool {
        if self.tick_faults == 0 {
            return m.chance(self.log_one_in);
        }
        let tick = &self.journal[0].tick;
        faults.faults = (faults.faults + 1) % self.tick_faults;
        if faults.task == 0 && faults.faults == 0 {
            // Relaxed, as below: a number.
            tick.fetch_add(m, 1, Ordering::Relaxed);
        }
        let now = tick.load(m, Ordering::Relaxed);
        std::mem::replace(&mut faults.stamped, now) != now
    }

    /// None -> open: joins the running transaction, or the next one (start_this_handle).
    fn start_handle<M: Machine>(&self, m: &M, faults: &mut Faults) {
        let start = m.history_mark();
        let journal = &self.journal[0];
        let credits = 1 + m.random(self.credits);
        loop {
            m.forget_history(start, credits.into());
            // Relaxed: it is looked at again. Who waits here holds nothing.
            m.await_until(&journal.locked, Until::equals(0), Ordering::Relaxed);
            m.forget_history(start, credits.into());
            let joining = self.begin_to_join(m);
            m.forget_history(start, digest([credits.into(), joining.live()]));
            // Before the look at `locked`, by a full barrier: either whoever locks the
            // transaction sees us, or we see that it is locked.
            journal.updates.fetch_add(m, 1, Ordering::AcqRel);
            // Pairs with the release in `write`: what was written is not ours to touch.
            let locked = journal.locked.load(m, Ordering::Acquire) != 0;
            m.forget_history(start, digest([credits.into(), joining.live(), locked.into()]));
            let full = !locked && !self.take_credits(m, credits);
            if !locked && !full {
                // The transaction cannot be written before we leave it.
                self.cpus[m.cpu()].open.set(m, journal.sequence.get(m) + 1);
                return self.joined(m, joining);
            }
            m.forget_history(start, digest([credits.into(), joining.live(), full.into()]));
            // Release: our credits are given back. Pairs with the wait in `commit`.
            journal.updates.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release);
            self.joined(m, joining);
            m.forget_history(start, digest([credits.into(), full.into()]));
            if full {
                faults.commits += u64::from(self.commit(m));
            }
        }
    }

    /// Takes the credits of a handle, unless there are too few.
    fn take_credits<M: Machine>(&self, m: &M, wanted: u32) -> bool {
        let credits = &self.journal[0].credits;
        // Relaxed: a number. Whoever writes the transaction waits for `updates`.
        if credits.fetch_add(m, wanted, Ordering::Relaxed) + wanted > self.limit {
            credits.fetch_add(m, wanted.wrapping_neg(), Ordering::Relaxed);
            return false;
        }
        true
    }

    fn begin_to_join<M: Machine>(&self, m: &M) -> Joining {
        let journal = &self.journal[0];
        match self.design.join {
            Join::OneLock => {
                let hold = self.lock.lock(m, &journal.lock);
                m.work(self.in_lock_ns);
                Joining::Lock(hold)
            }
            Join::ReadSide => Joining::Read(self.state.read_lock(m, &journal.state)),
            Join::Counters => Joining::Nothing,
        }
    }

    fn joined<M: Machine>(&self, m: &M, joining: Joining) {
        let journal = &self.journal[0];
        match joining {
            Joining::Lock(hold) => self.lock.unlock(m, &journal.lock, hold),
            Joining::Read(hold) => self.state.read_unlock(m, &journal.state, hold),
            Joining::Nothing => {}
        }
    }

    /// Logs a change, with the handle open.
    fn log<M: Machine>(&self, m: &M) {
        let cpu = &self.cpus[m.cpu()];
        let sequence = self.journal[0].sequence.get(m);
        assert_eq!(cpu.open.get(m), sequence + 1, "the transaction of an open handle has ended");
        cpu.logged.set(m, cpu.logged.get(m) + 1);
        match self.design.list {
            List::PerCpu => cpu.changes.set(m, cpu.changes.get(m) + 1),
            List::OneLock => {
                let list = &self.journal[0].list;
                let hold = self.lock.lock(m, &list.lock);
                m.work(self.in_lock_ns);
                list.changes.set(m, list.changes.get(m) + 1);
                self.lock.unlock(m, &list.lock, hold);
            }
        }
    }

    /// Open -> none (jbd2_journal_stop).
    fn stop_handle<M: Machine>(&self, m: &M) {
        let start = m.history_mark();
        let journal = &self.journal[0];
        self.cpus[m.cpu()].open.set(m, 0);
        let joining = match self.design.join {
            Join::OneLock => self.begin_to_join(m),
            Join::ReadSide | Join::Counters => Joining::Nothing,
        };
        m.forget_history(start, joining.live());
        // Release: what we logged is there. Pairs with the wait in `commit`.
        journal.updates.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release);
        m.forget_history(start, joining.live());
        self.joined(m, joining);
        m.forget_history(start, 0);
    }

    /// Running -> locked -> written, and the next one runs (jbd2_journal_commit_transaction).
    /// Whether it was us who did it.
    fn commit<M: Machine>(&self, m: &M) -> bool {
        let start = m.history_mark();
        let journal = &self.journal[0];
        // Running -> locked, by a full barrier before the look at `updates`. Acquire: the last
        // one was written. Pairs with the release in `write`.
        if journal.locked.swap(m, 1, Ordering::AcqRel) != 0 {
            return false;
        }
        m.forget_history(start, 0);
        // Pairs with the releases of those who leave.
        m.await_until(&journal.updates, Until::equals(0), Ordering::Acquire);
        m.forget_history(start, 0);
        self.write(m);
        m.forget_history(start, 0);
        true
    }

    /// Locked -> written -> the next one runs. No handle is open, and none joins.
    fn write<M: Machine>(&self, m: &M) {
        let journal = &self.journal[0];
        let mut changes = journal.list.changes.get(m);
        journal.list.changes.set(m, 0);
        for cpu in self.cpus.iter() {
            assert_eq!(cpu.open.get(m), 0, "a transaction is written with a handle open");
            changes += cpu.changes.get(m);
            cpu.changes.set(m, 0);
        }
        // Relaxed: nobody else has credits.
        let credits = journal.credits.load(m, Ordering::Relaxed);
        assert!(credits <= self.limit, "a transaction has more credits than it can have");
        assert!(changes <= u64::from(credits), "more than credited");
        m.work(self.write_ns);
        journal.written.set(m, journal.written.get(m) + changes);
        journal.credits.store(m, 0, Ordering::Relaxed);
        journal.sequence.set(m, journal.sequence.get(m) + 1);
        // Locked -> running. Pairs with the acquires in `start_handle` and `commit`.
        journal.locked.store(m, 0, Ordering::Release);
    }
}

impl Joining {
    fn live(&self) -> u64 {
        match self {
            Joining::Lock(hold) => u64::from(hold.0) + 1,
            Joining::Read(hold) => u64::from(hold.0) + 1,
            Joining::Nothing => 0,
        }
    }
}
