//! Mutants of an algorithm: each of its accesses made to do less, one at a time, and searched until
//! something is wrong. One that nothing finds must be known as equivalent, with a reason.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use algorithms::Equivalent;
use algorithms::locks::{Algorithm, LOCKS, Visitor, visit};
use algorithms::mechanisms::{self, Entry, MECHANISMS, Mechanism};
use algorithms::{Lock, SharedLock};
use anyhow::{Context, Result};
use engines::explored::{Failure, Fault, Memory, Options, Setup, sample, search};
use engines::{Change, Mutant, Site};

use super::{Between, Size, with_mechanism, with_setup};

/// Sizes to try, the cheapest first: reuse of a node needs two turns, a queue three tasks,
/// and what is kept for each lock two locks.
const SIZES: &[Size] = &[
    Size { threads: 2, acquires: 1, locks: 1 },
    Size { threads: 2, acquires: 2, locks: 1 },
    Size { threads: 2, acquires: 2, locks: 2 },
    Size { threads: 3, acquires: 1, locks: 1 },
    Size { threads: 4, acquires: 1, locks: 1 },
    Size { threads: 3, acquires: 2, locks: 1 },
];

/// Sizes for the designs of a mechanism, and one of which only some schedules are tried.
const MECHANISM_SIZES: &[Size] =
    &[Size { threads: 2, acquires: 1, locks: 1 }, Size { threads: 2, acquires: 2, locks: 1 }];
const SAMPLED: Size = Size { threads: 3, acquires: 3, locks: 1 };
const SCHEDULES: u64 = 300;

/// A mechanism has too many states for that to be done for each mutant to the end.
const MECHANISM_STATES_MAX: u64 = 100_000;

/// The lock that mechanisms are over: that with the fewest states.
const OVER: &str = "test_and_set";

/// A mutant can make the states more than finite.
const STATES_MAX: u64 = 1_000_000;

/// What became of a mutant.
pub struct Judged {
    pub mutant: Mutant,
    /// The source line of its access.
    pub line: String,
    pub fate: Fate,
}

pub enum Fate {
    /// Found, as this fault, with tasks like that.
    Caught { fault: Fault, size: Size, memory: Memory },
    /// Not found, and no fault for this reason.
    Equivalent(&'static str),
    /// Not found.
    Survived,
}

/// All mutants of a lock, in the order of its source.
pub fn judge(lock: &Algorithm) -> Result<Vec<Judged>> {
    let equivalent = visit(lock.name, Equivalents).unwrap_or_default();
    let mutants = possible(lock)?;
    mutants.into_iter().map(|mutant| judge_one(lock, mutant, equivalent)).collect()
}

/// All mutants of a mechanism, in the order of its source: each in all designs that have its
/// access, until one finds it.
pub fn judge_mechanism(mechanism: &Entry) -> Result<Vec<Judged>> {
    let found = mechanisms::visit(mechanism.name, OVER, Properties);
    let (equivalent, interrupts) = found.context("a listed mechanism")?;
    let mut mutants: BTreeMap<Mutant, Vec<&str>> = BTreeMap::new();
    let own = format!("/{}.rs", mechanism.name);
    for design in mechanism.designs() {
        let noted = RefCell::new(BTreeSet::new());
        some(mechanism, design, Between::Noting(&noted), Memory::SequentiallyConsistent)?;
        for mutant in noted.into_inner() {
            if mutant.site.file.ends_with(&own) && (interrupts || mutant.change != Change::Deaf) {
                mutants.entry(mutant).or_default().push(design);
            }
        }
    }
    let judge_one = |(mutant, designs): (Mutant, Vec<&str>)| {
        let line = line_of(&mutant.site);
        let known = known(equivalent, &mutant, &line);
        let sizes = if known.is_some() { &MECHANISM_SIZES[..1] } else { MECHANISM_SIZES };
        let fate = match caught_in(mechanism, &designs, sizes, mutant)? {
            Some(caught) => caught,
            None => known.map_or(Fate::Survived, |known| Fate::Equivalent(known.why)),
        };
        Ok(Judged { mutant, line, fate })
    };
    mutants.into_iter().map(judge_one).collect()
}

/// Looks for a mutant in these designs: in some schedules, which finds most, and then in all.
fn caught_in(
    mechanism: &Entry,
    designs: &[&str],
    sizes: &[Size],
    mutant: Mutant,
) -> Result<Option<Fate>> {
    let between = Between::Mutant(mutant);
    for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
        for design in designs {
            if let Some(fault) = some(mechanism, design, between, memory)? {
                return Ok(Some(Fate::Caught { fault, size: SAMPLED, memory }));
            }
        }
    }
    for &size in sizes {
        for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
            for design in designs {
                let options = Options { states_max: MECHANISM_STATES_MAX, ..options(memory) };
                let all = |setup: &Setup| search(setup, &options);
                let found = with_mechanism(mechanism.name, design, OVER, size, between, all);
                let found = found.context("a listed mechanism and lock")???;
                if let Some(Failure { fault, .. }) = found.failure {
                    return Ok(Some(Fate::Caught { fault, size, memory }));
                }
            }
        }
    }
    Ok(None)
}

