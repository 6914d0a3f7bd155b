//! Kernel mechanisms, in the designs that they had before and after they scaled.
//!
//! A mechanism is an operation that tasks repeat, what it is made of, and what must hold when
//! they have stopped. One file and one line in the list below make it known to every machine.

mod settings;

pub use settings::{Choice, Scenario, Setting, Settings};

use machine::{Machine, Region};

use crate::locks::ticket::Ticket;
use crate::{Equivalent, Lock, SharedLock, locks, manual};

/// A mechanism in one of its designs. Three kinds of machines run it, each by a loop of its own:
///
///     new ──> start ──> operate, operate, … ──> finish ──> check      in each task, but the ends
///                          interrupted ──┘ (on its CPU, at any time, where it interrupts)
///
/// explored by [`operations`], with the small sizes of [`Setting::searched`]; natively by a workload;
/// simulated by whoever wants an operation's time. What takes time beside the accesses is
/// `Machine::work` of a setting in nanoseconds.
pub trait Mechanism: Sized + Send + Sync + 'static {
    /// The name of its file.
    const NAME: &'static str;
    /// How it is built.
    type Design: Copy + Send + Sync + 'static;
    /// Its designs by name, the one that did not scale first.
    const DESIGNS: &'static [(&'static str, Self::Design)];
    /// What else can be chosen.
    const CHOICES: &'static [Choice] = &[];
    /// Its sizes and times.
    const SETTINGS: &'static [Setting];
    /// What one operation is.
    const OPERATION: &'static str;
    /// Its mutants that are no faults.
    const EQUIVALENT: &'static [Equivalent] = &[];
    /// Searches in which its mutants are looked for, the smallest first.
    const SCENARIOS: &'static [Scenario] = &[Scenario::of(2, 1), Scenario::of(2, 2)];
    /// What lies in a folder of its name, by name and with its text.
    const PARTS: &'static [(&'static str, &'static str)] = &[];
    /// Whether its tasks interrupt each other.
    const INTERRUPTS: bool = false;
    /// Whether more than one task can run on a CPU, in turns. Otherwise a task stands for a CPU.
    const TASKS_SHARE_CPUS: bool = false;
    /// The most tasks that it can have.
    const TASKS_MAX: usize = 4096;
    /// What a task keeps from one operation to the next.
    type Task: Copy;

    /// Bytes of a region that so many tasks need.
    fn bytes(tasks: usize, settings: &Settings) -> usize;

    /// Sets it up. Task i runs on CPU i, or in turn with others on a CPU before that.
    fn new(region: &Region, design: Self::Design, tasks: usize, settings: &Settings) -> Self;

    /// The task of this number begins.
    fn start<M: Machine>(&self, m: &M, task: usize) -> Self::Task;

    /// One operation. It ends also if others begin no more of theirs.
    fn operate<M: Machine>(&self, m: &M, task: &mut Self::Task);

    /// A task will do no more.
    fn finish<M: Machine>(&self, m: &M, task: &mut Self::Task) {
        let _ = (m, task);
    }

    /// Its CPU was interrupted.
    fn interrupted<M: Machine>(&self, m: &M) {
        let _ = m;
    }

    /// All that a task still knows between two operations and that matters for the next.
    fn live(task: &Self::Task) -> u64;

    /// What must hold when all tasks have finished, each of its operations.
    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String>;

    /// What a task has seen beside its operations, by name; to be added up over tasks.
    fn effects(task: &Self::Task) -> Vec<(&'static str, u64)> {
        let _ = task;
        Vec::new()
    }
}

/// What the searched task of this number does: so many operations.
pub fn operations<X: Mechanism, M: Machine>(mechanism: &X, m: &M, task: usize, operations: u32) {
    let begin = m.mark();
    let mut task = mechanism.start(m, task);
    for turn in 0..operations {
        m.cut(begin, u64::from(turn) << 48 ^ X::live(&task));
        mechanism.operate(m, &mut task);
    }
    m.cut(begin, X::live(&task));
    mechanism.finish(m, &mut task);
    m.cut(begin, 0);
}

/// One listed mechanism.
#[derive(Debug)]
pub struct Entry {
    /// The name of its file or folder and of everything that shows it.
    pub name: &'static str,
    /// Its file.
    pub source: &'static str,
}

impl Entry {
    /// Its manual page: the module doc of its file.
    pub fn manual(&self) -> String {
        manual(self.source)
    }

    /// The first sentence of that.
    pub fn summary(&self) -> String {
        crate::summary(&self.manual())
    }

    /// The names of its designs.
    pub fn designs(&self) -> Vec<&'static str> {
        struct Names;
        impl Visitor for Names {
            type Out = Vec<&'static str>;
            fn mechanism<X: Mechanism>(self) -> Self::Out {
                X::DESIGNS.iter().map(|(name, _)| *name).collect()
            }
        }
        visit_over::<Ticket, _>(self.name, Names).unwrap_or_default()
    }
}

/// What is done with a mechanism of whatever type.
pub trait Visitor {
    /// What comes of it.
    type Out;
    /// With this one.
    fn mechanism<X: Mechanism>(self) -> Self::Out;
}

macro_rules! mechanisms {
    ($($module:ident $type:ident,)*) => {
        $(pub mod $module;)*

        /// Every mechanism, in alphabetical order.
        pub static MECHANISMS: &[Entry] = &[$(Entry {
            name: stringify!($module),
            source: include_str!(concat!(stringify!($module), ".rs")),
        },)*];

        /// Does something with the mechanism of this name, over the lock of another. `None`
        /// if there is no such mechanism, or no lock that one holds.
        pub fn visit<V: Visitor>(name: &str, over: &str, visitor: V) -> Option<V::Out> {
            struct Over<'a, V>(&'a str, V);
            impl<V: Visitor> locks::Visitor for Over<'_, V> {
                type Out = Option<V::Out>;
                fn lock<L: Lock>(self) -> Self::Out {
                    visit_over::<L, V>(self.0, self.1)
                }
                fn shared<L: SharedLock>(self) -> Self::Out {
                    None
                }
            }
            locks::visit(over, Over(name, visitor)).flatten()
        }

        /// Does something with the mechanism of this name, over this lock. `None` if there is no
        /// such mechanism. A caller that needs only one lock compiles the mechanisms only once.
        pub fn visit_over<L: Lock, V: Visitor>(name: &str, visitor: V) -> Option<V::Out> {
            match name {
                $(stringify!($module) => Some(visitor.mechanism::<$module::$type<L>>()),)*
                _ => None,
            }
        }
    };
}

mechanisms! {
    fault_path FaultPath,
    file_locks LockedFiles,
    log_commit_list LogCommitList,
    repair Repair,
    tlb_shootdown TlbShootdown,
}
