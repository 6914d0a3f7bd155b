//! The checks find faults: of the mutants of a lock or mechanism, each of which does less at one
//! access, none survives that is not listed as equivalent.

use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use studies::checks::mutants::{Fate, JudgedMutant, judge};
use studies::{MechanismDesign, Subject};

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
        none_survives(name, judge(&Subject::lock(name).unwrap()).unwrap());
    }
}

#[test]
fn no_mutant_of_a_mechanism_survives_that_is_not_listed_as_equivalent() {
    for mechanism in MECHANISMS.iter().filter(|mechanism| mechanism.name != "file_locks") {
        none_survives(mechanism.name, judge(&mechanism_named(mechanism.name)).unwrap());
    }
}

#[test]
fn no_mutant_of_file_locks_survives_that_is_not_listed_as_equivalent() {
    none_survives("file_locks", judge(&mechanism_named("file_locks")).unwrap());
}

/// Mutants are those of all designs.
fn mechanism_named(name: &str) -> Subject {
    let designs = ListedMechanism::named(name).unwrap().designs();
    Subject::Mechanism(MechanismDesign::new(name, designs[0]).unwrap())
}

fn none_survives(name: &str, judged: Vec<JudgedMutant>) {
    assert!(judged.len() >= 5, "{name} has {} mutants", judged.len());
    let survived = judged.iter().filter(|judged| matches!(judged.fate, Fate::Survived));
    let survivors: Vec<_> =
        survived.map(|judged| format!("{}: {}", judged.line, judged.mutant.change)).collect();
    assert!(survivors.is_empty(), "{name}: these survived:\n{}", survivors.join("\n"));
}
