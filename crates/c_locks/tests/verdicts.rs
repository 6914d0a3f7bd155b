//! What a check says of locks in C beside the fault: the missing order of a race, a shortest way, names of words, starvation.

use std::path::Path;
use std::sync::Arc;

use c_locks::compile;
use engines::checker::{Failure, Memory, Options, search};
use setup::foreign::Permitted;
use studies::Subject;
use studies::checks::bypass::{Bound, Fairness, fairness};
use studies::checks::{CheckSize, Mutation, with_tasks};

fn program(name: &str, flags: &[&str]) -> Subject {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks").join(name);
    let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
    let program = compile(&Permitted::typed(file), &flags);
    Subject::InC(Arc::new(program.unwrap_or_else(|error| panic!("{error:#}"))))
}

/// The fault of two tasks, with a shortest way to it.
fn failure(program: &Subject, acquires: u32) -> Failure {
    found(program, acquires, true)
}

fn found(program: &Subject, acquires: u32, shortest: bool) -> Failure {
    let size = CheckSize { threads: 2, acquires, locks: 1 };
    let memory = Memory::TotalStoreOrder;
    let options = Options { memory, shortest, ..Options::default() };
    let found = with_tasks(program, size, Mutation::None, |setup| search(setup, &options));
    found.unwrap().unwrap().failure.unwrap()
}

#[test]
fn an_access_behind_the_end_of_an_array_is_named() {
    let said = |flags: &[&str], threads| {
        let size = CheckSize { threads, acquires: 1, locks: 1 };
        let program = program("for_two.c", flags);
        let options = Options::default();
        let found = with_tasks(&program, size, Mutation::None, |setup| search(setup, &options));
        found.unwrap().unwrap().failure.map(|failure| failure.fault.to_string())
    };
    assert_eq!(said(&[], 2), None);
    let plain = said(&["-DPLAIN"], 2).unwrap();
    assert!(
        plain.starts_with("out of bounds: t")
            && plain.contains(" accesses memory at for_two.c:21 "),
        "{plain}"
    );
}

#[test]
fn a_race_names_both_accesses_and_what_is_missing() {
    let said = |flag| failure(&program("hand_over.c", &[flag]), 1).fault.to_string();
    let both = "t1 reads shared.value[0] at hand_over.c:36; t0 wrote it at hand_over.c:29; nothing orders them: ";
    let store = "the read-modify-write of shared.filled at hand_over.c:30 is relaxed and needs release order";
    assert_eq!(said("-DRELAXED_STORE"), format!("data race: {both}{store}"));
    let load = "the load of shared.filled at hand_over.c:35 is relaxed and needs acquire order";
    assert_eq!(said("-DRELAXED_LOAD"), format!("data race: {both}{load}"));
    let plain = said("-DPLAIN");
    // The compiler may read ahead, so which word races first is its choice.
    for part in ["t0 wrote it at hand_over.c:", "nothing orders them: t1 read no atomic word"] {
        assert!(plain.contains(part), "{plain}");
    }
}

/// Tasks that race before their first step have an empty schedule, and a trace all the same.
#[test]
fn a_race_before_the_first_step_has_a_trace() {
    let failure = failure(&program("hand_over.c", &["-DPLAIN"]), 1);
    assert!(failure.schedule.is_empty(), "{}", failure.schedule);
    let writes = "t0 shared.value[0] = 7";
    assert!(failure.steps.iter().any(|step| step.starts_with(writes)), "{:?}", failure.steps);
}

#[test]
fn neighbours_race_in_one_word_alone() {
    let size = CheckSize { threads: 2, acquires: 2, locks: 1 };
    for memory in [Memory::SequentiallyConsistent, Memory::TotalStoreOrder] {
        let options = Options { memory, shortest: true, ..Options::default() };
        let found = |flags: &[&str]| {
            let program = program("neighbours.c", flags);
            let found = with_tasks(&program, size, Mutation::None, |s| search(s, &options));
            found.unwrap().unwrap().failure
        };
        let fault = found(&["-DONE_WORD"]).unwrap().fault.to_string();
        assert!(fault.contains("t1 reads bits.{first,second} at neighbours.c:19"), "{fault}");
        assert!(found(&[]).is_none());
    }
}

#[test]
fn a_trace_is_the_shortest_there_is() {
    let program = program("peterson.c", &["-DNO_FENCE"]);
    let (first, shortest) = (found(&program, 2, false), found(&program, 2, true));
    assert!(shortest.is_shortest && !first.is_shortest);
    let lengths = (shortest.schedule.len(), first.schedule.len());
    assert!(lengths.0 < lengths.1, "{lengths:?}");
    assert_eq!(shortest.fault.word(), first.fault.word());
}

#[test]
fn words_are_called_by_their_members_and_changes_by_their_fields() {
    let steps = failure(&program("names.c", &[]), 1).steps.join("\n");
    for part in [
        "t0 shared.mutex.data.lock swap 1 -> 0 ",
        "t0 shared.packed.all add 131073 -> 0 (held 0 -> 1, tail 0 -> 2)",
        "t0 shared.flags.all or 17 -> 0 (low 0 -> 1, high 0 -> 2)",
    ] {
        assert!(steps.contains(part), "no '{part}' in:\n{steps}");
    }
}

fn measured(name: &str) -> Fairness {
    fairness(&program(name, &[])).unwrap()
}

#[test]
fn a_waiter_that_others_can_always_overtake_is_found() {
    let is_bounded = |bound: &Option<Bound>| matches!(bound, Some(Bound::AtMost(_)));
    let is_unbounded = |bound: &Option<Bound>| matches!(bound, Some(Bound::None(_)));
    for name in ["ticket.c", "mcs.c"] {
        let found = measured(name);
        assert!(is_bounded(&found.exclusive) && found.shared.is_none(), "{name}: {found:?}");
    }
    for name in ["futex.c", "own_variables.c"] {
        let found = measured(name);
        assert!(is_unbounded(&found.exclusive), "{name}: {found:?}");
    }
    let found = measured("readers_first.c");
    assert!(is_unbounded(&found.exclusive), "{found:?}");
    let found = measured("phase_fair.c");
    assert!(is_bounded(&found.exclusive) && is_bounded(&found.shared), "{found:?}");
}
