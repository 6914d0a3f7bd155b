//! Mutants of a lock: each of its accesses made to do less, one at a time, and searched until
//! something is wrong. One that nothing finds must be known as equivalent, with a reason.

use std::cell::RefCell;
use std::collections::BTreeSet;

use algorithms::Equivalent;
use algorithms::locks::{Algorithm, LOCKS, Visitor, visit};
use algorithms::{Lock, SharedLock};
use anyhow::{Context, Result};
use engines::explored::{Fault, Memory, Options, search};
use engines::{Change, Mutant, Site};

use super::{Between, Size, with_setup};

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
    let known = equivalent
        .iter()
        .find(|known| known.change == mutant.change.to_string() && line.contains(known.line));
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
    let source = LOCKS
        .iter()
        .find(|listed| site.file.ends_with(&format!("/{}.rs", listed.name)))
        .map_or(algorithms::locks::NODES_SOURCE, |listed| listed.source);
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
