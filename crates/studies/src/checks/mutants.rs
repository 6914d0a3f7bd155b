//! Mutants of an algorithm: each of its accesses made to do less, one at a time, and searched until
//! something is wrong. One that nothing finds must be known as equivalent, with a reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use algorithms::{Equivalent, Lock, SharedLock};
use algorithms::locks::{ListedLock, NODES_SOURCE, Visitor, visit};
use algorithms::mechanisms::{self, ListedMechanism, Mechanism, Scenario};
use anyhow::{Context, Result};
use engines::checker::{Failure, Fault, Memory, Options, Setup, sample, search};
use engines::{Change, Mutant, Site};
use host::in_parallel;

use super::{Between, Size, with_scenario, with_setup};

/// Sizes to try, the cheapest first: reuse of a node needs two turns, with somebody behind it
/// three, a queue three tasks, and what is kept for each lock two locks.
const SIZES: &[Size] = &[
    Size { threads: 2, acquires: 1, locks: 1 },
    Size { threads: 2, acquires: 2, locks: 1 },
    Size { threads: 2, acquires: 2, locks: 2 },
    Size { threads: 3, acquires: 1, locks: 1 },
    Size { threads: 4, acquires: 1, locks: 1 },
    Size { threads: 3, acquires: 2, locks: 1 },
    Size { threads: 2, acquires: 3, locks: 1 },
];

/// Of more tasks, which many locks have too many states for, some schedules.
const LOCK_SAMPLED: [Size; 2] =
    [Size { threads: 3, acquires: 3, locks: 1 }, Size { threads: 4, acquires: 2, locks: 1 }];
const LOCK_SCHEDULES: u64 = 5000;

/// Sizes in which the lock itself has more states are left out.
const LOCK_STATES_MAX: u64 = 300_000;

/// A mutant can make the states more than finite.
const STATES_MAX: u64 = 1_000_000;

/// A mechanism has many designs, and most of them are alike to a mutant.
const MECHANISM_STATES_MAX: u64 = 100_000;

/// Of the designs of a mechanism some schedules are tried first, also of these tasks, which have
/// too many states to be searched: that finds most.
const SAMPLED: Scenario = Scenario::new(3, 3);
const SCHEDULES: u64 = 60;

/// The lock that mechanisms are over: that with the fewest states.
const OVER: &str = "test_and_set";

/// What became of a mutant.
pub struct Judged {
    /// What was changed, and where.
    pub mutant: Mutant,
    /// The source line of its access.
    pub line: String,
    /// Whether that was found.
    pub fate: Fate,
}

/// Whether a mutant was found.
pub enum Fate {
    /// Found, as this fault.
    Caught(Caught),
    /// Not found, and no fault for this reason.
    Equivalent(&'static str),
    /// Not found.
    Survived,
}

/// How a mutant was found.
pub struct Caught {
    /// What was wrong.
    pub fault: Fault,
    /// With tasks like that.
    pub size: Size,
    /// What was set other than in other searches.
    pub settings: &'static [(&'static str, u64)],
    /// What was chosen other than in other searches.
    pub choices: &'static [(&'static str, &'static str)],
    /// In this memory model.
    pub memory: Memory,
}

impl Caught {
    fn with(fault: Fault, scenario: &Scenario, memory: Memory) -> Caught {
        let Scenario { tasks, operations, settings, choices } = *scenario;
        Caught {
            fault,
            size: Size { threads: tasks, acquires: operations, locks: 1 },
            settings,
            choices,
            memory,
        }
    }
}

const MEMORIES: [Memory; 2] = [Memory::SequentiallyConsistent, Memory::TotalStoreOrder];

fn options(memory: Memory) -> Options {
    Options { memory, states_max: STATES_MAX, ..Options::default() }
}

/// The reason why a mutant is no fault, where one is listed.
fn known<'a>(all: &'a [Equivalent], mutant: &Mutant, line: &str) -> Option<&'a Equivalent> {
    let change = mutant.change.to_string();
    all.iter().find(|known| known.change == change && line.contains(known.line))
}

fn fate(caught: Option<Caught>, known: Option<&Equivalent>) -> Fate {
    match (caught, known) {
        (Some(caught), _) => Fate::Caught(caught),
        (None, Some(known)) => Fate::Equivalent(known.why),
        (None, None) => Fate::Survived,
    }
}

// Of locks.

