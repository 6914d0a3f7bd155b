//! Locks as a user writes them: the one that `knee new lock` writes, and three from papers. Each passes the checks
//! that its own program would run.

#![expect(
    clippy::duplicate_mod,
    reason = "the program and the load are two crates, which share a file"
)]

use engines::checker::{Memory, Options, search};
use own_algorithms::{Lock, lock};
use studies::checks::mutants::{Fate, LockSubject, judge_lock};
use studies::checks::{CheckSize, Mutation, with_own_lock, with_result};

#[path = "locks/anderson.rs"]
mod anderson;
#[path = "locks/cohort_ticket.rs"]
mod cohort_ticket;
#[path = "locks/hclh.rs"]
mod hclh;
// What `knee new lock` writes: the lock, its program and its load.
#[path = "../new/lock/examples/load.rs"]
mod load;
#[path = "../new/lock/src/own_lock.rs"]
mod own_lock;
#[path = "../new/lock/src/main.rs"]
#[expect(dead_code, reason = "cargo calls the main of a program")]
mod program;
mod symbols;

#[test]
fn the_written_lock_passes() {
    passes::<own_lock::OwnLock>();
}

#[test]
fn andersons_array_lock_passes() {
    passes::<anderson::OwnLock>();
}

#[test]
fn a_cohort_ticket_lock_passes() {
    passes::<cohort_ticket::OwnLock>();
}

#[test]
fn a_hierarchical_clh_lock_passes() {
    passes::<hclh::OwnLock>();
}

/// Searches all interleavings of three tasks, and of two that come twice, with both memories.
fn passes<L: Lock>() {
    for (threads, acquires) in [(3, 1), (2, 2)] {
        for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
            let size = CheckSize { threads, acquires, locks: 1 };
            let options = Options { memory, ..Options::default() };
            let searched = with_result(
                |setup| search(setup, &options),
                |act| Some(with_own_lock::<L>(size, Mutation::None, act)),
            );
            let searched = searched.unwrap().unwrap().unwrap();
            let fault = searched.failure.map(|failure| failure.fault.to_string());
            assert_eq!(fault, None, "{threads} tasks × {acquires}, {memory:?}");
            assert!(!searched.gave_up && searched.states > 10, "{} states", searched.states);
        }
    }
}

const WRITTEN: &str = include_str!("../new/lock/src/own_lock.rs");

#[test]
fn the_written_program_checks_mutates_simulates_and_describes_its_lock() {
    for words in [
        &["check", "--threads", "2"][..],
        &["check", "--threads", "2", "--locks", "2", "--tso"],
        &["mutants"],
        &["simulate", "--cpus", "1,4", "--draws", "1"],
        &["describe"],
    ] {
        let ended = lock::run::<own_lock::OwnLock>("own_lock", WRITTEN, words);
        assert!(ended.unwrap(), "{words:?}");
    }
    for (words, part) in [
        (&["check", "--threads", "99"][..], "must be 1 to"),
        (&["simulate", "--against", "mcz"], "no lock is called \"mcz\""),
        (&["simulate", "--host", "nowhere"], "nowhere"),
        (&["check", "--replay", "0x"], "--replay"),
    ] {
        let why = lock::run::<own_lock::OwnLock>("own_lock", WRITTEN, words).unwrap_err();
        assert!(format!("{why:#}").contains(part), "{words:?}: {why:#}");
    }
}

#[test]
fn atomics_of_the_standard_library_are_refused_with_their_line() {
    for (line, is_refused) in [
        ("use std::sync::atomic::AtomicU32;", true),
        ("static TURN: atomic::AtomicPtr<u8> = atomic::AtomicPtr::new(NONE);", true),
        ("// AtomicU32 would not be seen.", false),
        ("use std::sync::atomic::Ordering; // AtomicBool", false),
    ] {
        let source = format!("{WRITTEN}\n{line}\n");
        let ended = lock::run::<own_lock::OwnLock>("own_lock", &source, &["check"]);
        let said = format!("{ended:?}");
        let at = format!("own_lock.rs:{}: Atomic", WRITTEN.lines().count() + 2);
        assert_eq!(said.contains(&at), is_refused, "{line}: {said}");
    }
}

#[test]
fn mutants_of_the_written_lock_are_found_in_its_file_and_caught() {
    let judged = judge_lock(&LockSubject {
        sources: &[("/own_lock.rs".to_string(), WRITTEN)],
        equivalent: own_lock::OwnLock::EQUIVALENT,
        with_tasks: &|size, mutation, act| with_own_lock::<own_lock::OwnLock>(size, mutation, act),
    });
    let judged = judged.unwrap();
    assert!(judged.len() >= 6, "{} mutants", judged.len());
    for one in judged {
        let site = one.mutant.site;
        assert!(matches!(one.fate, Fate::Caught(_)), "line {}: {}", site.line, one.mutant.change);
        assert!(one.line.contains("mem."), "line {} is {:?}", site.line, one.line);
    }
}

#[test]
fn as_a_load_its_tasks_count_under_the_lock() {
    const OPERATIONS: u64 = 2000;
    let counted = symbols::drive(3, OPERATIONS, |_| ());
    assert_eq!(counted, 3 * (OPERATIONS + 1));
    assert!(symbols::is_verified(counted));
    assert!(!symbols::is_verified(counted + 1), "an operation too many passes");
}
