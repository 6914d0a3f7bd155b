//! Kernel mechanisms, in the designs that they had before and after they were made to scale.
//!
//! A mechanism is an operation that tasks repeat, the data structures behind it, and what must
//! hold when the tasks have stopped. Each is one file, and one line in the list below.

mod settings;

pub use settings::{Choice, Scenario, Setting, Settings};

use machine::{Machine, Region};

use crate::locks::ticket::Ticket;
use crate::{Equivalent, Lock, SharedLock, locks, manual};

/// A mechanism in one of its designs. Every machine runs it by a loop of its own:
///
///     once     new ─────────────────────────────────────────────> check
///     task         start ──> operate, operate, … ──> finish
///     CPU                     handle_ipi, at any time, if tasks interrupt each other
///
/// The checker runs [`operations`], with the small sizes of [`Setting::searched`]. Natively a
/// workload runs it. A simulation runs it to predict the time of an operation: what takes time
/// besides the accesses is `Machine::work` of a setting in nanoseconds.
pub trait Mechanism: Sized + Send + Sync + 'static {
    /// The name of the mechanism and of its file.
    const NAME: &'static str;
    /// A choice for everything that differs between the designs.
    type Design: Clone + Send + Sync + 'static;
    /// The designs by name; first the one that did not scale.
    const DESIGNS: &'static [(&'static str, Self::Design)];
    /// Choices besides the design.
    const CHOICES: &'static [Choice] = &[];
    /// Sizes and times.
    const SETTINGS: &'static [Setting];
    /// A phrase that says what one operation is.
    const OPERATION: &'static str;
    /// The mutants of this mechanism that break nothing.
    const EQUIVALENT: &'static [Equivalent] = &[];
    /// The searches that look for mutants, the smallest first.
    const SCENARIOS: &'static [Scenario] = &[Scenario::new(2, 1), Scenario::new(2, 2)];
    /// The files in the folder of the mechanism: name and text.
    const PARTS: &'static [(&'static str, &'static str)] = &[];
    /// Whether the tasks interrupt each other.
    const INTERRUPTS: bool = false;
    /// Whether several tasks can take turns on a CPU. Otherwise each task stands for a CPU.
    const TASKS_SHARE_CPUS: bool = false;
    /// The largest number of tasks.
    const TASKS_MAX: usize = 4096;
    /// What a task keeps from one operation to the next.
    type Task: Copy;

    /// Bytes of a region that this many tasks need.
    fn bytes(design: &Self::Design, tasks: usize, settings: &Settings) -> usize;

    /// Sets up the mechanism. Task i runs on CPU i, or takes turns on a CPU of a lower number.
    fn new(region: &Region, design: Self::Design, tasks: usize, settings: &Settings) -> Self;

    /// Starts the task of this number.
    fn start<M: Machine>(&self, m: &M, task: usize) -> Self::Task;

    /// Does one operation. It must end even if no other task begins another operation.
    fn operate<M: Machine>(&self, m: &M, task: &mut Self::Task);

    /// Ends a task, which operates no more.
    fn finish<M: Machine>(&self, m: &M, task: &mut Self::Task) {
        let _ = (m, task);
    }

    /// Handles an interrupt of the CPU.
    fn handle_ipi<M: Machine>(&self, m: &M) {
        let _ = m;
    }

    /// What a task still knows between two operations and needs for the next.
    fn live(task: &Self::Task) -> u64;

    /// Checks what must hold when all tasks have finished. They did `operations` in all.
    fn check<M: Machine>(&self, m: &M, operations: u64) -> Result<(), String>;

    /// Named counts of what a task did besides its operations; they are summed over tasks.
    fn effects(task: &Self::Task) -> Vec<(&'static str, u64)> {
        let _ = task;
        Vec::new()
    }
}

/// Runs a task from start to finish under the checker, with this many operations.
pub fn operations<X: Mechanism, M: Machine>(mechanism: &X, m: &M, task: usize, operations: u32) {
    let begin = m.history_mark();
    let mut task = mechanism.start(m, task);
    for turn in 0..operations {
        m.forget_history(begin, u64::from(turn) << 48 ^ X::live(&task));
        mechanism.operate(m, &mut task);
    }
    m.forget_history(begin, X::live(&task));
    mechanism.finish(m, &mut task);
    m.forget_history(begin, 0);
}

/// A mechanism of the list [`MECHANISMS`], or one in C, with the constants of its [`Mechanism`] that are the
/// same over every lock: code that needs only these is compiled once, not once for each lock.
#[derive(Debug)]
pub struct ListedMechanism {
    /// The name of its file, used wherever the mechanism is named.
    pub name: &'static str,
    /// The text of its file.
    pub source: &'static str,
    /// [`Mechanism::PARTS`]
    pub parts: &'static [(&'static str, &'static str)],
    /// [`Mechanism::OPERATION`]
    pub operation: &'static str,
    /// [`Mechanism::CHOICES`]
    pub choices: &'static [Choice],
    /// [`Mechanism::SETTINGS`]
    pub settings: &'static [Setting],
    /// [`Mechanism::EQUIVALENT`]
    pub equivalent: &'static [Equivalent],
    /// [`Mechanism::SCENARIOS`]
    pub scenarios: &'static [Scenario],
    /// [`Mechanism::INTERRUPTS`]
    pub interrupts: bool,
    /// The names of [`Mechanism::DESIGNS`]
    designs: fn() -> Vec<&'static str>,
}

impl ListedMechanism {
    /// The constants of a mechanism, and the text of its file.
    pub const fn new<X: Mechanism>(source: &'static str) -> ListedMechanism {
        ListedMechanism {
            name: X::NAME,
            source,
            parts: X::PARTS,
            operation: X::OPERATION,
            choices: X::CHOICES,
            settings: X::SETTINGS,
            equivalent: X::EQUIVALENT,
            scenarios: X::SCENARIOS,
            interrupts: X::INTERRUPTS,
            designs: || X::DESIGNS.iter().map(|(name, _)| *name).collect(),
        }
    }

    /// The mechanism of this name.
    pub fn named(name: &str) -> Option<&'static ListedMechanism> {
        MECHANISMS.iter().find(|mechanism| mechanism.name == name)
    }

    /// The manual page: the module doc of the mechanism's file.
    pub fn manual(&self) -> String {
        manual(self.source)
    }

    /// The first sentence of the manual page.
    pub fn summary(&self) -> String {
        crate::summary(&self.manual())
    }

    /// The names of the designs.
    pub fn designs(&self) -> Vec<&'static str> {
        (self.designs)()
    }
}

/// Code that is generic over the type of a mechanism.
pub trait Visitor {
    /// The result of a visit.
    type Out;
    /// Visits a mechanism.
    fn mechanism<X: Mechanism>(self) -> Self::Out;
}

macro_rules! mechanisms {
    ($($module:ident $type:ident,)*) => {
        $(pub mod $module;)*

        /// Every mechanism, in alphabetical order.
        pub static MECHANISMS: &[ListedMechanism] = &[$(ListedMechanism::new::<$module::$type<Ticket>>(
            include_str!(concat!(stringify!($module), ".rs")),
        ),)*];

        /// Visits the mechanism of this name, built over the lock `over`. `None` if there is no
        /// such mechanism, or no such guard ([`locks::guards`]).
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
            locks::visit_guard(over, Over(name, visitor)).flatten()
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
    counter Counter,
    fault_path FaultPath,
    file_locks LockedFiles,
    lockref Lockref,
    log_commit_list LogCommitList,
    repair Repair,
    seqlock Seqlock,
    tlb_shootdown TlbShootdown,
}
