//! Locks in C as a user writes them: they pass, what is wrong with them is found, and mutants are caught.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use c_locks::compile;
use described_hosts::Draw;
use engines::checker::{Memory, Options, SearchResult, search};
use engines::simulated::NS;
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::mutants::{Fate, JudgedMutant, judge};
use studies::checks::{CheckSize, Mutation, refuse_faulty, with_tasks};
use studies::simulations::{Conditions, LockLoad, OneDraw, draw};

fn program(name: &str) -> Subject {
    program_with(name, &[])
}

fn program_with(name: &str, flags: &[&str]) -> Subject {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks").join(name);
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let program = compile(&Permitted::typed(file), &flags);
    Subject::InC(Arc::new(program.unwrap_or_else(|error| panic!("{error:#}"))))
}

fn searched(program: &Subject, size: (usize, u32), memory: Memory) -> SearchResult {
    let size = CheckSize { threads: size.0, acquires: size.1, locks: 1 };
    let options = Options { memory, states_max: 2_000_000, ..Options::default() };
    with_tasks(program, size, Mutation::None, |setup| search(setup, &options)).unwrap().unwrap()
}

/// Searches all interleavings of three tasks, and of two that come twice, with both memories.
fn passes(name: &str) {
    let program = program(name);
    for size in [(3, 1), (2, 2)] {
        for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
            let found = searched(&program, size, memory);
            let fault = found.failure.map(|f| format!("{}\n{}", f.fault, f.steps.join("\n")));
            assert_eq!(fault, None, "{name}, {size:?}, {memory:?}");
            assert!(!found.gave_up && found.states > 10, "{} states", found.states);
            println!("{name} {size:?} {memory:?}: {} states", found.states);
        }
    }
}

#[test]
fn a_ticket_lock_passes() {
    passes("ticket.c");
}

#[test]
fn an_mcs_lock_passes() {
    passes("mcs.c");
}

#[test]
fn a_lock_that_does_not_begin_with_zeros_passes() {
    passes("clh.c");
}

#[test]
fn a_lock_with_a_slot_for_each_of_256_cpus_passes() {
    let program = program_with("slots.c", &["-DCONFIG_NR_CPUS=256"]);
    let found = searched(&program, (2, 2), Memory::TotalStoreOrder);
    assert_eq!(found.failure.map(|failure| failure.fault.to_string()), None);
    assert!(found.states > 10, "{} states", found.states);
}

#[test]
fn inline_assembly_is_seen_with_the_order_of_x86() {
    passes("assembly.c");
    let judged = judge(&program("assembly.c")).unwrap();
    assert_eq!(survivors(&judged), Vec::<String>::new());
    assert!(judged.len() >= 20, "{} mutants", judged.len());
}

/// A mutant is shown in the lock, not in the header that wraps atomics: there all would be one.
#[test]
fn accesses_of_wrappers_are_shown_where_the_lock_calls_them() {
    let judged = judge(&program("clh.c")).unwrap();
    assert_eq!(survivors(&judged), Vec::<String>::new());
    let lines: BTreeSet<&str> = judged.iter().map(|one| one.line.trim()).collect();
    for line in [
        "before = swap(&lock->tail, node);",
        "while (load_acquire(&before->locked))",
        "store_release(&mine->locked, 0);",
    ] {
        assert!(lines.contains(line), "no mutant of '{line}': {lines:?}");
    }
    assert!(!lines.iter().any(|line| line.contains("__atomic")), "{lines:?}");
}

fn survivors(judged: &[JudgedMutant]) -> Vec<String> {
    let survived = judged.iter().filter(|one| matches!(one.fate, Fate::Survived));
    survived.map(|one| format!("{}: {}", one.mutant.change, one.line)).collect()
}

#[test]
fn mutants_of_a_ticket_lock_are_caught() {
    let judged = judge(&program("ticket.c")).unwrap();
    assert!(judged.len() >= 6, "{} mutants", judged.len());
    assert_eq!(survivors(&judged), Vec::<String>::new());
}

#[test]
fn mutants_of_a_queue_with_the_kernels_words_are_caught() {
    passes("kernel_queue.c");
    let judged = judge(&program("kernel_queue.c")).unwrap();
    assert!(judged.len() >= 10, "{} mutants", judged.len());
    let survived = survivors(&judged);
    assert_eq!(survived, Vec::<String>::new());
}

