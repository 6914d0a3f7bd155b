//! Locks as a user writes them: the one that `knee new lock` writes, and three from papers. Each passes the checks
//! that its own program would run.

use std::ffi::c_void;
use std::ptr::null_mut;

use engines::checker::{Memory, Options, search};
use own_locks::Lock;
use studies::checks::mutants::{Fate, LockSubject, judge_lock};
use studies::checks::{CheckSize, Mutation, with_own_lock, with_result};

#[path = "locks/anderson.rs"]
mod anderson;
#[path = "locks/cohort_ticket.rs"]
mod cohort_ticket;
#[path = "locks/hclh.rs"]
mod hclh;
#[path = "../new/lock.rs"]
mod written;

#[test]
fn the_written_lock_passes() {
    passes::<written::OwnLock>();
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

#[test]
fn mutants_of_the_written_lock_are_found_in_its_file_and_caught() {
    let judged = judge_lock(&LockSubject {
        sources: &[("/lock.rs".to_string(), include_str!("../new/lock.rs"))],
        equivalent: written::OwnLock::EQUIVALENT,
        with_tasks: &|size, mutation, act| with_own_lock::<written::OwnLock>(size, mutation, act),
    });
    let judged = judged.unwrap();
    assert!(judged.len() >= 6, "{} mutants", judged.len());
    for one in judged {
        let site = one.mutant.site;
        assert!(matches!(one.fate, Fate::Caught(_)), "line {}: {}", site.line, one.mutant.change);
        assert!(one.line.contains("mem."), "line {} is {:?}", site.line, one.line);
    }
}

own_locks::load!(written::OwnLock, "written");

/// What knee shares with a task, as knee.h lays it out.
#[repr(C)]
struct Control {
    stop: *const u32,
    count: *mut u64,
    limit: u64,
}

#[test]
fn as_a_load_its_tasks_count_under_the_lock() {
    const TASKS: u32 = 3;
    const OPERATIONS: u64 = 2000;
    let drive = |index: u32| {
        let mut task: *mut c_void = null_mut();
        assert_eq!(knee_task(null_mut(), index, &mut task), 0);
        let (stop, mut count) = (0u32, 0u64);
        let control = Control { stop: &stop, count: &mut count, limit: OPERATIONS };
        assert_eq!(knee_drive(task, (&raw const control).cast()), 0);
        assert_eq!(knee_operate(task), 0);
        count
    };
    assert_eq!(knee_prepare(&TASKS), 0);
    let counted: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..TASKS).map(|index| scope.spawn(move || drive(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(counted, u64::from(TASKS) * OPERATIONS);
    let all = u64::from(TASKS) * (OPERATIONS + 1);
    assert_eq!(knee_verify_all(null_mut(), all), 0);
    // An operation too many is found.
    assert_eq!(knee_verify_all(null_mut(), all + 1), -1);
}
