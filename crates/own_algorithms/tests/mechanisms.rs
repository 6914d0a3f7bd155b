//! The mechanism that `knee new mechanism` writes, and others as a user writes them: the verbs of their programs.

#![expect(
    clippy::duplicate_mod,
    reason = "the program and the load are two crates, which share a file"
)]

use std::ffi::{CStr, c_char};

use algorithms::locks::test_and_set::TestAndSet;
use algorithms::mechanisms::lockref::Lockref;
use own_algorithms::mechanism;

// What `knee new mechanism` writes: the mechanism, its program and its load.
#[path = "../new/mechanism/examples/load.rs"]
mod load;
#[path = "../new/mechanism/src/own_mechanism.rs"]
mod own_mechanism;
#[path = "../new/mechanism/src/main.rs"]
#[expect(dead_code, reason = "cargo calls the main of a program")]
mod program;
mod symbols;

const WRITTEN: &str = include_str!("../new/mechanism/src/own_mechanism.rs");

#[test]
fn the_written_program_checks_mutates_simulates_and_describes_its_mechanism() {
    for words in [
        &["check"][..],
        &["check", "--operations", "2", "--tso"],
        &["check", "--design", "after", "--threads", "3"],
        &["mutants"],
        &["simulate", "--cpus", "1,4", "--draws", "1", "--set", "read_one_in=10"],
        &["describe"],
    ] {
        let ended = mechanism::run::<own_mechanism::OwnMechanism>(WRITTEN, words);
        assert!(ended.unwrap(), "{words:?}");
    }
    for (words, part) in [
        (&["check", "--threads", "99"][..], "must be 1 to"),
        (&["check", "--design", "afer"], "no design is called \"afer\"; did you mean \"after\"?"),
        (&["check", "--replay", "0x"], "name it with --design"),
        (&["simulate", "--set", "reads=1"], "no setting of own_mechanism is called \"reads\""),
        (&["simulate", "--set", "read_one_in=0"], "must be a number from 1"),
    ] {
        let ended = mechanism::run::<own_mechanism::OwnMechanism>(WRITTEN, words);
        let why = format!("{:#}", ended.unwrap_err());
        assert!(why.contains(part), "{words:?}: {why}");
    }
}

#[test]
fn a_mechanism_over_a_lock_of_the_users_choice_passes() {
    let source = include_str!("../../algorithms/src/mechanisms/lockref.rs");
    let ended = mechanism::run::<Lockref<TestAndSet>>(source, &["check"]);
    assert!(ended.unwrap());
}

/// knee's harness gives each parameter its default.
#[unsafe(no_mangle)]
extern "C" fn knee_value(name: *const c_char) -> *const c_char {
    // SAFETY: the load asks with a C string.
    let name = unsafe { CStr::from_ptr(name) };
    let value = match name.to_str() {
        Ok("design") => c"after",
        Ok("read_one_in") => c"10",
        _ => panic!("{name:?} is no parameter"),
    };
    value.as_ptr()
}

/// `struct knee_parameter`, and the list of the load: two and an end.
type Parameters = [[*const c_char; 4]; 3];

unsafe extern "C" {
    static knee_operation: *const c_char;
    static knee_parameters: Parameters;
}

#[test]
fn the_load_lists_its_designs_and_settings_before_its_harness_starts() {
    // SAFETY: all pointers but the last are C strings; a constructor has set them.
    let text = |at: *const c_char| unsafe { CStr::from_ptr(at) }.to_str().unwrap();
    // SAFETY: filled before main, and not changed afterwards.
    let (operation, parameters) = unsafe { (knee_operation, &knee_parameters) };
    assert_eq!(text(operation), "1 added to the counter");
    assert_eq!(parameters[0].map(text), ["design", "before", "before,after", "design"]);
    assert_eq!(parameters[1].map(text)[..3], ["read_one_in", "1000", "1..1000000"]);
    assert!(parameters[2][0].is_null());
}

#[test]
fn as_a_load_its_tasks_are_checked_by_the_mechanism() {
    let counted = symbols::drive(3, 2000, |_| ());
    assert_eq!(counted, 3 * 2001);
    assert!(symbols::is_verified(counted));
    assert!(!symbols::is_verified(counted + 1), "an operation too many passes");
}
