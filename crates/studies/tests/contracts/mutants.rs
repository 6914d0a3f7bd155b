//! The checks find faults: of the mutants of a lock or mechanism, each of which does less at one
//! access, none survives that is not listed as equivalent.

use algorithms::locks::LOCKS;
use algorithms::mechanisms::MECHANISMS;
use studies::checks::mutants::{self, Fate, JudgedMutant};

/// The locks whose mutants are searched quickly; for the rest there is `knee check all --mutants`.
#[test]
fn no_mutant_of_a_lock_survives_that_is_not_listed_as_equivalent() {
    for name in [
        "ticket",
        "test_and_set",
        "test_and_test_and_set",
        "parking",
        "array",
        "clh",
        "cohort",
        "hierarchical_clh",
        "mcs",
        "cna",
        "per_node_read_write",
        "percpu_read_write_semaphore",
        "read_write_semaphore",
    ] {
        let lock = LOCKS.iter().find(|lock| lock.name == name).unwrap();
        none_survives(name, mutants::judge(lock).unwrap());
    }
}

#[test]
fn no_mutant_of_a_mechanism_survives_that_is_not_listed_as_equivalent() {
    for mechanism in MECHANISMS.iter().filter(|mechanism| mechanism.name != "file_locks") {
        none_survives(mechanism.name, mutants::judge_mechanism(mechanism).unwrap());
    }
}

#[test]
fn no_mutant_of_file_locks_survives_that_is_not_listed_as_equivalent() {
    let mechanism = MECHANISMS.iter().find(|mechanism| mechanism.name == "file_locks").unwrap();
    none_survives(mechanism.name, mutants::judge_mechanism(mechanism).unwrap());
}

fn none_survives(name: &str, judged: Vec<JudgedMutant>) {
    assert!(judged.len() >= 5, "{name} has {} mutants", judged.len());
    let survived = judged.iter().filter(|judged| matches!(judged.fate, Fate::Survived));
    let survivors: Vec<_> =
        survived.map(|judged| format!("{}: {}", judged.line, judged.mutant.change)).collect();
    assert!(survivors.is_empty(), "{name}: these survived:\n{}", survivors.join("\n"));
}
