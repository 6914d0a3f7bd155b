//! Mutants of an algorithm: each has one access that does less, and is searched until a fault is
//! found. A mutant that no search catches must be listed as equivalent, with a reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use algorithms::locks::{ListedLock, PARTS, Visitor, visit};
use algorithms::mechanisms::{ListedMechanism, Scenario};
use algorithms::{Equivalent, Lock, SharedLock};
use anyhow::{Context, Result, bail};
use engines::checker::{Failure, Fault, Memory, Options, SearchResult, Setup, sample, search};
use engines::{AccessChange, Mutant};
use host::in_parallel;
use machine::CodeSite;

use super::{CheckSize, Mutation, SetupFn, visit_lock, visit_mechanism, with_result};

/// Sizes to try, the cheapest first. Reuse of a node needs two acquires, or three with another
/// task queued behind it; a queue needs three tasks; state kept for each lock needs two locks.
const SIZES: &[CheckSize] = &[
    CheckSize { threads: 2, acquires: 1, locks: 1 },
    CheckSize { threads: 2, acquires: 2, locks: 1 },
    CheckSize { threads: 2, acquires: 2, locks: 2 },
    CheckSize { threads: 3, acquires: 1, locks: 1 },
    CheckSize { threads: 4, acquires: 1, locks: 1 },
    CheckSize { threads: 3, acquires: 2, locks: 1 },
    CheckSize { threads: 2, acquires: 3, locks: 1 },
];

/// Sizes of which some schedules are sampled: many locks have too many states there.
const LOCK_SAMPLED: [CheckSize; 2] = [
    CheckSize { threads: 3, acquires: 3, locks: 1 },
    CheckSize { threads: 4, acquires: 2, locks: 1 },
];
const LOCK_SCHEDULES: u64 = 5000;

/// Sizes in which the lock without a mutant has more states are not searched whole.
const LOCK_STATES_MAX: u64 = 300_000;

/// How much of those sizes is searched for a mutant that nothing else catches. A fault needs few states where there is one:
/// Linux's qspinlock that does not take back its pending bit ends after 4589 of 3 tasks × 2, and has 22 million without that
/// mutant; 5000 random schedules miss it.
const PARTIAL_STATES_MAX: u64 = 100_000;

/// A bound, because a mutant can make the number of states infinite.
const STATES_MAX: u64 = 1_000_000;

/// A smaller bound, for mutants that are listed as equivalent: each state of an endless wait is kept until the search
/// leaves it, and takes kilobytes.
const EQUIVALENT_STATES_MAX: u64 = 100_000;

/// A smaller bound: a mechanism has many designs, and most of them do not differ for a mutant.
const MECHANISM_STATES_MAX: u64 = 100_000;

/// A scenario with too many states to be searched. Sampling some of its schedules first catches
/// most mutants of a mechanism.
const SAMPLED: Scenario = Scenario::new(3, 3);
const SCHEDULES: u64 = 60;

/// The lock inside mechanisms: the one with the fewest states.
const OVER: &str = "test_and_set";

/// A mutant and what became of it.
pub struct JudgedMutant {
    /// The change, and the access.
    pub mutant: Mutant,
    /// The source line of the changed access.
    pub line: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a mutant.
pub enum Fate {
    /// A search or a sampled schedule found a fault.
    Caught(CaughtMutant),
    /// Not caught, and no fault for this reason.
    Equivalent(&'static str),
    /// Not caught, and not listed as equivalent.
    Survived,
}

/// How a mutant was caught.
pub struct CaughtMutant {
    /// The fault that was found first.
    pub fault: Fault,
    /// The tasks that found it.
    pub size: CheckSize,
    /// Settings that differ from those of other searches.
    pub settings: &'static [(&'static str, u64)],
    /// Choices that differ from those of other searches.
    pub choices: &'static [(&'static str, &'static str)],
    /// The memory with which it was found.
    pub memory: Memory,
}

