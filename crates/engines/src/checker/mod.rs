//! Search over interleavings: what tasks do together is tried in every order, or in many
//! random ones, and a wrong one is shown step by step.
//!
//!     Setup: region, tasks ──> search (all orders) or sample (random ones)
//!                                └─ World: who may do what, and what comes of it
//!                                     └─ Checked: the machine that the tasks see
//!
//! A task stops before each atomic access; the search decides whose goes next. Plain fields
//! are no such points: an access to one that nothing orders after the last is reported, in
//! whatever order they came. Waiting disables a task until its condition holds.
//!
//! What is checked, in every state: nobody is inside together who must not be; whoever
//! arrived first enters first, where that is claimed; plain accesses are ordered by acquire
//! and release; some task can always go on, and the end can always be reached.
//! A task that can be interrupted is so at any of its steps after somebody interrupted it.
//! What is not: orders that hardware weaker than x86 adds to atomic accesses. Those are
//! known only where a plain field or an `init` would see them.

mod agent;
mod canonical;
mod failure;
mod happens_before;
mod harness;
mod hash;
mod layout;
mod local_steps;
mod partial_order;
mod pct;
pub(crate) mod request;
mod schedule;
mod search;
mod state;
mod visited;
mod world;

pub use agent::Checked;
pub use failure::{Failure, Fault};
pub(crate) use harness::{copy, put_back};
pub use pct::{Sampled, sample};
pub use schedule::Schedule;
pub use search::{Replayed, Searched, replay, search};

use machine::Region;

/// The largest number of tasks.
pub const TASKS_MAX: usize = 15;

/// What a task does when it is interrupted.
pub type Handler<'a> = dyn Fn(&Checked, usize) + 'a;

/// What is explored.
pub struct Setup<'a> {
    /// The memory, as all tasks find it; it is so again afterwards.
    pub region: &'a Region,
    /// The memory node of each task's CPU; task i runs on CPU i.
    pub nodes: &'a [usize],
    /// What a task does. It owns no heap memory and holds no guard across an access.
    pub task: &'a dyn Fn(&Checked, usize),
    /// What a task does when it is interrupted, if it can be. Then an ended task is an idle
    /// CPU, which still does that.
    pub interrupted: Option<&'a Handler<'a>>,
    /// What must hold of the memory when all tasks have ended.
    pub last: &'a dyn Fn() -> Result<(), String>,
    /// Whether those who arrive first must enter first.
    pub fifo: bool,
    /// Whether tasks do the same, and words say by `cpu_shift` which CPUs they name: then
    /// states that differ only in who is who count as one.
    pub alike: bool,
}

/// How it is explored.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What stores may do.
    pub memory: Memory,
    /// Whether states that differ only in who is who are merged, where the setup allows.
    pub symmetry: bool,
    /// Whether steps that commute with all others are tried in one order only, where the
    /// setup allows.
    pub reduction: bool,
    /// Whether plain accesses must be ordered by acquire and release.
    pub races: bool,
    /// Whether a task that sleeps may also wake by itself.
    pub spurious: bool,
    /// Whether states that are merged must have the same accesses pending: finds a wrong
    /// `forget_history`. Best without `races`, which keeps more states apart.
    pub check_cuts: bool,
    /// Count the states that symmetry has merged too, which takes long.
    pub count_merged: bool,
    /// Give up at this many states.
    pub states_max: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: Memory::SequentiallyConsistent,
            symmetry: true,
            reduction: true,
            races: true,
            spurious: false,
            check_cuts: false,
            count_merged: false,
            states_max: u64::MAX,
        }
    }
}

/// When stores become visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// At once, to all.
    SequentiallyConsistent,
    /// From a buffer of each CPU's own, in order, as on x86: its owner sees them at once,
    /// and its next read-modify-write waits until they are out.
    TotalStoreOrder,
}
