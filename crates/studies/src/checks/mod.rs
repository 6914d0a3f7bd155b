//! Algorithms under the model checker: the tasks that a lock or mechanism is checked with, and
//! the result. Neither the algorithms nor the checker know of each other; here they meet.

pub mod against_kernel;
pub mod bypass;
pub mod mutants;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

use algorithms::contract::{self, Guarded};
use algorithms::locks::{self, Visitor};
use algorithms::mechanisms::{self, ListedMechanism, Mechanism, Scenario, Settings, operations};
use algorithms::{Lock, Shape, SharedLock};
use engines::checker::{Checked, Failure, IpiHandler, Memory, Setup};
use engines::{Mutant, Mutated, Unsupported};
use machine::{Machine, Native, Region};

use bypass::Fairness;

/// Bytes of a region: enough for the tables of every lock.
const REGION_BYTES: usize = 64 << 10;

const IN_USE: &str = "the lock is still in use";

/// The tasks of a check.
#[derive(Clone, Copy, Debug)]
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
    /// Steps of tasks that were taken.
    pub steps: u64,
    /// Wall time, in seconds.
    pub seconds: f64,
    /// Whether the search ended at its largest number of states.
    pub gave_up: bool,
    /// The fault that was found, with the way to it.
    pub failure: Option<Failure>,
    /// Why it could not be searched at all.
    pub refused: Option<Unsupported>,
    /// Whether a waiter can starve, of a lock that holds.
    pub fairness: Option<Fairness>,
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
    /// A machine that collects the possible mutants.
    Collect(&'a RefCell<BTreeSet<Mutant>>),
}

/// Calls `act` with the tasks of a lock at their start. `None` if no lock has this name.
pub fn with_lock<R>(
    name: &str,
    size: CheckSize,
    mutation: Mutation,
    act: impl FnMut(&Setup) -> R,
) -> Option<io::Result<R>> {
    with_result(act, |act| visit_lock(name, size, mutation, act))
}

/// Calls `act` with the tasks of a lock of this type at their start: of one that is not in the list.
pub fn with_own_lock<L: Lock>(
    size: CheckSize,
    mutation: Mutation,
    act: &mut SetupFn,
) -> io::Result<()> {
    LockCheck { size, mutation, act }.lock::<L>()
}

/// Calls `act` with the tasks of a read-write lock of this type at their start: of one that is not in the list.
pub fn with_own_shared_lock<L: SharedLock>(
    size: CheckSize,
    mutation: Mutation,
    act: &mut SetupFn,
) -> io::Result<()> {
    LockCheck { size, mutation, act }.shared::<L>()
}

/// Calls `act` with the tasks of a mechanism of this type at their start: of one that is not in the list. `None` if it has
/// no such design.
pub fn with_own_mechanism<X: Mechanism>(
    mechanism: &ListedMechanism,
    design: &str,
    scenario: Scenario,
    mutation: Mutation,
    act: &mut SetupFn,
) -> Option<io::Result<()>> {
    use mechanisms::Visitor;
    let settings = scenario.settings(mechanism);
    MechanismCheck { design, scenario, settings, mutation, act }.mechanism::<X>()
}

/// Calls `act` with the tasks of a mechanism in this design, over the lock of this name. `None`
/// if there is no such mechanism, design or lock.
pub fn with_mechanism<R>(
    name: &str,
    design: &str,
    over: &str,
    size: CheckSize,
    mutation: Mutation,
    act: impl FnMut(&Setup) -> R,
) -> Option<io::Result<R>> {
    let scenario = Scenario::new(size.threads, size.acquires);
    with_scenario(name, design, over, scenario, mutation, act)
}

/// Calls `act` with the tasks of a mechanism in this design and scenario, over the lock of this
/// name. `None` if there is no such mechanism, design or lock.
pub fn with_scenario<R>(
    name: &str,
    design: &str,
    over: &str,
    scenario: Scenario,
    mutation: Mutation,
    act: impl FnMut(&Setup) -> R,
) -> Option<io::Result<R>> {
    with_result(act, |act| visit_mechanism(name, design, over, scenario, mutation, act))
}

/// What is done with tasks at their start.
pub type SetupFn<'a> = dyn FnMut(&Setup) + 'a;

// The two below have no type parameters: so this crate compiles each lock and mechanism once, and not each
// crate that calls them, again for each closure, which would be megabytes.

fn visit_lock(
    name: &str,
    size: CheckSize,
    mutation: Mutation,
    act: &mut SetupFn,
) -> Option<io::Result<()>> {
    locks::visit(name, LockCheck { size, mutation, act })
}

fn visit_mechanism(
    name: &str,
    design: &str,
    over: &str,
    scenario: Scenario,
    mutation: Mutation,
    act: &mut SetupFn,
) -> Option<io::Result<()>> {
    let settings = scenario.settings(ListedMechanism::named(name)?);
    let check = MechanismCheck { design, scenario, settings, mutation, act };
    mechanisms::visit(name, over, check).flatten()
}

/// Returns what `act` returned where `visit` called it.
pub fn with_result<R>(
    mut act: impl FnMut(&Setup) -> R,
    visit: impl FnOnce(&mut SetupFn) -> Option<io::Result<()>>,
) -> Option<io::Result<R>> {
    let mut result = None;
    match visit(&mut |setup| result = Some(act(setup)))? {
        Ok(()) => result.map(Ok),
        Err(error) => Some(Err(error)),
    }
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
            Mutation::Collect(possible) => Mutated::collecting(m, possible),
        });
    }
}

