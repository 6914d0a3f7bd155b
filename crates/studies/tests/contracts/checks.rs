//! The contract of all locks under the checker: every listed lock, in every interleaving of the
//! sizes below, in both memory models, with the number of states pinned. A new lock needs no
//! test; `UPDATE_EXPECT=1` adds its numbers.

use algorithms::locks::LOCKS;
use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::MECHANISMS;
use algorithms::mechanisms::file_locks::{
    DESIGNS, Deadlocks, Design, FileLocks, LockKind, LockOutcome, Owner, Range, Refused, TO_THE_END,
};
use engines::AccessChange;
use engines::checker::{Fault, Memory, Options, SearchResult, Setup, replay, sample, search};
use expect_test::{Expect, expect};
use machine::{Native, Region};
use studies::checks::against_kernel::table::{LockLine, OwnerKind};
use studies::checks::against_kernel::{KernelComparison, compare};
use studies::checks::mutants;
use studies::checks::{CheckSize, Mutation, with_tasks};
use studies::{MechanismDesign, Subject};

const SIZES: &[CheckSize] = &[
    CheckSize { threads: 2, acquires: 1, locks: 1 },
    CheckSize { threads: 2, acquires: 2, locks: 1 },
    CheckSize { threads: 3, acquires: 1, locks: 1 },
    CheckSize { threads: 2, acquires: 1, locks: 2 },
];

const MEMORIES: [Memory; 2] = [Memory::SequentiallyConsistent, Memory::TotalStoreOrder];

fn searched(name: &str, size: CheckSize, mutation: Mutation, options: &Options) -> SearchResult {
    let lock = Subject::lock(name).unwrap();
    with_tasks(&lock, size, mutation, |setup| search(setup, options)).unwrap().unwrap()
}

fn states(name: &str, size: CheckSize, options: &Options) -> u64 {
    let searched = searched(name, size, Mutation::None, options);
    if let Some(failure) = searched.failure {
        panic!("{name} {size:?}: {}\n{}", failure.fault, failure.steps.join("\n"));
    }
    assert!(!searched.gave_up, "{name} {size:?}: gave up");
    searched.states
}

#[test]
fn every_lock_holds_in_every_interleaving() {
    let mut table = String::from("tasks x acquires: 2x1 2x2 3x1 2x1 with two locks; then x86\n");
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
        tasks x acquires: 2x1 2x2 3x1 2x1 with two locks; then x86
        array 33 89 124 269 33 89 124 268
        clh 9 36 16 67 9 36 16 67
        cna 60 317 449 371 56 289 401 363
        cohort 165 757 768 1227 162 726 755 1215
        futex_mutex 20 128 216 101 20 128 216 101
        hierarchical_clh 201 875 1912 1715 236 1176 2309 2247
        mcs 18 83 62 108 17 75 56 105
        parking 41 256 623 213 41 256 623 213
        per_cpu_read_write 160 1578 2653 160 159 1666 2624 159
        per_node_read_write 692 8669 8533 692 687 8811 10434 687
        percpu_read_write_semaphore 1307 39013 208614 1307 1379 41995 229595 1379
        queued 11 164 100 57 10 132 84 53
        queued_paravirtual 97 45548 26980 452 133 71083 48122 612
        queued_read_write 68 4901 2602 68 63 3798 2113 63
        read_write_semaphore 396 39781 36457 396 423 42753 39689 423
        test_and_set 7 21 13 38 7 21 13 37
        test_and_set_delayed 7 21 13 38 7 21 13 37
        test_and_test_and_set 8 31 20 43 8 31 20 42
        ticket 12 40 22 83 12 40 22 82
    "#]]
}

