//! Locks in C under RC11: what holds on x86 and not by the language's rules.

use std::path::Path;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Memory, Options, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

/// The fault of a lock with these flags, or `holds`.
fn said(name: &str, flags: &[&str], size: (usize, u32), memory: Memory) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks").join(name);
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let program = compile(&Permitted::typed(file), &flags);
    let program = Subject::InC(Arc::new(program.unwrap_or_else(|error| panic!("{error:#}"))));
    let size = CheckSize { threads: size.0, acquires: size.1, locks: 1 };
    let options = Options { memory, states_max: 2_000_000, ..Options::default() };
    let found = with_tasks(&program, size, Mutation::None, |setup| search(setup, &options));
    let found = found.unwrap().unwrap();
    assert!(!found.gave_up, "{name}: {} states", found.states);
    println!("{name} {flags:?} {size:?} {memory:?}: {} states", found.states);
    found.failure.map_or("holds".to_string(), |failure| failure.fault.to_string())
}

/// Holds on x86, and says this under RC11.
#[track_caller]
fn check(name: &str, flags: &[&str], size: (usize, u32), expected: &str) {
    let x86 = said(name, flags, size, Memory::TotalStoreOrder);
    assert_eq!(x86, "holds", "{name} {flags:?} on x86");
    let weak = said(name, flags, size, Memory::Rc11);
    assert!(weak.starts_with(expected), "{name} {flags:?}: {weak}");
}

#[test]
fn locks_with_the_orders_that_they_need_hold() {
    for name in [
        "ticket.c",
        "mcs.c",
        "clh.c",
        "bytes.c",
        "kernel_queue.c",
        "volatile_ticket.c",
        "phase_fair.c",
    ] {
        check(name, &[], (2, 2), "holds");
    }
    // Its tail and its lock byte are in one word, and nothing orders the one after the other.
    check("kernel_queue.c", &["-DRELAXED"], (2, 2), "data race: ");
    for name in ["ticket.c", "mcs.c", "clh.c", "mcs_orders.c", "futex.c", "counted_waiters.c"] {
        check(name, &[], (3, 1), "holds");
    }
}

/// DPDK's MCS lock hung on Arm: until 2020 a waiter linked its node by a relaxed store (commit 021b698eb56e), and until 2025
/// the holder looked for it by a relaxed load (commit 8357af1cb3a3), both with the fences of FENCES. It waited
/// by relaxed loads, too, where one of these fences is needed: it acquires from the exchange that its own failed behind.
#[test]
fn an_mcs_lock_hangs_where_a_hand_over_may_overtake_the_start_of_a_wait() {
    for size in [(2, 1), (2, 2), (3, 1)] {
        for right in [&[][..], &["-DFENCES"], &["-DAWAIT=relaxed", "-DFENCES"]] {
            check("mcs_orders.c", right, size, "holds");
        }
        for wrong in [
            &["-DPUBLISH=relaxed"][..],
            &["-DPUBLISH=relaxed", "-DLOOK=relaxed", "-DAWAIT=relaxed", "-DFENCES"],
            &["-DLOOK=relaxed"],
            &["-DLOOK=relaxed", "-DAWAIT=relaxed", "-DFENCES"],
            &["-DAWAIT=relaxed"],
        ] {
            check("mcs_orders.c", wrong, size, "deadlock: ");
        }
    }
}

#[test]
fn a_reader_sees_half_of_what_a_sequence_counter_guards_without_a_barrier() {
    check("sequence.c", &[], (2, 2), "holds");
    check("sequence.c", &["-DNO_BARRIER"], (2, 2), "panic: assertion failed: !(first != second)");
}

/// The fences of Peterson's lock order the stores before them, but not which of two stores to the turn comes last.
#[test]
fn petersons_lock_needs_an_exchange_of_the_turn() {
    check("peterson.c", &[], (2, 1), "data race: ");
}

#[test]
fn what_fails_without_being_ordered_is_ordered_where_it_says_so() {
    check("stack.c", &[], (2, 1), "holds");
}