/// The fault that a search of two tasks finds, and its steps.
fn fault(program: &Subject, memory: Memory) -> Option<String> {
    let failure = searched(program, (2, 2), memory).failure?;
    Some(format!("{}\n{}", failure.fault, failure.steps.join("\n")))
}

#[test]
fn a_plain_access_that_others_race_with_is_named_by_line() {
    let said = fault(&program("plain_wait.c"), Memory::SequentiallyConsistent).unwrap();
    assert!(
        said.contains("data race") && said.contains("lock.waiters at plain_wait.c:12"),
        "{said}"
    );
    let refused = refuse_faulty(&program("plain_wait.c")).unwrap_err().to_string();
    assert!(refused.contains("plain_wait.c is at fault: data race"), "{refused}");
    refuse_faulty(&program("ticket.c")).unwrap();
}

#[test]
fn a_missing_full_fence_is_found_with_store_buffers() {
    let (buffered, unbuffered) = (Memory::TotalStoreOrder, Memory::SequentiallyConsistent);
    assert_eq!(fault(&program("peterson.c"), buffered), None);
    let without_fence = program_with("peterson.c", &["-DNO_FENCE"]);
    assert_eq!(fault(&without_fence, unbuffered), None);
    let said = fault(&without_fence, buffered).unwrap();
    assert!(said.contains("becomes visible") && said.contains("peterson.c:21"), "{said}");
}

#[test]
fn a_queue_in_cplusplus_passes_and_its_words_have_the_names_of_its_members() {
    let compilers = ["c++", "g++", "clang++"];
    if compilers.iter().all(|name| Command::new(name).arg("--version").output().is_err()) {
        return println!("skipped: no compiler of C++ is in PATH");
    }
    passes("queue.cc");
    let relaxed = program_with("queue.cc", &["-DRELAXED"]);
    let said = fault(&relaxed, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("data race: t0 reads shared.queue.slots[0] at queue.cc"), "{said}");
    assert!(said.contains("the store of shared.queue.head at queue.cc:"), "{said}");
}

#[test]
fn a_waiter_that_sleeps_late_is_never_woken() {
    let program = program("counted_waiters.c");
    let found = searched(&program, (3, 2), Memory::SequentiallyConsistent);
    let said = found.failure.unwrap().fault.to_string();
    assert_eq!(said, "deadlock: t2 sleeps on lock.state (counted_waiters.c:23)");
}

#[test]
fn a_failed_assertion_is_a_fault_with_its_line() {
    let wrong = program_with("peterson.c", &["-DWRONG"]);
    let said = fault(&wrong, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("assertion failed: lock->holders++ == 1, at peterson.c:25"), "{said}");
}

#[test]
fn volatile_words_are_relaxed_atomics_that_fences_order() {
    passes("volatile_ticket.c");
    let without_fence = program_with("volatile_ticket.c", &["-DNO_FENCE"]);
    let said = fault(&without_fence, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("data race"), "{said}");
    assert!(
        said.contains("lock.serving store 1") && said.contains("volatile_ticket.c:26"),
        "{said}"
    );
    let of_x86 = program_with("volatile_ticket.c", &["-DNO_FENCE", "-DX86"]);
    assert_eq!(fault(&of_x86, Memory::TotalStoreOrder), None);
}

#[test]
fn bytes_are_moved_within_memory_of_the_lock_alone() {
    assert_eq!(fault(&program("bytes.c"), Memory::SequentiallyConsistent), None);
    for (flag, bytes) in [("-DBEYOND_LOCK", 1 << 24), ("-DBEYOND_STACK", 1 << 16)] {
        let program = program_with("bytes.c", &[flag]);
        let said = fault(&program, Memory::SequentiallyConsistent).unwrap();
        let expected = format!("({bytes} bytes), which is not the lock's (");
        assert!(said.contains("it writes memory") && said.contains(&expected), "{said}");
        assert!(said.contains("_Thread_local), at bytes.c:"), "{said}");
    }
}

#[test]
fn two_instances_of_a_program_have_memory_of_their_own() {
    let program = program("mcs.c");
    let states = || searched(&program, (3, 1), Memory::SequentiallyConsistent).states;
    assert_eq!(states(), states());
}