impl CaughtMutant {
    fn in_size(fault: Fault, size: CheckSize, memory: Memory) -> CaughtMutant {
        CaughtMutant { fault, size, settings: &[], choices: &[], memory }
    }

    fn in_scenario(fault: Fault, scenario: &Scenario, memory: Memory) -> CaughtMutant {
        let Scenario { tasks, operations, settings, choices } = *scenario;
        let size = CheckSize { threads: tasks, acquires: operations, locks: 1 };
        CaughtMutant { fault, size, settings, choices, memory }
    }
}

const MEMORIES: [Memory; 2] = [Memory::SequentiallyConsistent, Memory::TotalStoreOrder];

fn options(memory: Memory) -> Options {
    Options { memory, states_max: STATES_MAX, ..Options::default() }
}

/// The listed equivalent that this mutant is.
fn listed_as<'a>(listed: &'a [Equivalent], mutant: &Mutant, line: &str) -> Option<&'a Equivalent> {
    let change = mutant.change.to_string();
    listed.iter().find(|listed| listed.change == change && line.contains(listed.line))
}

/// The fault, unless the mutant only asks for something that the checker lacks.
fn wrong(failure: Option<Failure>) -> Option<Fault> {
    failure.filter(|failure| failure.unsupported().is_none()).map(|failure| failure.fault)
}

fn fate(caught: Option<CaughtMutant>, equivalent: Option<&Equivalent>) -> Fate {
    match (caught, equivalent) {
        (Some(caught), _) => Fate::Caught(caught),
        (None, Some(equivalent)) => Fate::Equivalent(equivalent.why),
        (None, None) => Fate::Survived,
    }
}

// Locks.

/// A lock to mutate: one of the list, or one of the user's own.
pub struct LockSubject<'a> {
    /// The files with accesses to mutate: the end of each path, `/ticket.rs`, and its text.
    pub sources: &'a [(String, &'a str)],
    /// The mutants that break nothing.
    pub equivalent: &'a [Equivalent],
    /// Calls its argument with the tasks of this lock at their start.
    pub with_tasks: &'a WithTasks<'a>,
}

/// Calls its last argument with the tasks of one lock at their start.
pub type WithTasks<'a> =
    dyn Fn(CheckSize, Mutation, &mut SetupFn) -> Result<(), std::io::Error> + Sync + 'a;

impl LockSubject<'_> {
    fn with_tasks<R>(
        &self,
        size: CheckSize,
        mutation: Mutation,
        act: impl FnMut(&Setup) -> R,
    ) -> Result<R> {
        let result = with_result(act, |act| Some((self.with_tasks)(size, mutation, act)));
        Ok(result.context("the tasks of a lock were never started")??)
    }
}

/// Calls `act` with a listed lock as a subject.
fn with_listed<R>(lock: &ListedLock, act: impl FnOnce(&LockSubject) -> R) -> R {
    let own = [(lock.name, lock.source)];
    let sources = own.iter().chain(PARTS).map(|(name, text)| (format!("/{name}.rs"), *text));
    act(&LockSubject {
        sources: &sources.collect::<Vec<_>>(),
        equivalent: visit(lock.name, Equivalents).unwrap_or_default(),
        with_tasks: &|size, mutation, act| {
            visit_lock(lock.name, size, mutation, act).expect("a listed lock")
        },
    })
}

/// Judges all mutants of a lock of the list, in the order of its source.
pub fn judge(lock: &ListedLock) -> Result<Vec<JudgedMutant>> {
    with_listed(lock, judge_lock)
}

