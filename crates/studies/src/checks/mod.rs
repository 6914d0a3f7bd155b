//! Algorithms under the model checker: the tasks that a lock or mechanism is checked with, and
//! the result. Neither the algorithms nor the checker know of each other; here they meet.

pub mod accepted;
pub mod against_kernel;
pub mod bypass;
pub mod mutants;
pub mod orderings;

use std::cell::RefCell;

use algorithms::contract::{self, Guarded};
use algorithms::mechanisms::{Mechanism, Scenario, operations};
use algorithms::{Locks, LocksVisitor, Properties, Shape};
use anyhow::{Context, Result, bail};
use engines::checker::{Checked, Coverage, Failure, IpiHandler, Memory, Options, Setup, search};
use engines::{Collected, Mutant, Mutated, OrderLimit, Unsupported};
use machine::{Machine, Native, Region};

use crate::subject::{MechanismVisitor, Subject};
use accepted::Accepted;
use bypass::Fairness;

/// Bytes of a region: enough for the tables of every lock.
const REGION_BYTES: usize = 64 << 10;

const IN_USE: &str = "the lock is still in use";

/// The tasks of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckSize {
    /// The number of tasks.
    pub threads: usize,
    /// How often each task takes the lock, or does the operation of a mechanism.
    pub acquires: u32,
    /// How many locks a task holds at a time, nested in their order.
    pub locks: usize,
}

/// The result of one check of one algorithm.
pub struct CheckResult {
    /// `mcs`, or `file_locks:after`.
    pub name: String,
    /// The tasks.
    pub size: CheckSize,
    /// What the machine does with stores.
    pub memory: Memory,
    /// States that were searched; `None` where schedules were sampled.
    pub states: Option<u64>,
    /// Schedules that were sampled; `None` where all states were searched.
    pub schedules: Option<u64>,
    /// What the sampled schedules cover.
    pub coverage: Option<Coverage>,
    /// Steps of tasks that were taken.
    pub steps: u64,
    /// Wall time, in seconds.
    pub seconds: f64,
    /// Whether the search ended at its largest number of states.
    pub gave_up: bool,
    /// The fault that was found, with the way to it.
    pub failure: Option<Failure>,
    /// The stronger memory models under which the same tasks hold, where a fault of weak memory was found.
    pub holds_on: Vec<Memory>,
    /// Whether what holds here was searched under RC11 besides, and holds there too.
    pub by_language: Option<Besides>,
    /// Whether a task fell asleep.
    pub sleeps: bool,
    /// Whether what holds, and in which tasks sleep, was searched again with sleepers that also wake by themselves, and holds
    /// then, too.
    pub by_itself: Option<Besides>,
    /// Whether sleepers could wake by themselves in the search that found the fault.
    pub is_spurious: bool,
    /// Why it could not be searched at all.
    pub refused: Option<Unsupported>,
    /// Whether a waiter can starve, of a lock that holds.
    pub fairness: Option<Fairness>,
    /// Races that were found and accepted.
    pub accepted: Accepted,
    /// Whether a loop counts its tries, of which only the first four and the end were searched.
    pub counts_tries: bool,
}

/// What another search says of an algorithm that holds: under RC11, or with sleepers that wake by themselves. If it fails there,
/// that is the result.
pub enum Besides {
    /// It holds, too; this many states were searched.
    Holds(u64),
    /// Nothing is known.
    NotChecked(Unsupported),
}

/// What a check says.
#[derive(Clone, Debug)]
pub enum Verdict<'a> {
    /// All that was asked is true in every interleaving.
    Holds,
    /// Schedules were sampled, and nothing was found.
    NothingFound,
    /// Something is wrong.
    Wrong(&'a Failure),
    /// Nothing is known: why, and the way out.
    NotChecked(Unsupported),
}

impl Verdict<'_> {
    /// The verdict in the words of tables and JSON.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::NothingFound => "nothing found",
            Verdict::Wrong(_) => "wrong",
            Verdict::NotChecked(_) => "not checked",
        }
    }
}

