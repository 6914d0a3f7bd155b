//! File locks as a mechanism: the operation that tasks repeat.

use std::fmt;

use machine::{Array, Field, Line, Machine, Region};

use super::contract::{Bytes, calls};
use super::{DESIGNS, Design, FileLocks, LockKind, Owner, Range, TO_THE_END, single_task_model};
use crate::mechanisms::{Choice, Mechanism, Scenario, Setting, Settings};
use crate::{Equivalent, Lock};

/// Records that a task may need at the same time: a call takes two, and two ranges may be held
/// that each leave a part behind.
const RECORDS: usize = 6;

/// Files, and tasks that lock them.
pub struct LockedFiles<L: Lock> {
    locks: FileLocks<L>,
    design: Design,
    calls: Calls,
    kind: fn(u32) -> Owner,
    files: u32,
    ranges: u32,
    read_one_in: u32,
    call_ns: u64,
    held_ns: u64,
    /// The number of writes under each range, which the range guards.
    guarded: Array<Line<Field<u64>>>,
    /// The number of writes of each task, stored when the task has finished.
    written: Array<Line<Field<u64>>>,
    bytes: Array<Line<Bytes>>,
}

impl<L: Lock> fmt::Debug for LockedFiles<L> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let LockedFiles { design, calls, files, ranges, .. } = self;
        write!(f, "{design:?}, {calls:?}: {files} files of {ranges} ranges")
    }
}

/// What an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    /// A task locks a range, works under the lock, and unlocks.
    LockUnlock,
    /// The calls of `contract.rs`, in which tasks take two bytes crosswise.
    Crosswise,
    /// The calls of `single_task_model.rs`, in which the only task plays all owners.
    SingleTask,
}

impl Calls {
    /// Records that a task may need.
    fn records(self) -> usize {
        match self {
            Calls::LockUnlock | Calls::Crosswise => RECORDS,
            Calls::SingleTask => single_task_model::RECORDS,
        }
    }
}

/// A task that locks files.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    task: u32,
    written: u64,
    slept: u64,
}

