//! Write faults on a file in a journaling file system, with the journals of three file systems.
//! A fault finds the page, marks it dirty, and sometimes logs a change to the journal.
//!
//!     handle:       none ──start: joins, with its credits──> open ──stop──> none
//!     transaction:  running ──(full: a task closes it)──> locked ──(no handle is open)──> written
//!                      ▲                                                                    │
//!                      └─────────────────────── the next transaction ───────────────────────┘
//!
//! A fault takes the lock of the mapping, finds its page, marks it dirty and releases the lock. One
//! fault in `log_one_in` also changes what the journal must log (a time stamp, a block). Its
//! handle joins the running transaction with credits for what it may log. The credits of all
//! handles must not exceed what one transaction can hold. A task that finds too few credits left
//! closes the transaction: no handle joins it any more. When all handles in it have stopped, the
//! task writes the transaction and the next one runs.
//!
//! Designs: how a handle joins and leaves the transaction (under one lock, as in jbd; under the
//! read side of a lock, with atomic counters, as in jbd2; with atomic counters alone, as XFS
//! reserves space), and where a change is logged (counted on the CPU, or in one list under one lock,
//! as XFS's committed items).
//!
//! Invariants: credits never exceed the transaction's limit; a transaction is written when no handle
//! is open in it, with all that its handles logged; no change is lost.
//!
//! A fault logs at random, or because the clock has ticked: a tick changes the time stamp for all
//! tasks, so all of them come to the journal at the same time.
//!
//! Counted on Linux 6.18 by the tracepoints page_fault_user, jbd2_handle_start and xfs_trans_alloc, one task that writes
//! 128 MiB of a file through a shared mapping: ext4, ext3 (by ext4's driver) and XFS log once a tick of 4 ms, whether
//! or not the file had blocks. That was one fault in 30 to 600, since large folios leave 256 to 6500 faults for 65536 pages.
//! A handle of ext4 asks for 3 credits, the default here. `tick_faults` stands for this kernel; `log_one_in=1`, the
//! default, for a file system that logs at each fault.
//!
//! Differs from Linux: changes are counted, not kept; unused credits of a handle are not given
//! back; the task that finds the transaction full writes it, where Linux wakes a thread; a
//! reservation as in XFS waits for the transaction as a whole. Counters are atomic even under the
//! one lock.
//!
//! Linux fs/jbd/transaction.c of 3.x (start_this_handle under j_state_lock), by Stephen Tweedie,
//! 1998; fs/jbd2/transaction.c since 2.6.36 (jbd2: Change j_state_lock to be a rwlock_t, jbd2: Use
//! atomic variables to avoid taking t_handle_lock in jbd2_journal_stop, both by Theodore Ts'o,
//! 2010); fs/xfs/xfs_log.c (xfs: make AIL tail pushing independent of the grant lock, xfs:
//! convert l_reserve_head to an atomic, by Dave Chinner, 2010) and xfs_log_cil.c.

use machine::{Array, Atom, Field, Image, Line, Machine, Ordering, Region, Until, image};

use super::{Mechanism, Setting, Settings};
use crate::locks::queued_read_write::{QueuedReadWrite, QueuedReadWriteMem};
use crate::{Equivalent, FULL_BARRIER, Hold, Lock, Shape, SharedLock, digest};

/// The design of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// How a handle joins the running transaction.
    pub join: Join,
    /// Where a change is logged.
    pub list: List,
}

/// How a handle joins and leaves the running transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// It does both under one lock.
    OneLock,
    /// It joins under the read side of a lock and leaves by an atomic counter.
    ReadSide,
    /// It does both by atomic counters alone.
    Counters,
}

/// Where a change is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// In a counter of the CPU.
    PerCpu,
    /// In one list, under one lock.
    OneLock,
}

impl Design {
    /// The design of ext3.
    pub const ONE_LOCK: Design = Design { join: Join::OneLock, list: List::PerCpu };
    /// The design of ext4.
    pub const READ_SIDE: Design = Design { join: Join::ReadSide, list: List::PerCpu };
    /// The design of XFS up to Linux 5.19.
    pub const COUNTERS: Design = Design { join: Join::Counters, list: List::OneLock };
}

