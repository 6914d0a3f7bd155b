//! The contract of all locks under search: every listed lock, in every interleaving of the
//! sizes below, in both memory models, with the number of states pinned. A new lock writes no
//! test; its numbers come with `UPDATE_EXPECT=1`.

use algorithms::locks::LOCKS;
use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::MECHANISMS;
use algorithms::mechanisms::file_locks::{
    DESIGNS, Deadlocks, Design, FileLocks, Kind, Outcome, Owner, Range, Refused,
};
use engines::Change;
use engines::explored::{Fault, Memory, Options, Setup, replay, sample, search};
use expect_test::{Expect, expect};
use machine::{Native, Region};
use studies::checks::against_kernel::{Compared, compare};
use studies::checks::mutants;
use studies::checks::{Between, Size, with_mechanism, with_setup};

const SIZES: &[Size] = &[
    Size { threads: 2, acquires: 1, locks: 1 },
    Size { threads: 2, acquires: 2, locks: 1 },
    Size { threads: 3, acquires: 1, locks: 1 },
    Size { threads: 2, acquires: 1, locks: 2 },
];

const MEMORIES: [Memory; 2] = [Memory::SequentiallyConsistent, Memory::TotalStoreOrder];

fn states(name: &str, size: Size, options: &Options) -> u64 {
    let found = with_setup(name, size, Between::Nothing, |setup| search(setup, options));
    let found = found.unwrap().unwrap().unwrap();
    if let Some(failure) = found.failure {
        panic!("{name} {size:?}: {}\n{}", failure.fault, failure.steps.join("\n"));
    }
    assert!(!found.gave_up, "{name} {size:?}: gave up");
    found.states
}

#[test]
fn every_lock_holds_in_every_interleaving() {
    let mut table = String::from("tasks x acquires: 2x1 2x2 3x1 2x1 with two locks; then --tso\n");
    for lock in LOCKS {
        table += lock.name;
        for memory in MEMORIES {
            for &size in SIZES {
                let options = Options { memory, ..Options::default() };
                table += &format!(" {}", states(lock.name, size, &options));
            }
        }
        table.push('\n');
    }
    expected().assert_eq(&table);
}

