//! The read-write lock that `knee new read-write-lock` writes: the verbs of its program, and its load.

#![expect(
    clippy::duplicate_mod,
    reason = "the program and the load are two crates, which share a file"
)]

use std::ffi::{CStr, c_char, c_int, c_ulonglong, c_void};

use own_algorithms::read_write_lock;

// What `knee new read-write-lock` writes: the lock, its program and its load.
#[path = "../new/read_write_lock/examples/load.rs"]
mod load;
#[path = "../new/read_write_lock/src/own_lock.rs"]
mod own_lock;
#[path = "../new/read_write_lock/src/main.rs"]
#[expect(dead_code, reason = "cargo calls the main of a program")]
mod program;
mod symbols;

const WRITTEN: &str = include_str!("../new/read_write_lock/src/own_lock.rs");

#[test]
fn the_written_program_checks_mutates_simulates_and_describes_its_lock() {
    for words in [
        &["check", "--threads", "3"][..],
        &["check", "--threads", "2", "--acquires", "2", "--tso"],
        &["mutants"],
        &["simulate", "--cpus", "1,4", "--draws", "1", "--reads", "50"],
        &["describe"],
    ] {
        let ended = read_write_lock::run::<own_lock::OwnLock>("own_lock", WRITTEN, words);
        assert!(ended.unwrap(), "{words:?}");
    }
    for (words, part) in [
        (&["check", "--locks", "2"][..], "hold one read-write lock at a time"),
        (&["simulate", "--reads", "101"], "101"),
        (&["simulate", "--against", "mcz"], "no lock is called \"mcz\""),
    ] {
        let ended = read_write_lock::run::<own_lock::OwnLock>("own_lock", WRITTEN, words);
        let why = format!("{:#}", ended.unwrap_err());
        assert!(why.contains(part), "{words:?}: {why}");
    }
}

/// knee's harness gives each parameter its default.
#[unsafe(no_mangle)]
extern "C" fn knee_value(name: *const c_char) -> *const c_char {
    // SAFETY: a C string.
    assert_eq!(unsafe { CStr::from_ptr(name) }, c"reads_to_a_write");
    c"9".as_ptr()
}

unsafe extern "C" {
    fn knee_verify(task: *mut c_void, operations: c_ulonglong) -> c_int;
}

#[test]
fn as_a_load_its_tasks_read_and_count_under_the_lock() {
    const OPERATIONS: u64 = 2000;
    let counted = symbols::drive(3, OPERATIONS, |task| {
        // SAFETY: a task that has ended.
        assert_eq!(unsafe { knee_verify(task, OPERATIONS + 1) }, 0);
    });
    assert_eq!(counted, 3 * (OPERATIONS + 1));
    assert!(symbols::is_verified(counted));
    assert!(!symbols::is_verified(counted + 1), "an operation too many passes");
}
