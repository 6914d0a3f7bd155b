//! Locks under RC11, what C11 and C++20 promise: which hold, and where those fail that rely on more.

use std::time::Instant;

use algorithms::locks::LOCKS;
use algorithms::mechanisms::MECHANISMS;
use engines::checker::{Memory, Options, SearchResult, search};
use expect_test::{Expect, expect};
use studies::checks::{CheckSize, Mutation, with_tasks};
use studies::{MechanismDesign, Subject};

fn searched(name: &str, size: (usize, u32), options: &Options) -> SearchResult {
    let lock = Subject::lock(name).unwrap();
    let size = CheckSize { threads: size.0, acquires: size.1, locks: 1 };
    with_tasks(&lock, size, Mutation::None, |setup| search(setup, options)).unwrap().unwrap()
}

fn said(name: &str, size: (usize, u32), options: &Options) -> String {
    let since = Instant::now();
    let searched = searched(name, size, options);
    eprintln!(
        "{name} {size:?}: {} states, {:.2} s",
        searched.states,
        since.elapsed().as_secs_f64()
    );
    match searched.failure {
        Some(failure) => failure.fault.word().replace(' ', "-"),
        None if searched.gave_up => "-".to_string(),
        None => searched.states.to_string(),
    }
}

/// How many states searches of all locks have: `-` if they give up at so many, the fault if there is one.
fn check(memory: Memory, states_max: u64, sizes: &[(usize, u32)], expected: &Expect) {
    let options = Options { memory, states_max, ..Options::default() };
    let names: Vec<String> = sizes.iter().map(|(tasks, each)| format!("{tasks}x{each}")).collect();
    let mut table = format!("states of {}\n", names.join(" "));
    for lock in LOCKS {
        table += lock.name;
        for &size in sizes {
            table += &format!(" {}", said(lock.name, size, &options));
        }
        table.push('\n');
    }
    expected.assert_eq(&table);
}

#[test]
fn locks_hold_in_every_execution_that_the_language_allows() {
    let sizes = [(2, 1), (2, 2), (3, 1)];
    let expected = expect![[r#"
        states of 2x1 2x2 3x1
        array 33 108 124
        clh 9 38 16
        cna 60 335 504
        cohort 171 927 836
        futex_mutex 21 173 459
        hierarchical_clh 246 1240 3300
        mcs 18 91 71
        parking 42 347 1047
        per_cpu_read_write 160 1773 2653
        per_node_read_write 1396 - -
        percpu_read_write_semaphore 5277 - -
        queued 13 549 214
        queued_paravirtual 177 not-checked not-checked
        queued_read_write 77 17625 4812
        read_write_semaphore 468 56688 -
        test_and_set 7 27 15
        test_and_set_delayed 7 27 15
        test_and_test_and_set 8 39 23
        ticket 12 46 22
    "#]];
    check(Memory::Rc11, 100_000, &sizes, &expected);
}

#[test]
fn locks_hold_in_every_execution_that_arm_and_the_kernel_allow() {
    let sizes = [(2, 1), (2, 2)];
    check(
        Memory::Armv8,
        3000,
        &sizes,
        &expect![[r#"
        states of 2x1 2x2
        array 35 154
        clh 12 64
        cna 64 653
        cohort 211 2097
        futex_mutex 25 377
        hierarchical_clh 690 -
        mcs 19 168
        parking 47 -
        per_cpu_read_write 160 1891
        per_node_read_write 935 -
        percpu_read_write_semaphore - -
        queued 13 605
        queued_paravirtual 131 not-checked
        queued_read_write 75 -
        read_write_semaphore 520 -
        test_and_set 9 95
        test_and_set_delayed 9 95
        test_and_test_and_set 9 91
        ticket 12 48
    "#]],
    );
    check(
        Memory::Lkmm,
        1500,
        &sizes,
        &expect![[r#"
        states of 2x1 2x2
        array 35 160
        clh 13 108
        cna 82 -
        cohort 211 -
        futex_mutex 25 1141
        hierarchical_clh 1038 -
        mcs 21 326
        parking 53 -
        per_cpu_read_write 160 -
        per_node_read_write not-checked not-checked
        percpu_read_write_semaphore not-checked not-checked
        queued 13 1179
        queued_paravirtual 138 not-checked
        queued_read_write 78 -
        read_write_semaphore 595 -
        test_and_set 11 191
        test_and_set_delayed 11 191
        test_and_test_and_set 9 123
        ticket 12 50
    "#]],
    );
}

#[test]
fn interrupts_are_not_searched_under_weak_memory() {
    let mechanism = MECHANISMS.iter().find(|mechanism| mechanism.name == "tlb_shootdown").unwrap();
    let (over, given) = ("ticket".to_string(), Vec::new());
    let design = mechanism.designs()[0];
    let subject = Subject::Mechanism(MechanismDesign { mechanism, design, over, given });
    let size = CheckSize { threads: 2, acquires: 1, locks: 1 };
    let options = Options { memory: Memory::Rc11, ..Options::default() };
    let found = with_tasks(&subject, size, Mutation::None, |setup| search(setup, &options));
    let failure = found.unwrap().unwrap().failure.unwrap();
    assert_eq!(failure.unsupported().unwrap().why, "interrupts are not searched under rc11");
}