struct MechanismCheck<'a> {
    design: &'a str,
    scenario: Scenario,
    settings: Settings,
    mutation: Mutation<'a>,
    act: &'a mut SetupFn<'a>,
}

impl mechanisms::Visitor for MechanismCheck<'_> {
    type Out = Option<io::Result<()>>;

    fn mechanism<X: Mechanism>(self) -> Self::Out {
        let (_, design) = X::DESIGNS.iter().find(|(name, _)| *name == self.design)?;
        let Scenario { tasks, operations, .. } = self.scenario;
        Some(Region::new(X::bytes(tasks, &self.settings)).map(|region| {
            let mechanism = X::new(&region, *design, tasks, &self.settings);
            let task = |m: &Checked, task: usize| {
                self.mutation.run(m, &Operations { mechanism: &mechanism, task, operations });
            };
            let ipi_handler = |m: &Checked, _: usize| {
                self.mutation.run(m, &Interrupt { mechanism: &mechanism });
            };
            let all_operations = tasks as u64 * u64::from(operations);
            let setup = Setup {
                region: &region,
                nodes: &vec![0; tasks],
                task: &task,
                ipi_handler: X::INTERRUPTS.then_some(&ipi_handler as &IpiHandler),
                final_check: &|| mechanism.check(&Native::new(0, 0), all_operations),
                bypasses: None,
                // Each task has things of its own.
                symmetric: false,
            };
            (self.act)(&setup);
        }))
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

struct LockCheck<'a> {
    size: CheckSize,
    mutation: Mutation<'a>,
    act: &'a mut SetupFn<'a>,
}

/// Memory nodes that the CPUs of NUMA-aware locks are on.
const NODES: u32 = 2;

/// The nodes of the tasks' CPUs: two, for a lock that distinguishes nodes.
fn nodes(threads: usize, numa_aware: bool) -> Vec<usize> {
    let nodes = if numa_aware { NODES as usize } else { 1 };
    (0..threads).map(|cpu| cpu % nodes).collect()
}

impl Visitor for LockCheck<'_> {
    type Out = io::Result<()>;

    fn lock<L: Lock>(self) -> io::Result<()> {
        let CheckSize { threads, acquires, locks } = self.size;
        let shape = Shape::searched(threads, locks);
        let region = Region::new(REGION_BYTES + L::more_bytes(shape))?;
        let lock = L::new(&region, shape);
        let at = &*region.array::<L::Mem>("lock", locks);
        at.iter().for_each(|at| lock.prepare(at));
        let guarded = &region.array::<Guarded>("guarded", 1)[0];
        let user = ExclusiveUser { lock: &lock, at, guarded, acquires };
        let final_check = || {
            let m = Native::new(0, 0);
            let (writes, expected) = (guarded.writes.get(&m), threads as u32 * acquires);
            if writes != expected {
                return Err(format!("{writes} of {expected} critical sections were counted"));
            }
            if at.iter().all(|at| lock.at_rest(&m, at)) { Ok(()) } else { Err(IN_USE.into()) }
        };
        let setup = Setup {
            region: &region,
            nodes: &nodes(threads, L::NUMA_AWARE),
            task: &|m, _| self.mutation.run(m, &user),
            ipi_handler: None,
            final_check: &final_check,
            // An annotation does not say at which of two locks its task arrives.
            bypasses: (locks == 1).then(|| lock.bypasses(NODES)).flatten(),
            symmetric: L::SYMMETRIC,
        };
        (self.act)(&setup);
        Ok(())
    }

    fn shared<L: SharedLock>(self) -> io::Result<()> {
        let CheckSize { threads, acquires, .. } = self.size;
        let shape = Shape::searched(threads, 1);
        let region = Region::new(REGION_BYTES + L::more_bytes(shape))?;
        let lock = L::new(&region, shape);
        let at = &region.array::<L::Mem>("lock", 1)[0];
        lock.prepare(at);
        let guarded = &region.array::<Guarded>("guarded", 1)[0];
        let user = SharingUser { lock: &lock, at, guarded, acquires };
        let final_check = || {
            let is_at_rest = lock.at_rest(&Native::new(0, 0), at);
            if is_at_rest { Ok(()) } else { Err(IN_USE.to_string()) }
        };
        let setup = Setup {
            region: &region,
            nodes: &nodes(threads, L::NUMA_AWARE),
            task: &|m, _| self.mutation.run(m, &user),
            ipi_handler: None,
            final_check: &final_check,
            bypasses: None,
            symmetric: L::SYMMETRIC,
        };
        (self.act)(&setup);
        Ok(())
    }
}

struct ExclusiveUser<'a, L: Lock> {
    lock: &'a L,
    at: &'a [L::Mem],
    guarded: &'a Guarded,
    acquires: u32,
}

impl<L: Lock> TaskBody for ExclusiveUser<'_, L> {
    fn run<M: Machine>(&self, m: &M) {
        contract::exclusive(self.lock, m, self.at, self.guarded, self.acquires);
    }
}

struct SharingUser<'a, L: SharedLock> {
    lock: &'a L,
    at: &'a L::Mem,
    guarded: &'a Guarded,
    acquires: u32,
}

impl<L: SharedLock> TaskBody for SharingUser<'_, L> {
    fn run<M: Machine>(&self, m: &M) {
        // How often the task wrote does not matter: a lost write is found as a race.
        let _writes = contract::shared(self.lock, m, self.at, self.guarded, self.acquires);
    }
}
