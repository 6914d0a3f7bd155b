//! Judges the mutants of the lock.

use algorithms::Lock;
use anyhow::{Result, ensure};
use studies::checks::mutants::{Fate, JudgedMutant, LockSubject, judge_lock};
use studies::checks::with_own_lock;

use crate::Subject;

/// Judges all mutants, and prints. Returns whether none survived.
pub(crate) fn run<L: Lock>(lock: &Subject) -> Result<bool> {
    let judged = judge_lock(&LockSubject {
        sources: &[(format!("/{}.rs", lock.name), lock.source)],
        equivalent: L::EQUIVALENT,
        with_tasks: &|size, mutation, act| with_own_lock::<L>(size, mutation, act),
    })?;
    ensure!(
        !judged.is_empty(),
        "no access of {name}.rs can be mutated: is the lock in a file of this name?",
        name = lock.name
    );
    for one in &judged {
        println!("{}", line(lock, one));
    }
    let survived = judged.iter().filter(|one| matches!(one.fate, Fate::Survived)).count();
    let equivalent = judged.iter().filter(|one| matches!(one.fate, Fate::Equivalent(_))).count();
    let caught = judged.len() - survived - equivalent;
    println!(
        "{} mutants: {caught} caught, {equivalent} equivalent, {survived} survived",
        judged.len()
    );
    if survived > 0 {
        println!(
            "a mutant that survives is an access that does more than it must, or a fault of the search; one that"
        );
        println!("breaks nothing is listed in EQUIVALENT, with the reason");
    }
    Ok(survived == 0)
}

fn line(lock: &Subject, one: &JudgedMutant) -> String {
    let fate = match &one.fate {
        Fate::Caught(caught) => {
            let size = caught.size;
            format!("caught ({}, {} tasks × {})", caught.fault.word(), size.threads, size.acquires)
        }
        Fate::Equivalent(why) => format!("equivalent: {why}"),
        Fate::Survived => "SURVIVED".to_string(),
    };
    let (at, change) = (one.mutant.site.line, one.mutant.change);
    format!("{}.rs:{at}: {change}: {fate}\n    {}", lock.name, one.line)
}