/// All mutants of a lock, in the order of its source.
pub fn judge(lock: &ListedLock) -> Result<Vec<Judged>> {
    let equivalent = visit(lock.name, Equivalents).unwrap_or_default();
    let Possible { mutants, sizes } = possible(lock)?;
    let judge_one = |mutant: Mutant| {
        let line = line_of(&mutant.site, &[(lock.name, lock.source), ("nodes", NODES_SOURCE)]);
        let known = known(equivalent, &mutant, &line);
        let mut caught = match known {
            Some(_) => self::caught(lock.name, mutant, &sizes[..sizes.len().min(2)])?,
            None => self::caught(lock.name, mutant, &sizes)?,
        };
        if caught.is_none() && known.is_none() {
            caught = caught_by_chance(lock.name, mutant)?;
        }
        Ok(Judged { mutant, line, fate: fate(caught, known) })
    };
    let mutants: Vec<Mutant> = mutants.into_iter().collect();
    in_parallel(mutants.len(), |i| judge_one(mutants[i])).into_iter().collect()
}

/// What can be changed in a lock, and where that can be searched.
pub struct Possible {
    /// All changes that accesses allow.
    pub mutants: BTreeSet<Mutant>,
    sizes: Vec<Size>,
}

/// What can be changed in the file of the lock, and in the nodes that it shares with others.
pub fn possible(lock: &ListedLock) -> Result<Possible> {
    let noted = RefCell::new(BTreeSet::new());
    let mut sizes = Vec::new();
    for &size in SIZES {
        let searched = with_setup(lock.name, size, Between::Noting(&noted), |setup| {
            let memory = Memory::SequentiallyConsistent;
            search(setup, &Options { states_max: LOCK_STATES_MAX, ..options(memory) })
        });
        if !searched.context("a listed lock")???.gave_up {
            sizes.push(size);
        }
    }
    let own = format!("/{}.rs", lock.name);
    let belongs = |site: &Site| site.file.ends_with(&own) || site.file.ends_with("/nodes.rs");
    // Nobody interrupts who uses a lock here.
    let can_be = |mutant: &Mutant| belongs(&mutant.site) && mutant.change != Change::Deaf;
    Ok(Possible { mutants: noted.into_inner().into_iter().filter(can_be).collect(), sizes })
}

/// Searches with the mutant, without store buffers and with them.
fn caught(name: &str, mutant: Mutant, sizes: &[Size]) -> Result<Option<Caught>> {
    for memory in MEMORIES {
        for &size in sizes {
            let searched = with_setup(name, size, Between::Mutant(mutant), |setup| {
                search(setup, &options(memory))
            });
            let searched = searched.context("a listed lock")???;
            if let Some(Failure { fault, .. }) = searched.failure {
                return Ok(Some(Caught { fault, size, settings: &[], choices: &[], memory }));
            }
        }
    }
    Ok(None)
}

/// Tries schedules with the mutant.
fn caught_by_chance(name: &str, mutant: Mutant) -> Result<Option<Caught>> {
    for size in LOCK_SAMPLED {
        let memory = Memory::SequentiallyConsistent;
        let sampled = with_setup(name, size, Between::Mutant(mutant), |setup| {
            sample(setup, &options(memory), LOCK_SCHEDULES, 3, 1)
        });
        if let Some(Failure { fault, .. }) = sampled.context("a listed lock")???.failure {
            return Ok(Some(Caught { fault, size, settings: &[], choices: &[], memory }));
        }
    }
    Ok(None)
}

// Of mechanisms.

/// All mutants of a mechanism, in the order of its source: each in all designs that have its
/// access, until one finds it.
pub fn judge_mechanism(mechanism: &ListedMechanism) -> Result<Vec<Judged>> {
    let found = mechanisms::visit(mechanism.name, OVER, PropertiesOf);
    let properties = found.context("a listed mechanism")?;
    let mut designs_of: BTreeMap<Mutant, Vec<&str>> = BTreeMap::new();
    let own = [format!("/{}.rs", mechanism.name), format!("/{}/", mechanism.name)];
    for design in mechanism.designs() {
        let noted = RefCell::new(BTreeSet::new());
        let between = Between::Noting(&noted);
        for scenario in properties.reaching_more().chain([&SAMPLED]) {
            some(mechanism, design, *scenario, between, Memory::SequentiallyConsistent)?;
        }
        for mutant in noted.into_inner() {
            let belongs = own.iter().any(|part| mutant.site.file.contains(part));
            if belongs && (properties.interrupts || mutant.change != Change::Deaf) {
                designs_of.entry(mutant).or_default().push(design);
            }
        }
    }
    let sources: Vec<_> = [(mechanism.name, mechanism.source)]
        .into_iter()
        .chain(properties.parts.iter().copied())
        .collect();
    let judge_one = |(mutant, designs): &(Mutant, Vec<&str>)| {
        let line = line_of(&mutant.site, &sources);
        let known = known(properties.equivalent, mutant, &line);
        let mut caught = caught_by_some(mechanism, designs, &properties, known, *mutant)?;
        if caught.is_none() && known.is_none() {
            caught = caught_in(mechanism, designs, &properties, *mutant)?;
        }
        Ok(Judged { mutant: *mutant, line, fate: fate(caught, known) })
    };
    let mutants: Vec<_> = designs_of.into_iter().collect();
    in_parallel(mutants.len(), |i| judge_one(&mutants[i])).into_iter().collect()
}