/// A task that holds four locks has all queue nodes of its CPU in use, and gives them back in the reverse order.
#[test]
fn every_exclusive_lock_holds_where_three_and_four_are_nested() {
    let mut table = String::from("2x1 with three locks, with four; then x86\n");
    for lock in LOCKS.iter().filter(|lock| !lock.shared) {
        table += lock.name;
        for memory in MEMORIES {
            for locks in [3, 4] {
                let size = CheckSize { threads: 2, acquires: 1, locks };
                let options = Options { memory, ..Options::default() };
                table += &format!(" {}", states(lock.name, size, &options));
            }
        }
        table.push('\n');
    }
    expect![[r#"
        2x1 with three locks, with four; then x86
        array 1693 9895 1682 9810
        clh 411 2442 411 2442
        cna 1896 8731 1888 8755
        cohort 6600 31327 6552 31135
        futex_mutex 414 1545 414 1545
        hierarchical_clh 10605 59329 15438 95749
        mcs 536 2406 528 2386
        parking 890 3365 890 3365
        queued 236 894 224 858
        queued_paravirtual 1754 6290 2359 8424
        test_and_set 163 635 157 607
        test_and_set_delayed 163 635 157 607
        test_and_test_and_set 184 716 178 688
        ticket 427 1972 420 1932
    "#]]
    .assert_eq(&table);
}

/// The documentation cites these numbers.
#[test]
fn larger_searches_have_the_documented_number_of_states() {
    let size = |threads, acquires| CheckSize { threads, acquires, locks: 1 };
    let count = |name: &str, size| states(name, size, &Options::default());
    assert_eq!(count("ticket", size(3, 2)), 130);
    assert_eq!(count("mcs", size(4, 1)), 178);
    assert_eq!(count("mcs", size(3, 2)), 661);
    assert_eq!(count("queued", size(4, 1)), 1816);
    assert_eq!(count("queued", size(3, 2)), 82393);
    assert_eq!(count("queued", size(5, 1)), 65236);
}

/// Partial-order reduction hides no fault: neither of a lock nor of a mutant of the locks that
/// it reduces.
#[test]
fn reduction_changes_no_verdict() {
    let fails = |name: &str, size, mutation, memory, reduction| {
        let options = Options { memory, reduction, states_max: 50_000, ..Options::default() };
        let searched = searched(name, size, mutation, &options);
        (searched.failure.is_some(), searched.states)
    };
    let mut fewer = Vec::new();
    for lock in LOCKS {
        for memory in MEMORIES {
            for &size in SIZES {
                let reduced = |on| fails(lock.name, size, Mutation::None, memory, on);
                let (with, without) = (reduced(true), reduced(false));
                assert_eq!(with.0, without.0, "{} {size:?} {memory:?}", lock.name);
                // A search with store buffers keeps a few states apart while it looks for loads that pass stores.
                let most = match memory {
                    Memory::SequentiallyConsistent => without.1,
                    _ => without.1 + without.1 / 10,
                };
                assert!(with.1 <= most, "{} {size:?} {memory:?}: {with:?} {without:?}", lock.name);
                let is_plain = memory == Memory::SequentiallyConsistent;
                if is_plain && with.1 < without.1 && !fewer.contains(&lock.name) {
                    fewer.push(lock.name);
                }
            }
        }
    }
    let reduced =
        ["clh", "cna", "hierarchical_clh", "mcs", "queued_paravirtual", "read_write_semaphore"];
    assert_eq!(fewer, reduced);
    for name in ["clh", "cna", "hierarchical_clh", "mcs", "queued"] {
        let lock = Subject::lock(name).unwrap();
        for mutant in mutants::possible(&lock).unwrap().mutants {
            for memory in MEMORIES {
                for &size in SIZES {
                    let reduced = |on| fails(name, size, Mutation::Apply(mutant), memory, on);
                    let (with, without) = (reduced(true).0, reduced(false).0);
                    assert_eq!(with, without, "{name} {size:?} {memory:?} {mutant:?}");
                }
            }
        }
    }
}

/// The states that symmetry merges, counted one by one, are those of a search without it.
#[test]
fn symmetry_merges_exactly_the_states_that_are_renumberings_of_one() {
    for lock in LOCKS {
        let size = SIZES[1];
        let unmerged = Options { symmetry: false, reduction: false, ..Options::default() };
        let counted = Options { count_merged: true, reduction: false, ..Options::default() };
        let searched = searched(lock.name, size, Mutation::None, &counted);
        let counted = searched.unmerged_states.unwrap();
        let all = states(lock.name, size, &unmerged);
        // A lock that is not symmetric has no merged states. Of two steps that only their own tasks can see, that of
        // the lower number is taken first, so a few states differ: without this order the numbers are equal.
        let nearly_all = all - all / 1000..=all + all / 1000;
        let is_exact = nearly_all.contains(&counted) || searched.states == all;
        assert!(is_exact, "{}: {counted} of {all}", lock.name);
    }
}

/// Merged states have equal accesses pending, or a task has forgotten history that matters.
#[test]
fn no_lock_forgets_history_that_matters() {
    for lock in LOCKS {
        for size in &SIZES[..3] {
            let options =
                Options { check_forgetting: true, check_races: false, ..Options::default() };
            states(lock.name, *size, &options);
        }
    }
}

#[test]
fn every_lock_survives_spurious_wakeups() {
    for lock in LOCKS {
        states(lock.name, SIZES[1], &Options { spurious_wakeups: true, ..Options::default() });
    }
}

#[test]
fn random_schedules_of_more_tasks_find_nothing() {
    let size = CheckSize { threads: 8, acquires: 2, locks: 1 };
    for lock in LOCKS {
        for memory in MEMORIES {
            let options = Options { memory, ..Options::default() };
            let (subject, mutation) = (Subject::Lock(lock), Mutation::None);
            let sampled = with_tasks(&subject, size, mutation, |s| sample(s, &options, 300, 3, 1));
            let sampled = sampled.unwrap().unwrap();
            if let Some(failure) = sampled.failure {
                panic!("{}: {}\n{}", lock.name, failure.fault, failure.steps.join("\n"));
            }
            assert_eq!(sampled.schedules, 300, "{}", lock.name);
        }
    }
}

/// A failure is a readable interleaving, and its schedule leads to the fault again.
#[test]
fn a_failure_is_shown_step_by_step_and_found_again() {
    let ticket = Subject::lock("ticket").unwrap();
    let judged = mutants::judge(&ticket).unwrap();
    let mut mutants = judged.iter().map(|judged| judged.mutant);
    let waitless = mutants.find(|mutant| mutant.change == AccessChange::NoWait).unwrap();
    let (options, size) = (Options::default(), SIZES[0]);
    let mutation = Mutation::Apply(waitless);
    let failure = searched("ticket", size, mutation, &options).failure.unwrap();
    expect![[r#"
        t0 lock.next add 1 -> 0                                      ticket.rs:43
        t0   arrives
        t0 lock.serving load -> 0                                    ticket.rs:46
        t0   enters
        t0 guarded.writes = 1                                        contract.rs:49
        t0   leaves
        t0 lock.serving load -> 0                                    ticket.rs:54
        t1 lock.next add 1 -> 1                                      ticket.rs:43
        t1   arrives
        t1 lock.serving load -> 0                                    ticket.rs:46
        t1   enters"#]]
    .assert_eq(&failure.steps.join("\n"));
    assert!(matches!(failure.fault, Fault::Race(_)));
    let replayed =
        with_tasks(&ticket, size, mutation, |setup| replay(setup, &options, &failure.schedule));
    assert_eq!(replayed.unwrap().unwrap().unwrap().fault, Some(failure.fault));
}

#[test]
fn file_locks_detect_deadlocks() {
    let locks = FileLocks::<Ticket>::new(&Region::new(64 << 10).unwrap(), 1, 1, 32, Design::AFTER);
    let m = Native::new(0, 0);
    let write = |owner, byte| Range {
        owner: Owner::Process(owner),
        kind: LockKind::Write,
        start: byte,
        end: byte,
    };
    for process in 0..3 {
        assert_eq!(locks.try_set(&m, 0, write(process, process.into())), Ok(()));
    }
    let waits = |process, byte| locks.attempt(&m, 0, write(process, byte), true);
    assert!(matches!(waits(0, 1), LockOutcome::Waits(_)));
    assert!(matches!(waits(1, 2), LockOutcome::Waits(_)));
    assert!(matches!(waits(2, 0), LockOutcome::Refused(Refused::Deadlock)));
    // An open file waits for a process, which then requests a lock that the open file holds.
    let open_file = |byte| Range { owner: Owner::OpenFile(7), ..write(0, byte) };
    assert_eq!(locks.try_set(&m, 0, open_file(9)), Ok(()));
    assert_eq!(locks.try_set(&m, 0, write(4, 4)), Ok(()));
    let waits_for = |range| locks.attempt(&m, 0, range, true);
    assert!(matches!(waits_for(open_file(4)), LockOutcome::Waits(_)));
    assert!(matches!(waits_for(write(4, 9)), LockOutcome::Refused(Refused::Deadlock)));
}

/// A short run of `knee check file_locks --against-kernel`.
#[test]
fn file_locks_answer_as_the_kernel_does() {
    for (name, design) in DESIGNS.iter().filter(|(_, d)| d.deadlocks == Deadlocks::Found) {
        match compare(3000, *design, 1) {
            Err(difference) => panic!("{name}: {difference:#}"),
            Ok(compared) => {
                let KernelComparison { deadlocks, waited, forks, exits, .. } = compared;
                assert!(deadlocks.min(waited).min(forks).min(exits) > 0, "{name}: {deadlocks}");
            }
        }
    }
}

/// Calls `act` with the tasks of every design of every mechanism, at their start.
fn each_design<R>(size: CheckSize, mut act: impl FnMut(&str, &Setup) -> R) {
    for mechanism in MECHANISMS {
        for design in mechanism.designs() {
            let (over, given) = ("test_and_set".to_string(), Vec::new());
            let design = MechanismDesign { mechanism, design, over, given };
            let subject = Subject::Mechanism(design);
            let name = subject.name();
            with_tasks(&subject, size, Mutation::None, |setup| drop(act(&name, setup))).unwrap();
        }
    }
}

#[test]
fn mechanisms_hold_in_every_interleaving_of_two_tasks() {
    let mut table = String::from("two tasks with one operation each; then x86\n");
    each_design(SIZES[0], |name, setup| {
        table += name;
        for memory in MEMORIES {
            let searched = search(setup, &Options { memory, ..Options::default() }).unwrap();
            if let Some(failure) = searched.failure {
                panic!("{name}: {}\n{}", failure.fault, failure.steps.join("\n"));
            }
            table += &format!(" {}", searched.states);
        }
        table.push('\n');
    });
    expect![[r#"
        two tasks with one operation each; then x86
        counter:compare 13 13
        counter:add 4 4
        counter:batched 1 1
        counter:locked 14 12
        fault_path:one-lock 695 773
        fault_path:one-lock+list 1063 1161
        fault_path:read-side 1196 1232
        fault_path:read-side+list 1988 1910
        fault_path:counters 742 770
        fault_path:counters+list 1186 1216
        file_locks:before 595 605
        file_locks:before+per-file 595 605
        file_locks:before+per-cpu 595 605
        file_locks:before+hash 595 605
        file_locks:before+no-detection 422 430
        file_locks:before+wake-concerned 483 493
        file_locks:before+tree 595 605
        file_locks:before+together 595 605
        file_locks:after 595 605
        file_locks:after+no-detection 422 430
        file_locks:after+wake-concerned 483 493
        file_locks:after+wake-locked 595 605
        file_locks:after+tree 595 605
        lockref:before 890 566
        lockref:after 598 484
        lockref:after+unbounded 588 470
        lockref:after+alone 96 96
        log_commit_list:before 3861 3635
        log_commit_list:before+once 3861 3635
        log_commit_list:before+per-cpu-space 5880 5832
        log_commit_list:before+per-cpu-context 3168 3198
        log_commit_list:before+ids 5128 4818
        log_commit_list:before+ids+moved 5128 4818
        log_commit_list:after 5880 5596
        log_commit_list:after+one-list 8054 8032
        log_commit_list:after+moved 8054 8032
        log_commit_list:after+one-sum 6014 5724
        log_commit_list:after+per-cpu-context 4423 4627
        repair:before 1053 1963
        repair:before+wander 1053 1963
        repair:after 1053 1963
        repair:after+wander 1053 1963
        repair:after+wander+broadcast 1053 1963
        repair:after+wander+batch 1053 1963
        repair:after+wander+skipped 1650 2881
        seqlock:before 116 104
        seqlock:after 243 235
        seqlock:after+locked 255 243
        seqlock:after+latch 511 505
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
fn no_mechanism_forgets_history_that_matters() {
    let options = Options { check_forgetting: true, check_races: false, ..Options::default() };
    each_design(SIZES[0], |name, setup| {
        let failure = search(setup, &options).unwrap().failure;
        assert!(failure.is_none(), "{name}: {}", failure.unwrap().fault);
    });
}

#[test]
fn random_schedules_of_mechanisms_with_more_tasks_find_nothing() {
    each_design(CheckSize { threads: 4, acquires: 3, locks: 1 }, |name, setup| {
        for memory in MEMORIES {
            let options = Options { memory, ..Options::default() };
            if let Some(failure) = sample(setup, &options, 50, 3, 1).unwrap().failure {
                panic!("{name}: {}\n{}", failure.fault, failure.steps.join("\n"));
            }
        }
    });
}

/// The comparison would notice: it names the first difference of a manager that detects no
/// deadlocks.
#[test]
fn a_manager_that_differs_from_the_kernel_is_reported() {
    let without_detection = Design { deadlocks: Deadlocks::Ignored, ..Design::AFTER };
    let difference = compare(100_000, without_detection, 1).err().unwrap();
    assert!(format!("{difference:#}").contains("Deadlock"), "{difference:#}");
}

#[test]
fn lines_of_other_files_do_not_count() {
    let held =
        LockLine::parse("1: POSIX  ADVISORY  WRITE 3568 fe:00:2531452 0 EOF", "fe:00:2531452");
    let line = LockLine {
        waits: false,
        owner: OwnerKind::Process,
        pid: 3568,
        write: true,
        start: 0,
        end: TO_THE_END,
    };
    assert_eq!(held, Some(line));
    let waits =
        LockLine::parse("1: -> OFDLCK ADVISORY  READ  -1 fe:00:2531452 128 159", "fe:00:2531452");
    let (owner, pid, write) = (OwnerKind::OpenFile, 0, false);
    let line = LockLine { waits: true, owner, pid, write, start: 128, end: 159 };
    assert_eq!(waits, Some(line));
    assert_eq!(
        LockLine::parse("2: FLOCK  ADVISORY  WRITE 12 fe:00:12531452 0 EOF", "fe:00:2531452"),
        None
    );
}