/// Judges all mutants of a lock, in the order of its source.
pub fn judge_lock(lock: &LockSubject) -> Result<Vec<JudgedMutant>> {
    let PossibleMutants { mutants, sizes, larger_sizes } = possible_mutants(lock)?;
    let judge_one = |mutant: Mutant| {
        let line = line_of(&mutant.site, lock.sources);
        let equivalent = listed_as(lock.equivalent, &mutant, &line);
        let (sizes, states_max) = match equivalent {
            Some(_) => (&sizes[..sizes.len().min(2)], EQUIVALENT_STATES_MAX),
            None => (&sizes[..], STATES_MAX),
        };
        let mut caught = search_lock(lock, mutant, sizes, &MEMORIES, states_max)?;
        if caught.is_none() && equivalent.is_none() {
            caught = sample_lock(lock, mutant)?;
        }
        if caught.is_none() && equivalent.is_none() {
            let memory = &MEMORIES[..1];
            caught = search_lock(lock, mutant, &larger_sizes, memory, PARTIAL_STATES_MAX)?;
        }
        Ok(JudgedMutant { mutant, line, fate: fate(caught, equivalent) })
    };
    let mutants: Vec<Mutant> = mutants.into_iter().collect();
    in_parallel(mutants.len(), |i| judge_one(mutants[i])).into_iter().collect()
}

/// The possible mutants of a lock, and the sizes in which it can be searched whole, or not.
pub struct PossibleMutants {
    /// Each change of one access in the file.
    pub mutants: BTreeSet<Mutant>,
    sizes: Vec<CheckSize>,
    larger_sizes: Vec<CheckSize>,
}

/// The possible mutants in the file of a listed lock, and in the files that several locks share.
pub fn possible(lock: &ListedLock) -> Result<PossibleMutants> {
    with_listed(lock, possible_mutants)
}

fn possible_mutants(lock: &LockSubject) -> Result<PossibleMutants> {
    let collected = RefCell::new(BTreeSet::new());
    let (mut sizes, mut larger_sizes) = (Vec::new(), Vec::new());
    for &size in SIZES {
        let searched = lock.with_tasks(size, Mutation::Collect(&collected), |setup| {
            let memory = Memory::SequentiallyConsistent;
            search(setup, &Options { states_max: LOCK_STATES_MAX, ..options(memory) })
        });
        let SearchResult { failure, gave_up, .. } = searched??;
        // A lock may be made for tasks that hold one at a time; any other fault hides those of mutants.
        if let Some(unsupported) = failure.as_ref().and_then(Failure::unsupported) {
            return Err(unsupported.clone().into());
        }
        if let Some(failure) = failure.as_ref().filter(|_| size.locks == 1) {
            let CheckSize { threads, acquires, .. } = size;
            bail!(
                "the lock itself is at fault with {threads} tasks × {acquires}, so mutants would say nothing: {}",
                failure.fault
            );
        }
        if failure.is_none() {
            if gave_up { &mut larger_sizes } else { &mut sizes }.push(size);
        }
    }
    let is_own =
        |site: &CodeSite| lock.sources.iter().any(|(name, _)| site.file.ends_with(name.as_str()));
    // The tasks of a lock are not interrupted.
    let applies = |mutant: &Mutant| is_own(&mutant.site) && mutant.change != AccessChange::IrqsOff;
    Ok(PossibleMutants {
        mutants: collected.into_inner().into_iter().filter(applies).collect(),
        sizes,
        larger_sizes,
    })
}

/// Searches a lock with the mutant, up to this number of states in each size.
fn search_lock(
    lock: &LockSubject,
    mutant: Mutant,
    sizes: &[CheckSize],
    memories: &[Memory],
    states_max: u64,
) -> Result<Option<CaughtMutant>> {
    for &memory in memories {
        let options = Options { states_max, ..options(memory) };
        for &size in sizes {
            let mutation = Mutation::Apply(mutant);
            let searched = lock.with_tasks(size, mutation, |setup| search(setup, &options))??;
            if let Some(fault) = wrong(searched.failure) {
                return Ok(Some(CaughtMutant::in_size(fault, size, memory)));
            }
        }
    }
    Ok(None)
}

