//! File locks as a mechanism: what tasks do with them again and again.

use std::fmt;

use machine::{Array, Field, Line, Machine, Region};

use super::contract::{Bytes, calls};
use super::{DESIGNS, Design, FileLocks, Kind, Owner, Range, TO_THE_END, alone};
use crate::mechanisms::{Choice, Mechanism, Scenario, Setting, Settings};
use crate::{Equivalent, Lock};

/// Records that a task may need at once: two are taken for a call, and two ranges may be held
/// of which each leaves a part behind.
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
    /// What the ranges guard: how often each was locked to write.
    guarded: Array<Line<Field<u64>>>,
    /// By task: how often it locked to write, known when it has finished.
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
    /// A lock is taken, something done under it, and the lock given back.
    LockUnlock,
    /// The calls of a contract in which two bytes are taken crosswise.
    Crosswise,
    /// The same of a task that has nobody beside it: it plays all owners.
    Alone,
}

impl Calls {
    /// Records that a task may need.
    fn records(self) -> usize {
        match self {
            Calls::LockUnlock | Calls::Crosswise => RECORDS,
            Calls::Alone => alone::RECORDS,
        }
    }
}

/// What a task keeps.
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
    const OPERATION: &'static str = "one file lock taken and given back";
    const DESIGNS: &'static [(&'static str, Design)] = DESIGNS;
    const TASKS_SHARE_CPUS: bool = true;
    const PARTS: &'static [(&'static str, &'static str)] = &[
        ("alone", include_str!("alone.rs")),
        ("blocked", include_str!("blocked.rs")),
        ("contract", include_str!("contract.rs")),
        ("held", include_str!("held.rs")),
        ("lists", include_str!("lists.rs")),
        ("operation", include_str!("operation.rs")),
        ("ranges", include_str!("ranges.rs")),
        ("tree", include_str!("tree.rs")),
    ];
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "no wait",
            line: "m.park(woken, 0)",
            why: "a sleeper may wake at any time",
        },
        Equivalent {
            change: "off by one",
            line: "record.woken.store(m, 1,",
            why: "every value but 0 says that something has changed",
        },
        Equivalent {
            change: "skipped",
            line: "branch.low.set(m, 0)",
            why: "measured next, and nobody asks then whether it differs",
        },
        Equivalent {
            change: "skipped",
            line: "branch.high.set(m, 0)",
            why: "measured next, and nobody asks then whether it differs",
        },
        Equivalent {
            change: "skipped",
            line: "Kind::Write => byte.set(",
            why: "what the locks guard in a search, no part of them",
        },
    ];
    const SCENARIOS: &'static [Scenario] = &[
        // All owners, played by one.
        Scenario::of(1, 1),
        Scenario::of(2, 1),
        Scenario::of(2, 2).choosing(&[("calls", "lock-unlock")]),
        Scenario::of(2, 1).choosing(&[("calls", "lock-unlock"), ("kind", "flock")]),
        Scenario::of(3, 1),
    ];
    const CHOICES: &'static [Choice] = &[
        Choice {
            name: "kind",
            about: "whose locks: of processes, of open files with flock, or of open files with ranges",
            words: &["posix", "flock", "ofd"],
            searched: "posix",
        },
        Choice {
            name: "calls",
            about: "what an operation is: a lock and an unlock, or some calls of processes that \
                    take two bytes of one file crosswise",
            words: &["lock-unlock", "crosswise"],
            searched: "crosswise",
        },
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "files",
            about: "files: tasks take theirs in turn",
            default: 4096,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "ranges",
            about: "bytes of a file of which tasks lock one, in turn; with 1 the whole file",
            default: 1,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "read_one_in",
            about: "locks of which one is to read; with 0 none",
            default: 0,
            min: 0,
            max: 1_000_000,
            searched: 0,
        },
        Setting::time("call_ns", "work of a call outside of all locks, in ns", 0),
        Setting::time("in_lock_ns", "work under the lock of the files, or of the file, in ns", 0),
        Setting::time("in_beside_ns", "work under each lock beside those of files, in ns", 0),
        Setting::time("held_ns", "work of who holds a file lock, in ns", 0),
    ];

    fn bytes(tasks: usize, settings: &Settings) -> usize {
        let files = tasks.min(settings.get("files") as usize);
        let ranges = tasks.min(settings.get("ranges") as usize);
        (64 << 10) + tasks * (2048 + RECORDS * 128) + files * 256 + files * ranges * 64
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let few = |name: &str| tasks.min(settings.get(name) as usize);
        let (files, ranges) = (few("files"), few("ranges"));
        let calls = match settings.choice("calls") {
            "crosswise" if tasks == 1 => Calls::Alone,
            "crosswise" => Calls::Crosswise,
            _ => Calls::LockUnlock,
        };
        let locks = FileLocks::new(region, tasks, files, calls.records(), design);
        LockedFiles {
            locks: locks.working(settings.get("in_lock_ns"), settings.get("in_beside_ns")),
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

    /// Its CPU gets the records that it may need: tasks can share a CPU.
    fn start<M: Machine>(&self, m: &M, task: usize) -> Caller {
        let begin = m.history_mark();
        let each = self.calls.records() as u32;
        let first = task as u32 * each + 1;
        (first..first + each).rev().for_each(|name| self.locks.bring(m, name));
        m.forget_history(begin, 0);
        Caller { task: task as u32, written: 0, slept: 0 }
    }

    fn operate<M: Machine>(&self, m: &M, caller: &mut Caller) {
        match self.calls {
            Calls::LockUnlock => self.lock_and_unlock(m, caller),
            Calls::Alone => alone::calls(&self.locks, m, self.design),
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
        let sum = |counts: &[Line<Field<u64>>]| counts.iter().map(|one| one.get(m)).sum::<u64>();
        let (found, all) = (sum(&self.guarded), sum(&self.written));
        if found != all {
            return Err(format!("{all} locks to write, under which {found} changes were made"));
        }
        match self.locks.at_rest(m) {
            true => Ok(()),
            false => Err("some file lock is held still, or somebody waits".to_string()),
        }
    }

    fn effects(caller: &Caller) -> Vec<(&'static str, u64)> {
        vec![("sleeps", caller.slept)]
    }
}

impl<L: Lock> LockedFiles<L> {
    fn lock_and_unlock<M: Machine>(&self, m: &M, caller: &mut Caller) {
        let begin = m.history_mark();
        let file = caller.task % self.files;
        let which = caller.task / self.files % self.ranges;
        let (start, end) = match self.ranges {
            1 => (0, TO_THE_END),
            _ => (which.into(), which.into()),
        };
        let reads = self.read_one_in > 0 && m.chance(self.read_one_in);
        let kind = if reads { Kind::Read } else { Kind::Write };
        let range = Range { owner: (self.kind)(caller.task), kind, start, end };
        m.work(self.call_ns);
        m.forget_history(begin, reads.into());
        let set = self.locks.set(m, file as usize, range);
        caller.slept += u64::from(set.expect("each task holds one lock, so there is no circle"));
        // Who loses its CPU here does so with the file lock held.
        m.preemption_point();
        m.forget_history(begin, reads.into());
        let guarded = &self.guarded[(file * self.ranges + which) as usize];
        let count = guarded.get(m);
        m.work(self.held_ns);
        if !reads {
            guarded.set(m, count + 1);
            caller.written += 1;
        }
        m.forget_history(begin, 0);
        m.work(self.call_ns);
        let unlock = self.locks.set(m, file as usize, Range { kind: Kind::Unlock, ..range });
        unlock.expect("nothing is in the way of an unlock");
        m.forget_history(begin, 0);
    }
}