/// Looks for a mutant in some schedules of these designs.
fn caught_by_some(
    mechanism: &ListedMechanism,
    designs: &[&str],
    properties: &Properties,
    known: Option<&Equivalent>,
    mutant: Mutant,
) -> Result<Option<Caught>> {
    let between = Between::Mutant(mutant);
    let several = known.is_none().then(|| properties.of_several());
    for scenario in properties.alone().chain([&SAMPLED]).chain(several.into_iter().flatten()) {
        for memory in MEMORIES {
            for design in designs {
                if let Some(fault) = some(mechanism, design, *scenario, between, memory)? {
                    return Ok(Some(Caught::with(fault, scenario, memory)));
                }
            }
        }
    }
    Ok(None)
}

/// Searches these designs for it.
fn caught_in(
    mechanism: &ListedMechanism,
    designs: &[&str],
    properties: &Properties,
    mutant: Mutant,
) -> Result<Option<Caught>> {
    let between = Between::Mutant(mutant);
    for scenario in properties.of_several() {
        for memory in MEMORIES {
            for design in designs {
                let options = Options { states_max: MECHANISM_STATES_MAX, ..options(memory) };
                let all = |setup: &Setup| search(setup, &options);
                let found = with_scenario(mechanism.name, design, OVER, *scenario, between, all);
                let found = found.context("a listed mechanism and lock")???;
                if let Some(Failure { fault, .. }) = found.failure {
                    return Ok(Some(Caught::with(fault, scenario, memory)));
                }
            }
        }
    }
    Ok(None)
}

/// Tries some schedules of a design.
fn some(
    mechanism: &ListedMechanism,
    design: &str,
    scenario: Scenario,
    between: Between,
    memory: Memory,
) -> Result<Option<Fault>> {
    let schedules = if scenario.tasks == 1 { 1 } else { SCHEDULES };
    let some = |setup: &Setup| sample(setup, &options(memory), schedules, 3, 1);
    let found = with_scenario(mechanism.name, design, OVER, scenario, between, some);
    let found = found.context("a listed mechanism and lock")???;
    Ok(found.failure.map(|failure| failure.fault))
}

struct Properties {
    equivalent: &'static [Equivalent],
    interrupts: bool,
    scenarios: &'static [Scenario],
    parts: &'static [(&'static str, &'static str)],
}

impl Properties {
    /// Searches in which there is one schedule.
    fn alone(&self) -> impl Iterator<Item = &'static Scenario> {
        self.scenarios.iter().filter(|scenario| scenario.tasks == 1)
    }

    /// Searches that come to accesses to which others do not.
    fn reaching_more(&self) -> impl Iterator<Item = &'static Scenario> {
        self.scenarios.iter().filter(|scenario| scenario.tasks == 1 || !scenario.choices.is_empty())
    }

    fn of_several(&self) -> impl Iterator<Item = &'static Scenario> {
        self.scenarios.iter().filter(|scenario| scenario.tasks > 1)
    }
}

struct PropertiesOf;

impl mechanisms::Visitor for PropertiesOf {
    type Out = Properties;

    fn mechanism<X: Mechanism>(self) -> Properties {
        Properties {
            equivalent: X::EQUIVALENT,
            interrupts: X::INTERRUPTS,
            scenarios: X::SCENARIOS,
            parts: X::PARTS,
        }
    }
}

/// The source line of a site, in one of these files by name.
fn line_of(site: &Site, sources: &[(&str, &str)]) -> String {
    let is_it = |(name, _): &&(&str, &str)| site.file.ends_with(&format!("/{name}.rs"));
    let source = sources.iter().find(is_it).map_or("", |(_, source)| source);
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