impl CheckResult {
    /// What this check says.
    pub fn verdict(&self) -> Verdict<'_> {
        if let Some(refused) = &self.refused {
            return Verdict::NotChecked(refused.clone());
        }
        match &self.failure {
            Some(failure) => match failure.unsupported() {
                Some(unsupported) => Verdict::NotChecked(unsupported.clone()),
                None => Verdict::Wrong(failure),
            },
            None if self.gave_up => Verdict::NotChecked(Unsupported::new(
                format!("the search gave up at {} states", self.states.unwrap_or_default()),
                "try fewer tasks or acquires, more --states, or random schedules (--sample 100000)",
            )),
            None if self.schedules.is_some() => Verdict::NothingFound,
            None => Verdict::Holds,
        }
    }
}

/// What is put between an algorithm and the machine.
#[derive(Clone, Copy)]
pub enum Mutation<'a> {
    /// Nothing: the algorithm as it is.
    None,
    /// A machine that applies this mutant.
    Apply(Mutant),
    /// A machine whose accesses order no more than these limits say.
    Weaken(&'a [OrderLimit]),
    /// A machine that collects the possible mutants, and orders.
    Collect(&'a RefCell<Collected>),
}

/// Calls `act` with the tasks of a subject at their start.
pub fn with_tasks<R>(
    subject: &Subject,
    size: CheckSize,
    mutation: Mutation,
    act: impl FnMut(&Setup) -> R,
) -> Result<R> {
    let scenario = Scenario::new(size.threads, size.acquires);
    with_scenario(subject, scenario, size.locks, mutation, act)
}

/// Calls `act` with the tasks of a subject in this scenario at their start; those of locks nest this many.
fn with_scenario<R>(
    subject: &Subject,
    scenario: Scenario,
    locks: usize,
    mutation: Mutation,
    mut act: impl FnMut(&Setup) -> R,
) -> Result<R> {
    let mut result = None;
    loop {
        let visited =
            visit(subject, scenario, locks, mutation, &mut |setup| result = Some(act(setup)));
        // A program in C may be found to need other stacks, or another heap: also before its tasks begin.
        if !matches!(subject, Subject::InC(program) if program.take_learned()) {
            visited?;
            return result.context("the tasks were never started");
        }
    }
}

/// What is done with tasks at their start.
type SetupFn<'a> = dyn FnMut(&Setup) + 'a;

/// Has no type parameter: so this crate compiles each lock and mechanism once, and not each crate that calls it, again for
/// each closure, which would be megabytes.
fn visit(
    subject: &Subject,
    scenario: Scenario,
    locks: usize,
    mutation: Mutation,
    act: &mut SetupFn,
) -> Result<()> {
    if let Subject::InC(program) = subject {
        program.ensure_words(scenario.tasks)?;
    }
    let check = Check { scenario, locks, mutation, act };
    if subject.is_lock() {
        subject.with_locks(Shape::searched(scenario.tasks, locks), REGION_BYTES, check)
    } else {
        let settings = scenario.settings(subject.mechanism()?);
        subject.with_mechanism(scenario.tasks, &settings, check)
    }
}

/// Tasks, acquires of each and states of a short search.
const SHORT: CheckSize = CheckSize { threads: 2, acquires: 1, locks: 1 };
const SHORT_STATES: u64 = 10_000;

/// Refuses a lock in C in which a short search finds a fault: what it does then is no lock's.
pub fn refuse_faulty(subject: &Subject) -> Result<()> {
    let Subject::InC(program) = subject else { return Ok(()) };
    let memory = Memory::of_this_machine();
    let options = Options { memory, states_max: SHORT_STATES, ..Options::default() };
    let searched = with_tasks(subject, SHORT, Mutation::None, |setup| search(setup, &options))??;
    let Some(failure) = searched.failure else { return Ok(()) };
    let (name, file) = (&program.name, program.file.display());
    if let Some(unsupported) = failure.unsupported() {
        return Err(unsupported.clone()).with_context(|| format!("{file}: not checked"));
    }
    bail!(
        "{name} is at fault: {}; see knee check {file} --threads 2 (with the same --cflags)",
        failure.fault
    )
}

/// What a task does, on any machine.
trait TaskBody {
    fn run<M: Machine>(&self, m: &M);
}

impl Mutation<'_> {
    /// Runs a task on the machine with this in between: always on a machine of one type, for which each
    /// algorithm is compiled once.
    fn run(self, m: &Checked, body: &impl TaskBody) {
        body.run(&match self {
            Mutation::None => Mutated::unchanged(m),
            Mutation::Apply(mutant) => Mutated::new(m, mutant),
            Mutation::Weaken(limits) => Mutated::weakened(m, limits),
            Mutation::Collect(collected) => Mutated::collecting(m, collected),
        });
    }
}