image! {
    /// The journal. Each word that all handles write has a cache line of its own.
    struct Journal<L: Image> {
        lock: Line<L>,
        state: Line<QueuedReadWriteMem>,
        /// The number of the running transaction. It changes only while no handle is open.
        sequence: Line<Field<u32>>,
        /// 1 while the transaction is locked: no handle joins.
        locked: Line<Atom<u32>>,
        /// Credits in use.
        credits: Line<Atom<u32>>,
        /// Number of open handles.
        updates: Line<Atom<u32>>,
        /// The list of changes and its lock.
        list: Line<ChangeList<L>>,
        /// The clock of time stamps: advanced by the first task, read by all.
        tick: Line<Atom<u32>>,
        /// Changes written in all. Only the task that writes the transaction uses it.
        written: Line<Field<u64>>,
    }

    /// Changes that were logged and not yet written.
    struct ChangeList<L: Image> {
        lock: L,
        changes: Field<u64>,
    }

    /// What the journal keeps for one CPU.
    struct JournalCpu {
        /// Changes logged here and not yet written, if each CPU counts them.
        changes: Field<u64>,
        /// The transaction of the CPU's open handle, plus one; 0: none. Read when the transaction
        /// is written.
        open: Field<u32>,
        /// Changes logged in all.
        logged: Field<u64>,
    }

    /// A mapping and the lock that guards its pages.
    struct Mapping<L: Image> {
        lock: L,
        dirty: Field<u64>,
    }
}

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
    cpus: Array<Line<JournalCpu>>,
    mappings: Array<Line<Mapping<L::Mem>>>,
}

/// A task that faults.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faulter {
    task: usize,
    /// The task's faults modulo `tick_faults`, if the clock ticks.
    faults: u32,
    /// The tick of the task's last time stamp.
    stamped: u32,
    handles: u64,
    commits: u64,
}