/// Samples schedules of a lock with the mutant.
fn sample_lock(lock: &LockSubject, mutant: Mutant) -> Result<Option<CaughtMutant>> {
    for size in LOCK_SAMPLED {
        let memory = Memory::SequentiallyConsistent;
        let sampled = lock.with_tasks(size, Mutation::Apply(mutant), |setup| {
            sample(setup, &options(memory), LOCK_SCHEDULES, 3, 1)
        });
        if let Some(fault) = wrong(sampled??.failure) {
            return Ok(Some(CaughtMutant::in_size(fault, size, memory)));
        }
    }
    Ok(None)
}

// Mechanisms.

/// A mechanism to mutate: one of the list, or one of the user's own.
pub struct MechanismSubject<'a> {
    /// Its name, designs and settings.
    pub mechanism: &'a ListedMechanism,
    /// Calls its argument with the tasks of this mechanism at their start.
    pub with_tasks: &'a WithDesign<'a>,
}

/// Calls its last argument with the tasks of one mechanism in this design at their start. `None` if it has no such
/// design.
pub type WithDesign<'a> = dyn Fn(&str, Scenario, Mutation, &mut SetupFn) -> Option<Result<(), std::io::Error>>
    + Sync
    + 'a;

/// Judges all mutants of a listed mechanism, in the order of its source.
pub fn judge_mechanism(mechanism: &ListedMechanism) -> Result<Vec<JudgedMutant>> {
    judge_mechanism_subject(&MechanismSubject {
        mechanism,
        with_tasks: &|design, scenario, mutation, act| {
            visit_mechanism(mechanism.name, design, OVER, scenario, mutation, act)
        },
    })
}

/// Judges all mutants of a mechanism, in the order of its source: each in all designs that have
/// its access, until it is caught in one.
pub fn judge_mechanism_subject(subject: &MechanismSubject) -> Result<Vec<JudgedMutant>> {
    let mechanism = subject.mechanism;
    let mut designs_of: BTreeMap<Mutant, Vec<&str>> = BTreeMap::new();
    let own = [format!("/{}.rs", mechanism.name), format!("/{}/", mechanism.name)];
    for design in mechanism.designs() {
        let collected = RefCell::new(BTreeSet::new());
        let collect = Mutation::Collect(&collected);
        for scenario in scenarios_reaching_more(mechanism).chain([&SAMPLED]) {
            let memory = Memory::SequentiallyConsistent;
            let fault = subject.sample_design(design, *scenario, collect, memory)?;
            if let Some(fault) = fault {
                bail!(
                    "the design {design} itself is at fault, so mutants would say nothing: {fault}"
                );
            }
        }
        for mutant in collected.into_inner() {
            let is_own = own.iter().any(|path| mutant.site.file.contains(path));
            if is_own && (mechanism.interrupts || mutant.change != AccessChange::IrqsOff) {
                designs_of.entry(mutant).or_default().push(design);
            }
        }
    }
    let sources: Vec<_> = [(mechanism.name, mechanism.source)]
        .iter()
        .chain(mechanism.parts)
        .map(|(name, text)| (format!("/{name}.rs"), *text))
        .collect();
    let judge_one = |(mutant, designs): &(Mutant, Vec<&str>)| {
        let line = line_of(&mutant.site, &sources);
        let equivalent = listed_as(mechanism.equivalent, mutant, &line);
        let mut caught = subject.sample_designs(designs, equivalent, *mutant)?;
        if caught.is_none() && equivalent.is_none() {
            caught = subject.search_designs(designs, *mutant)?;
        }
        Ok(JudgedMutant { mutant: *mutant, line, fate: fate(caught, equivalent) })
    };
    let mutants: Vec<_> = designs_of.into_iter().collect();
    in_parallel(mutants.len(), |i| judge_one(&mutants[i])).into_iter().collect()
}

