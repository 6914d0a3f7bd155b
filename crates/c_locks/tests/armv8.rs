//! Code in C under the rules of Armv8 and of the kernel: dependencies of the compiled code order, and C11's rules do not know them.

use std::path::Path;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Memory, Options, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::{CheckSize, Mutation, with_tasks};

/// The fault of a file with these flags, or `holds`.
fn said(name: &str, flags: &[&str], size: (usize, u32), memory: Memory) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks").join(name);
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let program = compile(&Permitted::typed(file), &flags);
    let program = Subject::InC(Arc::new(program.unwrap_or_else(|error| panic!("{error:#}"))));
    let size = CheckSize { threads: size.0, acquires: size.1, locks: 1 };
    let options = Options { memory, states_max: 500_000, ..Options::default() };
    let found = with_tasks(&program, size, Mutation::None, |setup| search(setup, &options));
    let found = found.unwrap().unwrap();
    assert!(!found.gave_up, "{name}: {} states", found.states);
    println!("{name} {flags:?} {size:?} {}: {} states", memory.name(), found.states);
    found.failure.map_or("holds".to_string(), |failure| failure.fault.to_string())
}

/// Says this under RC11, Armv8 and the kernel's rules.
#[track_caller]
fn check(name: &str, flags: &[&str], size: (usize, u32), expected: [&str; 3]) {
    let models = [Memory::Rc11, Memory::Armv8, Memory::Lkmm];
    for (memory, expected) in models.into_iter().zip(expected) {
        let found = said(name, flags, size, memory);
        assert!(found.starts_with(expected), "{name} {flags:?} {}: {found}", memory.name());
    }
}

#[test]
fn locks_with_the_orders_that_they_need_hold() {
    for name in ["ticket.c", "mcs.c", "clh.c", "bytes.c", "volatile_ticket.c"] {
        check(name, &[], (2, 1), ["holds", "holds", "holds"]);
    }
}

/// What a pointer leads to is as new as the pointer, if what it leads to was ordered before it.
#[test]
fn addresses_order_loads_and_branches_do_not() {
    let panics = "panic: ";
    check("published.c", &[], (2, 1), [panics, "holds", "holds"]);
    check("published.c", &["-DNO_BARRIER"], (2, 1), [panics, panics, panics]);
    check("published.c", &["-DCONTROL"], (2, 1), [panics, panics, panics]);
    check("published.c", &["-DSTORES"], (2, 1), ["holds", "holds", "holds"]);
}

/// C11's rules as RC11 has them forbid that a store is visible before an earlier load is done. Hardware does not.
#[test]
fn a_store_runs_ahead_of_an_earlier_load() {
    let panics = "panic: ";
    check("published.c", &["-DSTORES", "-DEARLY"], (2, 1), ["holds", panics, panics]);
}

/// The faults of DPDK's MCS lock: a store that is relaxed may overtake; a load that is relaxed is followed by its address.
#[test]
fn an_mcs_lock_that_links_by_a_relaxed_store_hangs() {
    let hangs = "deadlock: ";
    check("mcs_orders.c", &[], (2, 1), ["holds", "holds", "holds"]);
    check("mcs_orders.c", &["-DPUBLISH=relaxed"], (2, 1), [hangs, hangs, hangs]);
    check("mcs_orders.c", &["-DLOOK=relaxed"], (2, 1), [hangs, "holds", "holds"]);
    check("mcs_orders.c", &["-DAWAIT=relaxed"], (2, 1), [hangs, "holds", "holds"]);
}

/// A plain read sees no store of its own task that only runs ahead, but has not come.
#[test]
fn a_plain_read_sees_nothing_that_its_task_will_store_later() {
    check("later.c", &[], (2, 1), ["holds", "holds", "holds"]);
    check("later.c", &["-DEARLY"], (2, 1), ["holds", "panic: ", "panic: "]);
}

#[test]
fn a_reader_sees_half_of_what_a_sequence_counter_guards_without_a_barrier() {
    let torn = "panic: assertion failed: !(first != second)";
    check("sequence.c", &[], (2, 1), ["holds", "holds", "holds"]);
    check("sequence.c", &["-DNO_BARRIER"], (2, 1), [torn, torn, torn]);
}

/// The kernel's model passes order on through an update of the word between two exchanges of the tail. Until Linux 6.2 it did not:
/// so qspinlock hung by it. C11 knows no dependencies.
#[test]
fn an_update_between_two_others_passes_their_order_on() {
    let hangs = "deadlock: ";
    check("linked.c", &[], (3, 1), [hangs, "holds", "holds"]);
    let until_6_2 = said("linked.c", &[], (3, 1), Memory::LkmmUntil62);
    assert!(until_6_2.starts_with(hangs), "{until_6_2}");
}

/// A task that goes round for ever, and so never does the store that it made visible ahead, is in no execution.
#[test]
fn a_circle_with_a_store_ahead_that_is_never_done_is_no_execution() {
    check("circle.c", &[], (2, 1), ["holds", "holds", "holds"]);
}