/// The tasks of a check.
struct Check<'a> {
    scenario: Scenario,
    locks: usize,
    mutation: Mutation<'a>,
    act: &'a mut SetupFn<'a>,
}

impl MechanismVisitor for Check<'_> {
    type Out = ();

    fn mechanism<X: Mechanism>(self, region: &Region, mechanism: &X) {
        let Check { scenario: Scenario { tasks, operations, .. }, mutation, act, .. } = self;
        let task = |m: &Checked, task: usize| {
            mutation.run(m, &Operations { mechanism, task, operations });
        };
        let ipi_handler = |m: &Checked, _: usize| mutation.run(m, &Interrupt { mechanism });
        let all_operations = tasks as u64 * u64::from(operations);
        act(&Setup {
            region,
            nodes: &vec![0; tasks],
            task: &task,
            ipi_handler: X::INTERRUPTS.then_some(&ipi_handler as &IpiHandler),
            final_check: &|| mechanism.check(&Native::new(0, 0), all_operations),
            bypasses: None,
            // Each task has things of its own.
            symmetric: false,
        });
    }
}

struct Operations<'a, X> {
    mechanism: &'a X,
    task: usize,
    operations: u32,
}

impl<X: Mechanism> TaskBody for Operations<'_, X> {
    fn run<M: Machine>(&self, m: &M) {
        operations(self.mechanism, m, self.task, self.operations);
    }
}

struct Interrupt<'a, X> {
    mechanism: &'a X,
}

impl<X: Mechanism> TaskBody for Interrupt<'_, X> {
    fn run<M: Machine>(&self, m: &M) {
        self.mechanism.handle_ipi(m);
    }
}

/// Memory nodes that the CPUs of NUMA-aware locks are on.
const NODES: u32 = 2;

/// The nodes of the tasks' CPUs: two, for a lock that distinguishes nodes.
fn nodes(threads: usize, numa_aware: bool) -> Vec<usize> {
    let nodes = if numa_aware { NODES as usize } else { 1 };
    (0..threads).map(|cpu| cpu % nodes).collect()
}

impl LocksVisitor for Check<'_> {
    type Out = ();

    fn locks<L: Locks>(self, locks: &L) {
        let Check { scenario: Scenario { tasks, operations, .. }, mutation, act, .. } = self;
        let guarded = &locks.region().array::<Guarded>("guarded", 1)[0];
        let user = User { locks, count: self.locks, guarded, acquires: operations };
        let Properties { shared, symmetric, numa_aware, .. } = locks.properties();
        let final_check = || {
            let m = Native::new(0, 0);
            let (writes, expected) = (guarded.writes.get(&m), tasks as u32 * operations);
            // How often tasks wrote under a read-write lock does not matter: a lost write is found as a race.
            if !shared && writes != expected {
                return Err(format!("{writes} of {expected} critical sections were counted"));
            }
            if locks.at_rest(&m) { Ok(()) } else { Err(IN_USE.into()) }
        };
        act(&Setup {
            region: locks.region(),
            nodes: &nodes(tasks, numa_aware),
            task: &|m, _| mutation.run(m, &user),
            ipi_handler: None,
            final_check: &final_check,
            // An annotation does not say at which of two locks its task arrives.
            bypasses: (self.locks == 1).then(|| locks.bypasses(NODES)).flatten(),
            symmetric,
        });
    }
}

struct User<'a, L> {
    locks: &'a L,
    count: usize,
    guarded: &'a Guarded,
    acquires: u32,
}

impl<L: Locks> TaskBody for User<'_, L> {
    fn run<M: Machine>(&self, m: &M) {
        let User { locks, count, guarded, acquires } = *self;
        if locks.properties().shared {
            let _writes = contract::shared(locks, m, guarded, acquires);
        } else {
            contract::exclusive(locks, m, 0..count, guarded, acquires);
        }
    }
}