impl MechanismSubject<'_> {
    /// Samples schedules of these designs with the mutant; fewer where it is listed as equivalent.
    fn sample_designs(
        &self,
        designs: &[&str],
        equivalent: Option<&Equivalent>,
        mutant: Mutant,
    ) -> Result<Option<CaughtMutant>> {
        let several = equivalent.is_none().then(|| scenarios_of_several_tasks(self.mechanism));
        let scenarios = scenarios_of_one_task(self.mechanism).chain([&SAMPLED]);
        for scenario in scenarios.chain(several.into_iter().flatten()) {
            for memory in MEMORIES {
                for design in designs {
                    let mutation = Mutation::Apply(mutant);
                    let fault = self.sample_design(design, *scenario, mutation, memory)?;
                    if let Some(fault) = fault {
                        return Ok(Some(CaughtMutant::in_scenario(fault, scenario, memory)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Searches these designs with the mutant.
    fn search_designs(&self, designs: &[&str], mutant: Mutant) -> Result<Option<CaughtMutant>> {
        for scenario in scenarios_of_several_tasks(self.mechanism) {
            for memory in MEMORIES {
                for design in designs {
                    let options = Options { states_max: MECHANISM_STATES_MAX, ..options(memory) };
                    let search = |setup: &Setup| search(setup, &options);
                    let mutation = Mutation::Apply(mutant);
                    let searched = self.with_tasks(design, *scenario, mutation, search)??;
                    if let Some(fault) = wrong(searched.failure) {
                        return Ok(Some(CaughtMutant::in_scenario(fault, scenario, memory)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Samples schedules of a design; a scenario of one task has only one.
    fn sample_design(
        &self,
        design: &str,
        scenario: Scenario,
        mutation: Mutation,
        memory: Memory,
    ) -> Result<Option<Fault>> {
        let schedules = if scenario.tasks == 1 { 1 } else { SCHEDULES };
        let sample = |setup: &Setup| sample(setup, &options(memory), schedules, 3, 1);
        let sampled = self.with_tasks(design, scenario, mutation, sample)??;
        Ok(wrong(sampled.failure))
    }

    fn with_tasks<R>(
        &self,
        design: &str,
        scenario: Scenario,
        mutation: Mutation,
        act: impl FnMut(&Setup) -> R,
    ) -> Result<R> {
        let result = with_result(act, |act| (self.with_tasks)(design, scenario, mutation, act));
        Ok(result.context("a mechanism has the designs that it lists")??)
    }
}

fn scenarios_of_one_task(mechanism: &ListedMechanism) -> impl Iterator<Item = &'static Scenario> {
    mechanism.scenarios.iter().filter(|scenario| scenario.tasks == 1)
}

fn scenarios_of_several_tasks(
    mechanism: &ListedMechanism,
) -> impl Iterator<Item = &'static Scenario> {
    mechanism.scenarios.iter().filter(|scenario| scenario.tasks > 1)
}

/// Scenarios that reach accesses which [`SAMPLED`] does not.
fn scenarios_reaching_more(mechanism: &ListedMechanism) -> impl Iterator<Item = &'static Scenario> {
    let reaches_more = |s: &&Scenario| s.tasks == 1 || !s.choices.is_empty();
    mechanism.scenarios.iter().filter(reaches_more)
}

/// The source line of a site; `sources` are the ends of the paths and the texts of files.
fn line_of(site: &CodeSite, sources: &[(String, &str)]) -> String {
    let is_its_file = |(name, _): &&(String, &str)| site.file.ends_with(name.as_str());
    let source = sources.iter().find(is_its_file).map_or("", |(_, source)| source);
    let line = source.lines().nth(site.line as usize - 1).unwrap_or_default();
    line.trim().to_string()
}

struct Equivalents;

impl Visitor for Equivalents {
    type Out = &'static [Equivalent];

    fn lock<L: Lock>(self) -> Self::Out {
        L::EQUIVALENT
    }

    fn shared<L: SharedLock>(self) -> Self::Out {
        L::EQUIVALENT
    }
}
