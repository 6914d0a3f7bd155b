//! Mutants of an algorithm: each has one access that does less, and is searched until a fault is
//! found. A mutant that no search catches must be listed as equivalent, with a reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use algorithms::mechanisms::{ListedMechanism, Scenario};
use anyhow::{Result, bail};
use engines::checker::{Failure, Fault, Memory, Options, SearchResult, Setup, sample, search};
use engines::{AccessChange, Collected, Mutant, OrderedAccess, Unsupported};
use host::in_parallel;
use machine::{CodeSite, Ordering};

use super::{CheckSize, Mutation, with_scenario, with_tasks};
use crate::subject::{MechanismDesign, Subject};

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
/// mutant; 5000 random schedules miss it. Linux's paravirtual one whose new head does not acquire the link of the next waiter
/// ends after 149 730 of 4 tasks × 1; 60 000 random schedules miss it.
const PARTIAL_STATES_MAX: u64 = 500_000;

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
    Equivalent(String),
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

/// The fault, unless the mutant only asks for something that the checker lacks.
fn wrong(failure: Option<Failure>) -> Option<Fault> {
    failure.filter(|failure| failure.unsupported().is_none()).map(|failure| failure.fault)
}

fn fate(caught: Option<CaughtMutant>, equivalent: Option<String>) -> Fate {
    match (caught, equivalent) {
        (Some(caught), _) => Fate::Caught(caught),
        (None, Some(why)) => Fate::Equivalent(why),
        (None, None) => Fate::Survived,
    }
}

/// Judges all mutants of a subject, in the order of its source; of a mechanism those of all its designs, each of which
/// the others may not have.
pub fn judge(subject: &Subject) -> Result<Vec<JudgedMutant>> {
    judge_under(subject, &MEMORIES)
}

/// As [`judge`], under these memory models. Mechanisms are judged under all but weak memory.
pub fn judge_under(subject: &Subject, memories: &[Memory]) -> Result<Vec<JudgedMutant>> {
    match subject {
        Subject::Mechanism(_) if memories != MEMORIES => {
            let way_out = "leave out --memory";
            Err(Unsupported::new("mutants of mechanisms are judged under sc and x86", way_out)
                .into())
        }
        Subject::Mechanism(design) => judge_designs(subject, design.mechanism),
        Subject::Lock(_) | Subject::InC(_) => judge_tasks(subject, memories),
    }
}

/// Fails if a lock is wrong by itself under one of these memory models: any other fault would hide those of mutants.
fn ensure_right(subject: &Subject, sizes: &[CheckSize], memories: &[Memory]) -> Result<()> {
    for &memory in memories {
        for &size in sizes {
            let options = Options { states_max: LOCK_STATES_MAX, ..options(memory) };
            let searched = with_tasks(subject, size, Mutation::None, |s| search(s, &options))??;
            let Some(failure) = searched.failure else { continue };
            if let Some(unsupported) = failure.unsupported() {
                return Err(unsupported.clone().into());
            }
            let (CheckSize { threads, acquires, .. }, fault) = (size, failure.fault);
            bail!(
                "the lock itself is at fault with {threads} tasks × {acquires}, so mutants would say nothing: {fault}"
            );
        }
    }
    Ok(())
}

// Locks, and programs in C.

fn judge_tasks(subject: &Subject, memories: &[Memory]) -> Result<Vec<JudgedMutant>> {
    let PossibleMutants { mutants, sizes, larger_sizes, .. } = possible(subject)?;
    if memories.contains(&Memory::Rc11) {
        ensure_right(subject, &sizes, &[Memory::Rc11])?;
    }
    let sources = subject.sources();
    let judge_one = |mutant: Mutant| {
        let line = line_of(&mutant.site, &sources);
        let equivalent = subject.why_equivalent(&mutant.change.to_string(), &line);
        let (sizes, states_max) = match equivalent {
            Some(_) => (&sizes[..sizes.len().min(2)], EQUIVALENT_STATES_MAX),
            None => (&sizes[..], STATES_MAX),
        };
        let mut caught = search_sizes(subject, mutant, sizes, memories, states_max)?;
        if caught.is_none() && equivalent.is_none() {
            caught = sample_sizes(subject, mutant)?;
        }
        if caught.is_none() && equivalent.is_none() {
            let memory = &MEMORIES[..1];
            caught = search_sizes(subject, mutant, &larger_sizes, memory, PARTIAL_STATES_MAX)?;
        }
        Ok(JudgedMutant { mutant, line, fate: fate(caught, equivalent) })
    };
    let mutants: Vec<Mutant> = mutants.into_iter().collect();
    in_parallel(mutants.len(), |i| judge_one(mutants[i])).into_iter().collect()
}