impl<L: Lock> Mechanism for LockedFiles<L> {
    const NAME: &'static str = "file_locks";
    type Design = Design;
    type Task = Caller;
    const OPERATION: &'static str = "one file lock taken and released";
    const DESIGNS: &'static [(&'static str, Design)] = DESIGNS;
    const TASKS_SHARE_CPUS: bool = true;
    const PARTS: &'static [(&'static str, &'static str)] = &[
        ("blocked", include_str!("blocked.rs")),
        ("contract", include_str!("contract.rs")),
        ("held", include_str!("held.rs")),
        ("invariants", include_str!("invariants.rs")),
        ("lists", include_str!("lists.rs")),
        ("operation", include_str!("operation.rs")),
        ("ranges", include_str!("ranges.rs")),
        ("single_task_model", include_str!("single_task_model.rs")),
        ("tree", include_str!("tree.rs")),
    ];
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "no wait",
            line: "m.park(woken, 0)",
            why: "parking may return at any time",
        },
        Equivalent {
            change: "off by one",
            line: "record.woken.store(m, 1,",
            why: "every value but 0 means woken",
        },
        Equivalent {
            change: "skipped",
            line: "branch.low.set(m, 0)",
            why: "it is computed next, and there its old value does not matter",
        },
        Equivalent {
            change: "skipped",
            line: "branch.high.set(m, 0)",
            why: "it is computed next, and there its old value does not matter",
        },
        Equivalent {
            change: "skipped",
            line: "LockKind::Write => byte.set(",
            why: "the data that the locks guard under the checker, not a part of them",
        },
    ];
    const SCENARIOS: &'static [Scenario] = &[
        // A single task that plays all owners.
        Scenario::new(1, 1),
        Scenario::new(2, 1),
        Scenario::new(2, 2).with_choices(&[("calls", "lock-unlock")]),
        Scenario::new(2, 1).with_choices(&[("calls", "lock-unlock"), ("kind", "flock")]),
        Scenario::new(3, 1),
    ];
    const CHOICES: &'static [Choice] = &[
        Choice {
            name: "kind",
            about: "the owners: processes (posix), or open files with flock or with ranges (ofd)",
            words: &["posix", "flock", "ofd"],
            searched: "posix",
        },
        Choice {
            name: "calls",
            about: "an operation: a lock and an unlock, or some calls in which processes take two \
                    bytes of one file crosswise",
            words: &["lock-unlock", "crosswise"],
            searched: "crosswise",
        },
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "files",
            about: "files; task i uses file i modulo this number",
            default: 4096,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "ranges",
            about: "bytes of a file, over which its tasks are spread, one locked byte each; 1: each \
                    task locks the whole file",
            default: 1,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "read_one_in",
            about: "one lock in this many is a read lock; 0: none",
            default: 0,
            min: 0,
            max: 1_000_000,
            searched: 0,
        },
        Setting::time("call_ns", "work of a call outside all locks, in ns", 0),
        Setting::time(
            "in_lock_ns",
            "work under the global lock, or under the lock of the file, in ns",
            0,
        ),
        Setting::time(
            "in_beside_ns",
            "work under each lock of a list that is not part of a file, in ns",
            0,
        ),
        Setting::time("held_ns", "work of a task that holds a file lock, in ns", 0),
    ];

    fn bytes(_: &Design, tasks: usize, settings: &Settings) -> usize {
        let files = tasks.min(settings.get("files") as usize);
        let ranges = tasks.min(settings.get("ranges") as usize);
        (64 << 10) + tasks * (2048 + RECORDS * 128) + files * 256 + files * ranges * 64
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let at_most_tasks = |name: &str| tasks.min(settings.get(name) as usize);
        let (files, ranges) = (at_most_tasks("files"), at_most_tasks("ranges"));
        let calls = match settings.choice("calls") {
            "crosswise" if tasks == 1 => Calls::SingleTask,
            "crosswise" => Calls::Crosswise,
            _ => Calls::LockUnlock,
        };
        let locks = FileLocks::new(region, tasks, files, calls.records(), design);
        LockedFiles {
            locks: locks.with_work(settings.get("in_lock_ns"), settings.get("in_beside_ns")),
            design,
            calls,
            kind: match settings.choice("kind") {
                "flock" => Owner::Flock,
                "ofd" => Owner::OpenFile,
                _ => Owner::Process,
            },
            files: files as u32,
            ranges: ranges as u32,
            read_one_in: settings.get("read_one_in") as u32,
            call_ns: settings.get("call_ns"),
            held_ns: settings.get("held_ns"),
            guarded: region.array("guarded", files * ranges),
            written: region.per_cpu("written", tasks),
            bytes: region.array("bytes", 1),
        }
    }

    /// Gives the task's records to its CPU, which may run other tasks too.
    fn start<M: Machine>(&self, m: &M, task: usize) -> Caller {
        let begin = m.history_mark();
        let records = self.calls.records() as u32;
        let first = task as u32 * records + 1;
        (first..first + records).rev().for_each(|name| self.locks.add_to_pool(m, name));
        m.forget_history(begin, 0);
        Caller { task: task as u32, written: 0, slept: 0 }
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, caller: &mut Caller) {
        match self.calls {
            Calls::LockUnlock => self.lock_and_unlock(m, caller),
            Calls::SingleTask => single_task_model::calls(&self.locks, m, self.design),
            Calls::Crosswise => calls(&self.locks, m, self.design, &self.bytes[0], caller.task),
        }
    }

    fn finish<M: Machine>(&self, m: &M, caller: &mut Caller) {
        self.written[caller.task as usize].set(m, caller.written);
    }

    fn live(_: &Caller) -> u64 {
        0
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        let sum = |counts: &[Line<Field<u64>>]| counts.iter().map(|n| n.get(m)).sum::<u64>();
        let (changes, write_locks) = (sum(&self.guarded), sum(&self.written));
        if changes != write_locks {
            return Err(format!(
                "{write_locks} changes under write locks were counted as {changes}"
            ));
        }
        if !self.locks.at_rest(m) {
            return Err("a file lock is still held, or a request waits".to_string());
        }
        Ok(())
    }

    fn effects(caller: &Caller) -> Vec<(&'static str, u64)> {
        vec![("sleeps", caller.slept)]
    }
}

impl<L: Lock> LockedFiles<L> {
    fn lock_and_unlock<M: Machine>(&self, m: &M, caller: &mut Caller) {
        let begin = m.history_mark();
        let file = caller.task % self.files;
        let byte = caller.task / self.files % self.ranges;
        let (start, end) = match self.ranges {
            1 => (0, TO_THE_END),
            _ => (byte.into(), byte.into()),
        };
        let reads = self.read_one_in > 0 && m.chance(self.read_one_in);
        let kind = if reads { LockKind::Read } else { LockKind::Write };
        let range = Range { owner: (self.kind)(caller.task), kind, start, end };
        m.work(self.call_ns);
        m.forget_history(begin, reads.into());
        let waits = self.locks.set(m, file as usize, range);
        caller.slept += u64::from(waits.expect("no deadlock: each task holds one lock"));
        // A task that loses its CPU here holds the file lock.
        m.preemption_point();
        m.forget_history(begin, reads.into());
        let guarded = &self.guarded[(file * self.ranges + byte) as usize];
        let count = guarded.get(m);
        m.work(self.held_ns);
        if !reads {
            guarded.set(m, count + 1);
            caller.written += 1;
        }
        m.forget_history(begin, 0);
        m.work(self.call_ns);
        let unlock = self.locks.set(m, file as usize, Range { kind: LockKind::Unlock, ..range });
        unlock.expect("no lock is in the way of an unlock");
        m.forget_history(begin, 0);
    }
}