/// Each search and each simulation has a program of its own, whatever others run in the process.
#[test]
fn two_programs_are_checked_and_simulated_at_the_same_time() {
    let host = described_hosts::find("uma-2").unwrap();
    let conditions = Conditions::new(&host, 1, 100_000 * NS);
    let studied = |subject: &Subject| {
        let states = searched(subject, (2, 2), Memory::TotalStoreOrder).states;
        let (load, conditions) = (LockLoad::steady(500, 100, 90), &conditions);
        let once = OneDraw { load, conditions, draw: Draw::Middle, cpus: 2, tasks: 2 };
        (states, draw(subject, &once).unwrap().rate())
    };
    let subjects = ["ticket.c", "mcs.c", "phase_fair.c", "stack.c"].map(program);
    let alone = subjects.each_ref().map(studied);
    let together = thread::scope(|scope| {
        let thread = |order: [usize; 4]| {
            let (subjects, studied) = (&subjects, &studied);
            scope.spawn(move || order.map(|index| (index, studied(&subjects[index]))))
        };
        let threads = [thread([0, 1, 2, 3]), thread([3, 2, 1, 0])];
        threads.map(|thread| thread.join().unwrap())
    });
    for (index, found) in together.into_iter().flatten() {
        assert_eq!(found, alone[index], "{}", subjects[index].name());
    }
}

#[test]
fn readers_share_a_read_write_lock_and_writers_do_not() {
    passes("phase_fair.c");
    let without_phase = program_with("phase_fair.c", &["-DNO_PHASE"]);
    let size = (3, 2);
    let found = searched(&without_phase, size, Memory::SequentiallyConsistent).failure.unwrap();
    assert!(found.fault.to_string().contains("deadlock"), "{}", found.fault);
}

#[test]
fn a_futex_sleeps_and_a_lost_wake_up_is_found() {
    passes("futex.c");
    let lost = program_with("futex.c", &["-DLOST"]);
    let said = fault(&lost, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("deadlock") && said.contains("futex.c:"), "{said}");
}

#[test]
fn a_wake_up_for_some_bits_wakes_those_that_sleep_for_them() {
    passes("bits_of_a_futex.c");
    let wrong = program_with("bits_of_a_futex.c", &["-DWRONG_BIT"]);
    let said = fault(&wrong, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("deadlock") && said.contains("for bits 0x"), "{said}");
}

#[test]
fn a_time_out_may_come_at_any_step_and_hides_no_lost_wake_up() {
    passes("time_out.c");
    let gives_up = program_with("time_out.c", &["-DGIVES_UP"]);
    for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
        assert_eq!(fault(&gives_up, memory), None);
        let said = fault(&program_with("time_out.c", &["-DLOST"]), memory).unwrap();
        assert!(
            said.contains("lost wake-up: t") && said.contains("has changed from 2 to 0"),
            "{said}"
        );
        assert!(said.contains("time_out.c:"), "{said}");
    }
}

#[test]
fn variables_on_a_tasks_own_stack_are_its_own_affair() {
    passes("own_variables.c");
}

#[test]
fn a_waiter_on_a_stack_that_is_forgotten_is_found() {
    let waiter = program_with("own_variables.c", &["-DWAITER"]);
    for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
        let said = fault(&waiter, memory).unwrap();
        assert!(said.contains("deadlock") && said.contains("stack["), "{said}");
    }
}

#[test]
fn tasks_of_the_kernel_sleep_and_a_state_set_too_late_is_found() {
    passes("kernel_semaphore.c");
    let late = program_with("kernel_semaphore.c", &["-DLATE_STATE"]);
    let said = fault(&late, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("deadlock"), "{said}");
}

#[test]
fn a_sequence_counter_is_an_operation_whose_assertions_hold() {
    passes("sequence.c");
    let without_retry = program_with("sequence.c", &["-DNO_RETRY"]);
    let said = fault(&without_retry, Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("assertion failed: !(first != second), at sequence.c:"), "{said}");
}

#[test]
fn a_node_that_comes_back_in_between_is_found() {
    let size = (2, 2);
    let found = searched(&program("stack.c"), size, Memory::SequentiallyConsistent);
    assert_eq!(found.failure.map(|failure| failure.fault.to_string()), None);
    let said = fault(&program_with("stack.c", &["-DABA"]), Memory::SequentiallyConsistent).unwrap();
    assert!(said.contains("assertion failed") || said.contains("KNEE_CHECK is false"), "{said}");
}

#[test]
fn bits_are_set_and_flipped_by_instructions_of_their_own() {
    passes("bits.c");
    assert_eq!(survivors(&judge(&program("bits.c")).unwrap()), Vec::<String>::new());
}