/// The possible mutants of a lock or a program in C, and the sizes in which it can be searched whole, or not.
pub struct PossibleMutants {
    /// Each change of one access in its files, also in those that several locks share.
    pub mutants: BTreeSet<Mutant>,
    /// The order of each access there that is not relaxed.
    pub orders: BTreeMap<OrderedAccess, Ordering>,
    pub(super) sizes: Vec<CheckSize>,
    pub(super) larger_sizes: Vec<CheckSize>,
}

/// The possible mutants of a lock or a program in C.
pub fn possible(subject: &Subject) -> Result<PossibleMutants> {
    let collected = RefCell::new(Collected::default());
    let (mut sizes, mut larger_sizes) = (Vec::new(), Vec::new());
    for &size in SIZES {
        let searched = with_tasks(subject, size, Mutation::Collect(&collected), |setup| {
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
    let sources = subject.sources();
    let is_own =
        |site: &CodeSite| sources.iter().any(|(name, _)| site.file.ends_with(name.as_str()));
    // The tasks of a lock are not interrupted.
    let applies = |mutant: &Mutant| is_own(&mutant.site) && mutant.change != AccessChange::IrqsOff;
    let Collected { mutants, mut orders } = collected.into_inner();
    orders.retain(|access, _| is_own(&access.site));
    Ok(PossibleMutants {
        mutants: mutants.into_iter().filter(applies).collect(),
        orders,
        sizes,
        larger_sizes,
    })
}

/// Searches with the mutant, up to this number of states in each size.
fn search_sizes(
    subject: &Subject,
    mutant: Mutant,
    sizes: &[CheckSize],
    memories: &[Memory],
    states_max: u64,
) -> Result<Option<CaughtMutant>> {
    for &memory in memories {
        let options = Options { states_max, ..options(memory) };
        for &size in sizes {
            let mutation = Mutation::Apply(mutant);
            let searched = with_tasks(subject, size, mutation, |setup| search(setup, &options))??;
            if let Some(fault) = wrong(searched.failure) {
                return Ok(Some(CaughtMutant::in_size(fault, size, memory)));
            }
        }
    }
    Ok(None)
}

/// Samples schedules with the mutant.
fn sample_sizes(subject: &Subject, mutant: Mutant) -> Result<Option<CaughtMutant>> {
    for size in LOCK_SAMPLED {
        let memory = Memory::SequentiallyConsistent;
        let sampled = with_tasks(subject, size, Mutation::Apply(mutant), |setup| {
            sample(setup, &options(memory), LOCK_SCHEDULES, 3, 1)
        });
        if let Some(fault) = wrong(sampled??.failure) {
            return Ok(Some(CaughtMutant::in_size(fault, size, memory)));
        }
    }
    Ok(None)
}

// Mechanisms.

/// Judges each mutant in all designs that have its access, until it is caught in one.
fn judge_designs(
    subject: &Subject,
    mechanism: &'static ListedMechanism,
) -> Result<Vec<JudgedMutant>> {
    let mut designs_of: BTreeMap<Mutant, Vec<&'static str>> = BTreeMap::new();
    let own = [format!("/{}.rs", mechanism.name), format!("/{}/", mechanism.name)];
    for design in mechanism.designs() {
        let collected = RefCell::new(Collected::default());
        let collect = Mutation::Collect(&collected);
        for scenario in scenarios_reaching_more(mechanism).chain([&SAMPLED]) {
            let memory = Memory::SequentiallyConsistent;
            let fault = sample_design(mechanism, design, *scenario, collect, memory)?;
            if let Some(fault) = fault {
                bail!(
                    "the design {design} itself is at fault, so mutants would say nothing: {fault}"
                );
            }
        }
        for mutant in collected.into_inner().mutants {
            let is_own = own.iter().any(|path| mutant.site.file.contains(path));
            if is_own && (mechanism.interrupts || mutant.change != AccessChange::IrqsOff) {
                designs_of.entry(mutant).or_default().push(design);
            }
        }
    }
    let sources = subject.sources();
    let judge_one = |(mutant, designs): &(Mutant, Vec<&'static str>)| {
        let line = line_of(&mutant.site, &sources);
        let equivalent = subject.why_equivalent(&mutant.change.to_string(), &line);
        let is_equivalent = equivalent.is_some();
        let mut caught = sample_designs(mechanism, designs, is_equivalent, *mutant)?;
        if caught.is_none() && !is_equivalent {
            caught = search_designs(mechanism, designs, *mutant)?;
        }
        Ok(JudgedMutant { mutant: *mutant, line, fate: fate(caught, equivalent) })
    };
    let mutants: Vec<_> = designs_of.into_iter().collect();
    in_parallel(mutants.len(), |i| judge_one(&mutants[i])).into_iter().collect()
}

/// Samples schedules of these designs with the mutant; fewer where it is listed as equivalent.
fn sample_designs(
    mechanism: &'static ListedMechanism,
    designs: &[&'static str],
    is_equivalent: bool,
    mutant: Mutant,
) -> Result<Option<CaughtMutant>> {
    let several = (!is_equivalent).then(|| scenarios_of_several_tasks(mechanism));
    let scenarios = scenarios_of_one_task(mechanism).chain([&SAMPLED]);
    for scenario in scenarios.chain(several.into_iter().flatten()) {
        for memory in MEMORIES {
            for design in designs {
                let mutation = Mutation::Apply(mutant);
                let fault = sample_design(mechanism, design, *scenario, mutation, memory)?;
                if let Some(fault) = fault {
                    return Ok(Some(CaughtMutant::in_scenario(fault, scenario, memory)));
                }
            }
        }
    }
    Ok(None)
}

/// Searches these designs with the mutant.
fn search_designs(
    mechanism: &'static ListedMechanism,
    designs: &[&'static str],
    mutant: Mutant,
) -> Result<Option<CaughtMutant>> {
    for scenario in scenarios_of_several_tasks(mechanism) {
        for memory in MEMORIES {
            for design in designs {
                let options = Options { states_max: MECHANISM_STATES_MAX, ..options(memory) };
                let (subject, mutation) = (in_design(mechanism, design), Mutation::Apply(mutant));
                let searched =
                    with_scenario(&subject, *scenario, 1, mutation, |s| search(s, &options))??;
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
    mechanism: &'static ListedMechanism,
    design: &'static str,
    scenario: Scenario,
    mutation: Mutation,
    memory: Memory,
) -> Result<Option<Fault>> {
    let schedules = if scenario.tasks == 1 { 1 } else { SCHEDULES };
    let sample = |setup: &Setup| sample(setup, &options(memory), schedules, 3, 1);
    let subject = in_design(mechanism, design);
    Ok(wrong(with_scenario(&subject, scenario, 1, mutation, sample)??.failure))
}

/// The mechanism over the lock with the fewest states.
fn in_design(mechanism: &'static ListedMechanism, design: &'static str) -> Subject {
    let (over, given) = (OVER.to_string(), Vec::new());
    Subject::Mechanism(MechanismDesign { mechanism, design, over, given })
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
pub(super) fn line_of(site: &CodeSite, sources: &[(String, &str)]) -> String {
    let is_its_file = |(name, _): &&(String, &str)| site.file.ends_with(name.as_str());
    let source = sources.iter().find(is_its_file).map_or("", |(_, source)| source);
    let line = source.lines().nth(site.line as usize - 1).unwrap_or_default();
    line.trim().to_string()
}