impl<L: Lock> Mechanism for FaultPath<L> {
    const NAME: &'static str = "fault_path";
    type Design = Design;
    type Task = Faulter;
    const OPERATION: &'static str = "one write fault, with a handle if it logs";
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
            about: "mapped files; task i faults on file i modulo this number",
            default: 4096,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "log_one_in",
            about: "one fault in this many logs to the journal",
            default: 1,
            min: 1,
            max: 1_000_000,
            searched: 1,
        },
        Setting {
            name: "tick_faults",
            about: "faults of the first task after which the clock ticks: only the first fault of each \
                    task after a tick logs to the journal; 0: faults log at random",
            default: 0,
            min: 0,
            max: 1_000_000,
            searched: 0,
        },
        Setting {
            name: "credits",
            about: "most credits of a handle, which takes a random number of them, at least one",
            default: 3,
            min: 1,
            max: 1024,
            searched: 2,
        },
        Setting {
            name: "limit_credits",
            about: "credits of a transaction; no fewer than `credits`",
            default: 65536,
            min: 1,
            max: 1 << 30,
            searched: 2,
        },
        Setting::time("fault_ns", "work of a fault outside all locks, in ns", 0),
        Setting::time("in_mapping_ns", "work under the lock of the mapping, in ns", 0),
        Setting::time("in_handle_ns", "work with an open handle, in ns", 0),
        Setting::time("in_lock_ns", "work under the lock of the journal or its list, in ns", 0),
        Setting::time("write_ns", "work to write a transaction, in ns", 0),
    ];
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no wait", line: "m.await_until(&journal.locked", why: "it checks again, more often" },
        Equivalent { change: "no acquire", line: "journal.updates.fetch_add(m, 1, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "journal.updates.fetch_add(m, 1, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "relaxed", line: "journal.updates.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "journal.locked.swap(m, 1,", why: FULL_BARRIER },
        Equivalent { change: "off by one", line: "journal.locked.swap(m, 1,", why: "every value but 0 means locked" },
        Equivalent { change: "skipped", line: "journal.sequence.set(m,", why: "it only serves the check that a handle stays in its transaction" },
    ];

    fn bytes(_: &Design, tasks: usize, settings: &Settings) -> usize {
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
            lock: L::new(region, Shape::new(tasks, mappings + 2)),
            state: QueuedReadWrite::new(region, Shape::new(tasks, 1)),
            journal: region.array("journal", 1),
            cpus: region.per_cpu("cpu", tasks),
            mappings: region.array("mapping", mappings),
        }
    }

    fn start<M: Machine>(&self, _: &M, task: usize) -> Faulter {
        Faulter { task, ..Faulter::default() }
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut Faulter) {
        let begin = m.history_mark();
        m.work(self.fault_ns);
        let mapping = &self.mappings[task.task % self.mappings.len()];
        let hold = self.lock.lock(m, &mapping.lock);
        m.work(self.in_mapping_ns);
        mapping.dirty.set(m, mapping.dirty.get(m) + 1);
        self.lock.unlock(m, &mapping.lock, hold);
        m.forget_history(begin, 0);
        if self.must_log(m, task) {
            self.start_handle(m, task);
            m.forget_history(begin, 1);
            m.work(self.in_handle_ns);
            self.log(m);
            m.forget_history(begin, 2);
            self.stop_handle(m);
            task.handles += 1;
        }
        m.forget_history(begin, 0);
    }

    fn live(task: &Faulter) -> u64 {
        digest([task.faults.into(), task.stamped.into()])
    }

    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String> {
        let dirty: u64 = self.mappings.iter().map(|mapping| mapping.dirty.get(m)).sum();
        if dirty != operations {
            return Err(format!("{dirty} of {operations} faults marked their page"));
        }
        let journal = &self.journal[0];
        if journal.updates.load(m, Ordering::Relaxed) != 0 {
            return Err("a handle is still open".to_string());
        }
        self.write(m);
        let logged: u64 = self.cpus.iter().map(|cpu| cpu.logged.get(m)).sum();
        let written = journal.written.get(m);
        if logged != written {
            return Err(format!("{logged} changes were logged, but {written} were written"));
        }
        let at_rest = self.lock.at_rest(m, &journal.lock)
            && self.lock.at_rest(m, &journal.list.lock)
            && self.state.at_rest(m, &journal.state)
            && self.mappings.iter().all(|mapping| self.lock.at_rest(m, &mapping.lock));
        if at_rest { Ok(()) } else { Err("a lock is still in use".to_string()) }
    }

    fn effects(task: &Faulter) -> Vec<(&'static str, u64)> {
        vec![("handles", task.handles), ("commits", task.commits)]
    }
}

/// What a task holds while its handle joins or leaves the transaction.
enum Joining {
    Lock(Hold),
    Read(Hold),
    Nothing,
}

impl<L: Lock> FaultPath<L> {
    /// Whether a fault logs to the journal: at random, or if its time stamp differs from that of
    /// the task's last fault (file_update_time). After a tick it differs for all tasks.
    fn must_log<M: Machine>(&self, m: &M, task: &mut Faulter) -> bool {
        if self.tick_faults == 0 {
            return m.chance(self.log_one_in);
        }
        let tick = &self.journal[0].tick;
        task.faults = (task.faults + 1) % self.tick_faults;
        if task.task == 0 && task.faults == 0 {
            // Relaxed, as below: a number that orders nothing.
            tick.fetch_add(m, 1, Ordering::Relaxed);
        }
        let now = tick.load(m, Ordering::Relaxed);
        std::mem::replace(&mut task.stamped, now) != now
    }

    /// None -> open: joins the running transaction, or the next one (start_this_handle).
    fn start_handle<M: Machine>(&self, m: &M, task: &mut Faulter) {
        let start = m.history_mark();
        let journal = &self.journal[0];
        let credits = 1 + m.random(self.credits);
        loop {
            m.forget_history(start, credits.into());
            // Relaxed: it is checked again below. A task that waits here holds nothing.
            m.await_until(&journal.locked, Until::equals(0), Ordering::Relaxed);
            m.forget_history(start, credits.into());
            let joining = self.begin_to_join(m);
            m.forget_history(start, digest([credits.into(), joining.live()]));
            // Before the load of `locked`, by a full barrier: either the task that locks the
            // transaction sees us, or we see that it is locked.
            journal.updates.fetch_add(m, 1, Ordering::AcqRel);
            // Pairs with the release in `write`: the last transaction is written.
            let locked = journal.locked.load(m, Ordering::Acquire) != 0;
            m.forget_history(start, digest([credits.into(), joining.live(), locked.into()]));
            let full = !locked && !self.take_credits(m, credits);
            if !locked && !full {
                // The transaction cannot be written before we leave it.
                self.cpus[m.cpu()].open.set(m, journal.sequence.get(m) + 1);
                return self.joined(m, joining);
            }
            m.forget_history(start, digest([credits.into(), joining.live(), full.into()]));
            // Release: we have given back our credits. Pairs with the wait in `commit`.
            journal.updates.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release);
            self.joined(m, joining);
            m.forget_history(start, digest([credits.into(), full.into()]));
            if full {
                task.commits += u64::from(self.commit(m));
            }
        }
    }

    /// Takes the credits of a handle; fails if too few are left.
    fn take_credits<M: Machine>(&self, m: &M, wanted: u32) -> bool {
        let credits = &self.journal[0].credits;
        // Relaxed: a number. The task that writes the transaction waits for `updates`.
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

    /// Logs a change under an open handle.
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
        // Release: publishes what we logged. Pairs with the wait in `commit`.
        journal.updates.fetch_add(m, 1_u32.wrapping_neg(), Ordering::Release);
        m.forget_history(start, joining.live());
        self.joined(m, joining);
        m.forget_history(start, 0);
    }

    /// Running -> locked -> written, and the next transaction runs
    /// (jbd2_journal_commit_transaction). False if another task does it.
    fn commit<M: Machine>(&self, m: &M) -> bool {
        let start = m.history_mark();
        let journal = &self.journal[0];
        // Running -> locked, by a full barrier before the load of `updates`. Acquire: the last
        // transaction is written. Pairs with the release in `write`.
        if journal.locked.swap(m, 1, Ordering::AcqRel) != 0 {
            return false;
        }
        m.forget_history(start, 0);
        // Pairs with the releases of the tasks that leave.
        m.await_until(&journal.updates, Until::equals(0), Ordering::Acquire);
        m.forget_history(start, 0);
        self.write(m);
        m.forget_history(start, 0);
        true
    }

    /// Locked -> written, and the next transaction runs. No handle is open, and none joins.
    fn write<M: Machine>(&self, m: &M) {
        let journal = &self.journal[0];
        let mut changes = journal.list.changes.get(m);
        journal.list.changes.set(m, 0);
        for cpu in self.cpus.iter() {
            assert_eq!(cpu.open.get(m), 0, "a transaction is written with a handle open");
            changes += cpu.changes.get(m);
            cpu.changes.set(m, 0);
        }
        // Relaxed: no handle is open, so no other task changes it.
        let credits = journal.credits.load(m, Ordering::Relaxed);
        assert!(credits <= self.limit, "a transaction has more credits than its limit");
        assert!(changes <= u64::from(credits), "a transaction has more changes than credits");
        m.work(self.write_ns);
        journal.written.set(m, journal.written.get(m) + changes);
        journal.credits.store(m, 0, Ordering::Relaxed);
        journal.sequence.set(m, journal.sequence.get(m) + 1);
        // Locked -> running. Pairs with the acquires in `start_handle` and `commit`.
        journal.locked.store(m, 0, Ordering::Release);
    }
}

impl Joining {
    #[inline]
    fn live(&self) -> u64 {
        match self {
            Joining::Lock(hold) => u64::from(hold.0) + 1,
            Joining::Read(hold) => u64::from(hold.0) + 1,
            Joining::Nothing => 0,
        }
    }
}
