//! The checks find faults: of the mutants of a lock or mechanism, each of which does less at one
//! access, none passes that is not listed as equivalent.

use algorithms::locks::LOCKS;
use algorithms::mechanisms::MECHANISMS;
use studies::checks::mutants::{self, Fate, Judged};

/// The quick ones; the rest is `knee check all --mutants`.
#[test]
fn no_mutant_of_a_lock_survives_that_is_not_known_as_equivalent() {
    for name in [
        "ticket",
        "test_and_set",
        "test_and_test_and_set",
        "parking",
        "clh",
        "mcs",
        "cna",
        "queued_paravirtual",
    ] {
        let lock = LOCKS.iter().find(|lock| lock.name == name).unwrap();
        none_survives(name, mutants::judge(lock).unwrap());
    }
}

#[test]
fn no_mutant_of_a_mechanism_survives_that_is_not_known_as_equivalent() {
    for mechanism in MECHANISMS.iter().filter(|one| one.name != "file_locks") {
        none_survives(mechanism.name, mutants::judge_mechanism(mechanism).unwrap());
    }
}

#[test]
fn no_mutant_of_file_locks_survives_that_is_not_known_as_equivalent() {
    let mechanism = MECHANISMS.iter().find(|one| one.name == "file_locks").unwrap();
    none_survives(mechanism.name, mutants::judge_mechanism(mechanism).unwrap());
}

fn none_survives(name: &str, judged: Vec<Judged>) {
    assert!(judged.len() >= 5, "{name} has {} mutants", judged.len());
    let survived = |one: &&Judged| matches!(one.fate, Fate::Survived);
    let all = judged.iter().filter(survived);
    let all: Vec<_> = all.map(|one| format!("{}: {}", one.line, one.mutant.change)).collect();
    assert!(all.is_empty(), "{name}: these survived:\n{}", all.join("\n"));
}