fn expected() -> Expect {
    expect![[r#"
        tasks x acquires: 2x1 2x2 3x1 2x1 with two locks; then --tso
        clh 9 36 16 67 9 36 16 67
        cna 60 317 449 371 56 289 401 363
        mcs 18 83 62 108 17 75 56 105
        parking 41 256 623 213 41 256 623 213
        per_cpu_read_write 160 1578 2653 160 171 1816 3069 171
        queued 11 164 100 57 10 132 84 52
        queued_paravirtual 97 43885 24132 456 134 55428 40997 622
        queued_read_write 68 4901 2602 68 62 3798 2113 62
        test_and_set 7 21 13 38 7 21 13 37
        test_and_set_delayed 7 21 13 38 7 21 13 37
        test_and_test_and_set 8 31 20 43 8 31 20 42
        ticket 12 40 22 83 12 40 22 88
    "#]]
}

/// The sizes that the documentation names.
#[test]
fn larger_searches_have_the_states_that_are_written_down() {
    let size = |threads, acquires| Size { threads, acquires, locks: 1 };
    let count = |name: &str, size| states(name, size, &Options::default());
    assert_eq!(count("ticket", size(3, 2)), 130);
    assert_eq!(count("mcs", size(4, 1)), 178);
    assert_eq!(count("mcs", size(3, 2)), 661);
    assert_eq!(count("queued", size(4, 1)), 1816);
    assert_eq!(count("queued", size(3, 2)), 82393);
    assert_eq!(count("queued", size(5, 1)), 65236);
}

/// Steps that are taken first, alone, hide nothing: neither of the locks nor of a mutant of
/// those that have such steps.
#[test]
fn reduction_changes_no_verdict() {
    let wrong = |name: &str, size, between, memory, reduction| {
        let options = Options { memory, reduction, states_max: 100_000, ..Options::default() };
        let found = with_setup(name, size, between, |setup| search(setup, &options));
        let found = found.unwrap().unwrap().unwrap();
        (found.failure.is_some(), found.states)
    };
    let mut fewer = Vec::new();
    for lock in LOCKS {
        for memory in MEMORIES {
            for &size in SIZES {
                let with = |on| wrong(lock.name, size, Between::Nothing, memory, on);
                let (with, without) = (with(true), with(false));
                assert_eq!(with.0, without.0, "{} {size:?} {memory:?}", lock.name);
                assert!(with.1 <= without.1, "{} {size:?} {memory:?}", lock.name);
                if with.1 < without.1 && !fewer.contains(&lock.name) {
                    fewer.push(lock.name);
                }
            }
        }
    }
    assert_eq!(fewer, ["cna", "mcs", "queued_paravirtual"]);
    for name in ["clh", "cna", "mcs", "queued"] {
        let lock = LOCKS.iter().find(|lock| lock.name == name).unwrap();
        for mutant in mutants::possible(lock).unwrap().mutants {
            for memory in MEMORIES {
                for &size in SIZES {
                    let with = |on| wrong(name, size, Between::Mutant(mutant), memory, on);
                    let (with, without) = (with(true).0, with(false).0);
                    assert_eq!(with, without, "{name} {size:?} {memory:?} {mutant:?}");
                }
            }
        }
    }
}

/// The states that symmetry merges, counted one by one, are those of a search without it.
#[test]
fn symmetry_merges_exactly_the_states_that_are_renamings_of_one() {
    for lock in LOCKS {
        let size = SIZES[1];
        let named = Options { symmetry: false, reduction: false, ..Options::default() };
        let counted = Options { count_merged: true, reduction: false, ..Options::default() };
        let searched =
            with_setup(lock.name, size, Between::Nothing, |setup| search(setup, &counted));
        let searched = searched.unwrap().unwrap().unwrap();
        let merged = searched.named_states.unwrap();
        let all = states(lock.name, size, &named);
        // Of a lock that does not take CPUs as alike, nothing is merged. Tasks that cannot be
        // told apart at a glance may leave a few states that could be.
        let few = all..=all + all / 1000;
        assert!(few.contains(&merged) || searched.states == all, "{}: {merged}", lock.name);
    }
}

/// Equal states have equal accesses pending, or a cut has forgotten something.
#[test]
fn no_cut_merges_states_that_differ() {
    for lock in LOCKS {
        for size in &SIZES[..3] {
            let options = Options { check_cuts: true, races: false, ..Options::default() };
            states(lock.name, *size, &options);
        }
    }
}

#[test]
fn sleepers_may_wake_by_themselves() {
    for lock in LOCKS {
        states(lock.name, SIZES[1], &Options { spurious: true, ..Options::default() });
    }
}

#[test]
fn random_schedules_of_more_tasks_find_nothing() {
    let size = Size { threads: 8, acquires: 2, locks: 1 };
    for lock in LOCKS {
        for memory in MEMORIES {
            let options = Options { memory, ..Options::default() };
            let found =
                with_setup(lock.name, size, Between::Nothing, |s| sample(s, &options, 300, 3, 1));
            let found = found.unwrap().unwrap().unwrap();
            if let Some(failure) = found.failure {
                panic!("{}: {}\n{}", lock.name, failure.fault, failure.steps.join("\n"));
            }
            assert_eq!(found.schedules, 300, "{}", lock.name);
        }
    }
}

/// A failure is an interleaving that can be read, and its schedule leads there again.
#[test]
fn a_failure_is_shown_step_by_step_and_found_again() {
    let lock = LOCKS.iter().find(|lock| lock.name == "ticket").unwrap();
    let judged = mutants::judge(lock).unwrap();
    let waitless = judged.iter().find(|one| one.mutant.change == Change::NoWait).unwrap().mutant;
    let (options, size) = (Options::default(), SIZES[0]);
    let found = with_setup("ticket", size, Between::Mutant(waitless), |s| search(s, &options));
    let failure = found.unwrap().unwrap().unwrap().failure.unwrap();
    expect![[r#"
        t0 lock.next add 1 -> 0                                      ticket.rs:42
        t0   has its place in the queue
        t0 lock.serving load -> 0                                    ticket.rs:45
        t0   is inside
        t0 guarded.writes = 1                                        contract.rs:39
        t0   leaves
        t0 lock.serving load -> 0                                    ticket.rs:53
        t1 lock.next add 1 -> 1                                      ticket.rs:42
        t1   has its place in the queue
        t1 lock.serving load -> 0                                    ticket.rs:45
        t1   is inside"#]]
    .assert_eq(&failure.steps.join("\n"));
    assert!(matches!(failure.fault, Fault::Race(_)));
    let again = with_setup("ticket", size, Between::Mutant(waitless), |setup| {
        replay(setup, &options, &failure.schedule)
    });
    assert_eq!(again.unwrap().unwrap().unwrap().unwrap().fault, Some(failure.fault));
}

#[test]
fn deadlocks_of_file_locks_are_found_where_they_are_looked_for() {
    let locks = FileLocks::<Ticket>::new(&Region::new(64 << 10).unwrap(), 1, 1, 32, Design::AFTER);
    let m = Native::new(0, 0);
    let write = |owner, byte| Range {
        owner: Owner::Process(owner),
        kind: Kind::Write,
        start: byte,
        end: byte,
    };
    for process in 0..3 {
        assert_eq!(locks.try_set(&m, 0, write(process, process.into())), Ok(()));
    }
    let waits = |process, byte| locks.attempt(&m, 0, write(process, byte), true);
    assert!(matches!(waits(0, 1), Outcome::Waits(_)));
    assert!(matches!(waits(1, 2), Outcome::Waits(_)));
    assert!(matches!(waits(2, 0), Outcome::Refused(Refused::Deadlock)));
    // An open file that waits for a process, which then wants a lock of that file.
    let open_file = |byte| Range { owner: Owner::OpenFile(7), ..write(0, byte) };
    assert_eq!(locks.try_set(&m, 0, open_file(9)), Ok(()));
    assert_eq!(locks.try_set(&m, 0, write(4, 4)), Ok(()));
    let waits_for = |range| locks.attempt(&m, 0, range, true);
    assert!(matches!(waits_for(open_file(4)), Outcome::Waits(_)));
    assert!(matches!(waits_for(write(4, 9)), Outcome::Refused(Refused::Deadlock)));
}

/// Some of `knee check file_locks --against-kernel`.
#[test]
fn file_locks_answer_as_the_kernel_does() {
    for (name, design) in DESIGNS.iter().filter(|(_, d)| d.deadlocks == Deadlocks::Found) {
        match compare(3000, *design, 1) {
            Err(difference) => panic!("{name}: {difference:#}"),
            Ok(compared) => {
                let Compared { deadlocks, waited, forks, exits, .. } = compared;
                assert!(deadlocks.min(waited).min(forks).min(exits) > 0, "{name}: {deadlocks}");
            }
        }
    }
}

/// Does something with every design of every mechanism, with its tasks at their start.
fn each_design<R>(size: Size, mut act: impl FnMut(&str, &Setup) -> R) {
    for mechanism in MECHANISMS {
        for design in mechanism.designs() {
            let name = format!("{}:{design}", mechanism.name);
            let done = with_mechanism(
                mechanism.name,
                design,
                "test_and_set",
                size,
                Between::Nothing,
                |setup| drop(act(&name, setup)),
            );
            done.unwrap().unwrap();
        }
    }
}

#[test]
fn mechanisms_hold_in_every_interleaving_of_two_tasks() {
    let mut table = String::from("two tasks with one operation each; then --tso\n");
    each_design(SIZES[0], |name, setup| {
        table += name;
        for memory in MEMORIES {
            let found = search(setup, &Options { memory, ..Options::default() }).unwrap();
            if let Some(failure) = found.failure {
                panic!("{name}: {}\n{}", failure.fault, failure.steps.join("\n"));
            }
            table += &format!(" {}", found.states);
        }
        table.push('\n');
    });
    expect![[r#"
        two tasks with one operation each; then --tso
        fault_path:one-lock 695 1354
        fault_path:one-lock+list 1063 1863
        fault_path:read-side 1196 1318
        fault_path:read-side+list 1988 2012
        fault_path:counters 742 840
        fault_path:counters+list 1186 1302
        file_locks:before 595 605
        file_locks:before+per-file 595 971
        file_locks:before+per-cpu 595 605
        file_locks:before+hash 595 605
        file_locks:before+no-detection 422 430
        file_locks:before+wake-concerned 483 493
        file_locks:before+tree 595 605
        file_locks:before+together 595 605
        file_locks:after 595 971
        file_locks:after+no-detection 422 710
        file_locks:after+wake-concerned 483 807
        file_locks:after+wake-locked 595 1047
        file_locks:after+tree 595 971
        log_commit_list:before 3861 4399
        log_commit_list:before+once 3861 4399
        log_commit_list:before+per-cpu-space 5880 5832
        log_commit_list:before+per-cpu-context 3168 4482
        log_commit_list:before+ids 5128 5786
        log_commit_list:before+ids+moved 5128 5786
        log_commit_list:after 5880 5596
        log_commit_list:after+one-list 8054 8032
        log_commit_list:after+moved 8054 8032
        log_commit_list:after+one-sum 6014 5724
        log_commit_list:after+per-cpu-context 4423 5357
        repair:before 1053 1963
        repair:before+wander 1053 1963
        repair:after 1053 1963
        repair:after+wander 1053 1963
        repair:after+wander+broadcast 1053 1963
        repair:after+wander+batch 1053 1963
        repair:after+wander+skipped 1650 2881
        tlb_shootdown:before 39186 100175
        tlb_shootdown:before+broadcast 39186 100175
        tlb_shootdown:before+batch 28544 127252
        tlb_shootdown:before+never-lazy 45715 74840
        tlb_shootdown:before+skipped 153831 360010
        tlb_shootdown:after 64025 248984
    "#]]
    .assert_eq(&table);
}

#[test]
fn no_cut_of_a_mechanism_merges_states_that_differ() {
    let options = Options { check_cuts: true, races: false, ..Options::default() };
    each_design(SIZES[0], |name, setup| {
        let failure = search(setup, &options).unwrap().failure;
        assert!(failure.is_none(), "{name}: {}", failure.unwrap().fault);
    });
}

#[test]
fn random_schedules_of_mechanisms_with_more_tasks_find_nothing() {
    each_design(Size { threads: 4, acquires: 3, locks: 1 }, |name, setup| {
        for memory in MEMORIES {
            let options = Options { memory, ..Options::default() };
            if let Some(failure) = sample(setup, &options, 200, 3, 1).unwrap().failure {
                panic!("{name}: {}\n{}", failure.fault, failure.steps.join("\n"));
            }
        }
    });
}

/// What the comparison is for: a manager that does not look for deadlocks is found out.
#[test]
fn a_manager_that_differs_from_the_kernel_is_told() {
    let deaf = Design { deadlocks: Deadlocks::Ignored, ..Design::AFTER };
    let difference = compare(100_000, deaf, 1).err().unwrap();
    assert!(format!("{difference:#}").contains("Deadlock"), "{difference:#}");
}