/// Tries some schedules of a design.
fn some(
    mechanism: &Entry,
    design: &str,
    between: Between,
    memory: Memory,
) -> Result<Option<Fault>> {
    let some = |setup: &Setup| sample(setup, &options(memory), SCHEDULES, 3, 1);
    let found = with_mechanism(mechanism.name, design, OVER, SAMPLED, between, some);
    let found = found.context("a listed mechanism and lock")???;
    Ok(found.failure.map(|failure| failure.fault))
}

/// The reason why a mutant is no fault, where one is listed.
fn known<'a>(all: &'a [Equivalent], mutant: &Mutant, line: &str) -> Option<&'a Equivalent> {
    let change = mutant.change.to_string();
    all.iter().find(|known| known.change == change && line.contains(known.line))
}

struct Properties;

impl mechanisms::Visitor for Properties {
    type Out = (&'static [Equivalent], bool);

    fn mechanism<X: Mechanism>(self) -> Self::Out {
        (X::EQUIVALENT, X::INTERRUPTS)
    }
}

/// What can be changed in the file of the lock, and in the nodes that it shares with others.
pub fn possible(lock: &Algorithm) -> Result<BTreeSet<Mutant>> {
    let noted = RefCell::new(BTreeSet::new());
    for &size in &SIZES[..SIZES.len() - 1] {
        let searched = with_setup(lock.name, size, Between::Noting(&noted), |setup| {
            search(setup, &options(Memory::SequentiallyConsistent))
        });
        searched.context("a listed lock")???;
    }
    let own = format!("/{}.rs", lock.name);
    let belongs = |site: &Site| site.file.ends_with(&own) || site.file.ends_with("/nodes.rs");
    // Nobody interrupts who uses a lock here.
    let can_be = |mutant: &Mutant| belongs(&mutant.site) && mutant.change != Change::Deaf;
    Ok(noted.into_inner().into_iter().filter(can_be).collect())
}

fn options(memory: Memory) -> Options {
    Options { memory, states_max: STATES_MAX, ..Options::default() }
}

fn judge_one(
    lock: &Algorithm,
    mutant: Mutant,
    equivalent: &'static [Equivalent],
) -> Result<Judged> {
    let line = line_of(&mutant.site);
    let known = known(equivalent, &mutant, &line);
    let caught = caught(lock.name, mutant, known.is_some())?;
    let fate = caught.unwrap_or(match known {
        Some(known) => Fate::Equivalent(known.why),
        None => Fate::Survived,
    });
    Ok(Judged { mutant, line, fate })
}

/// Searches with the mutant, without store buffers and with them.
fn caught(name: &str, mutant: Mutant, quickly: bool) -> Result<Option<Fate>> {
    for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
        for &size in if quickly { &SIZES[..4] } else { SIZES } {
            let searched = with_setup(name, size, Between::Mutant(mutant), |setup| {
                search(setup, &options(memory))
            });
            let searched = searched.context("a listed lock")???;
            if let Some(failure) = searched.failure {
                return Ok(Some(Fate::Caught { fault: failure.fault, size, memory }));
            }
        }
    }
    Ok(None)
}

/// The source line of a site.
fn line_of(site: &Site) -> String {
    let locks = LOCKS.iter().map(|listed| (listed.name, listed.source));
    let source = locks
        .chain(MECHANISMS.iter().map(|listed| (listed.name, listed.source)))
        .find(|(name, _)| site.file.ends_with(&format!("/{name}.rs")))
        .map_or(algorithms::locks::NODES_SOURCE, |(_, source)| source);
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
