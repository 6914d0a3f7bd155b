//! The model checker: runs the tasks of an algorithm in every interleaving, or in many random
//! ones, and shows a wrong one step by step.
//!
//!     Setup: region, tasks ──> search (all orders) or sample (random orders)
//!                                └─ World: which task may do what, and what it does
//!                                     └─ Checked: the machine that the tasks see
//!
//! A task stops before each atomic access, and the search decides which task takes the next
//! step. Plain fields are no such points: an access to one that is not ordered after the last
//! conflicting access is reported as a race, in whatever order the two came. Waiting disables
//! a task until its condition holds.
//!
//! Checked in every state: mutual exclusion; entry in the order of arrival, where the
//! algorithm claims it; plain accesses ordered by acquire and release; some task can always
//! take a step, and the end can always be reached. A task that takes interrupts can be
//! interrupted at any step after another task sent one.
//! Reorderings of atomic accesses on hardware weaker than x86 show only where a plain field or an
//! `init` would see them, unless the memory is that of RC11 (`weak`, `views`), of Armv8 or of the
//! kernel (`allowed`, `executions`).

mod accepted;
mod agent;
mod ahead;
mod allowed;
mod bounds;
mod bypass;
mod canonical;
mod canonical_executions;
mod canonical_views;
mod cells;
mod executions;
mod failure;
mod fences;
mod happens_before;
mod harness;
mod hash;
mod layout;
mod local_steps;
mod lost_wake_up;
mod partial_order;
mod passing;
mod pct;
mod properties;
pub(crate) mod request;
mod schedule;
mod search;
mod shortest;
mod sleepers;
mod state;
mod store_buffers;
mod trace;
mod tracing;
mod views;
mod visited;
mod watching;
mod weak;
mod world;

pub use agent::Checked;
pub use bypass::Bypass;
pub use failure::{Failure, FailureDetails, Fault};
pub(crate) use harness::{copy_region, restore_region};
pub use pct::{Coverage, SampleResult, sample};
pub use schedule::Schedule;
pub use search::{ReplayResult, SearchResult, replay, search};
pub use trace::{Race, RacingAccess};

use executions::{Rules, lkmm};
use machine::{Region, SourceLine};

/// The largest number of tasks.
pub const TASKS_MAX: usize = 15;

/// What a task does when it is interrupted; called with the task's number.
pub type IpiHandler<'a> = dyn Fn(&Checked, usize) + 'a;

/// The tasks to check, and their memory.
pub struct Setup<'a> {
    /// The memory as all tasks find it. A check restores it at the end.
    pub region: &'a Region,
    /// The memory node of each task's CPU; task i runs on CPU i.
    pub nodes: &'a [usize],
    /// What a task does. It owns no heap memory and holds no guard across an access.
    pub task: &'a dyn Fn(&Checked, usize),
    /// What a task does when it is interrupted, if it can be. With a handler, a task that has
    /// ended is an idle CPU, which still takes interrupts.
    pub ipi_handler: Option<&'a IpiHandler<'a>>,
    /// Checks the memory once all tasks have ended.
    pub final_check: &'a dyn Fn() -> Result<(), String>,
    /// How many others may enter before a task that has arrived, besides those that arrived before it: 0 where tasks
    /// enter in the order of their arrival. `None` where nothing bounds them.
    pub bypasses: Option<u32>,
    /// Whether all tasks do the same and every word that names CPUs says so by `cpu_shift`.
    /// Then states that differ only by a renumbering of the tasks count as one.
    pub symmetric: bool,
}

/// What a search tries, checks and leaves out.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When stores become visible.
    pub memory: Memory,
    /// Whether states that differ only by a renumbering of the tasks are merged, where the
    /// setup allows it.
    pub symmetry: bool,
    /// Whether steps that commute with all others are tried in one order only, where the
    /// setup allows it.
    pub reduction: bool,
    /// Whether plain accesses must be ordered by acquire and release.
    pub check_races: bool,
    /// Lines whose atomic accesses race with no plain one: their races are accepted.
    pub exempt: &'static [SourceLine],
    /// Whether a sleeping task may also wake without having been woken.
    pub spurious_wakeups: bool,
    /// Whether merged states must have the same accesses pending: finds a call that forgets
    /// too much history. Best without `check_races`, which keeps more states apart.
    pub check_forgetting: bool,
    /// Also count the states that symmetry has merged, which takes long.
    pub count_merged: bool,
    /// Give up at this many states.
    pub states_max: u64,
    /// Count how often others enter before this task, while it waits, and take no states together
    /// in which that differs. Best without reduction.
    pub watched_task: Option<usize>,
    /// Whether a shortest way to a fault is looked for once one is found.
    pub shortest: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: Memory::SequentiallyConsistent,
            symmetry: true,
            reduction: true,
            check_races: true,
            exempt: &[],
            spurious_wakeups: false,
            check_forgetting: false,
            count_merged: false,
            states_max: u64::MAX,
            watched_task: None,
            shortest: false,
        }
    }
}

/// When stores become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Immediately, to all CPUs.
    SequentiallyConsistent,
    /// In order, from a store buffer of each CPU, as on x86. The CPU itself sees its stores
    /// immediately; its next read-modify-write waits until the buffer is empty.
    TotalStoreOrder,
    /// As far as C11 and C++20 promise, by the repaired rules of RC11: a task may read an old
    /// value unless acquire and release, fences or sequentially consistent accesses forbid it.
    Rc11,
    /// As far as the Arm architecture, version 8, promises for the compiled code: `executions::armv8`.
    Armv8,
    /// As far as the Linux kernel's memory model promises: `executions::lkmm`.
    Lkmm,
    /// As far as it promised until Linux 6.2.
    LkmmUntil62,
}

impl Memory {
    /// All models, the strongest first.
    pub const ALL: [Memory; 6] = [
        Memory::SequentiallyConsistent,
        Memory::TotalStoreOrder,
        Memory::Armv8,
        Memory::Rc11,
        Memory::Lkmm,
        Memory::LkmmUntil62,
    ];

    /// Its name in commands and answers.
    pub fn name(self) -> &'static str {
        match self {
            Memory::SequentiallyConsistent => "sc",
            Memory::TotalStoreOrder => "x86",
            Memory::Rc11 => "rc11",
            Memory::Armv8 => "armv8",
            Memory::Lkmm => "lkmm",
            Memory::LkmmUntil62 => "lkmm-6.2",
        }
    }

    /// Whose rules it is, if executions are kept for it.
    fn rules(self) -> Option<Rules> {
        match self {
            Memory::Armv8 => Some(Rules::Armv8),
            Memory::Lkmm => Some(Rules::Lkmm(lkmm::Version::Today)),
            Memory::LkmmUntil62 => Some(Rules::Lkmm(lkmm::Version::Until62)),
            _ => None,
        }
    }

    /// Whether loads may read older values than the newest.
    pub fn reads_old(self) -> bool {
        !matches!(self, Memory::SequentiallyConsistent | Memory::TotalStoreOrder)
    }

    /// That of the machine on which this runs, as far as a search knows it.
    pub fn of_this_machine() -> Memory {
        if cfg!(target_arch = "x86_64") {
            Memory::TotalStoreOrder
        } else {
            Memory::SequentiallyConsistent
        }
    }
}
