//! The classical litmus tests, with their outcomes under RC11 as the literature has them: SB, MP, LB, IRIW, 2+2W, WRC, ISA2, R, S,
//! coherence, release sequences and fences.
//!
//!     Wrel x 1    a store, Racq x a load, Uacqrel x 2 a swap, Fsc a fence; P 1 and P: plain
//!     1:0=1       register 0 of thread 1 is 1;  x=2: memory at the end

use std::collections::BTreeSet;

use engines::checker::Memory;
use machine::Ordering;

use crate::program::{Outcome, Program, REGISTERS, Statement};
use crate::{axioms, searched};

/// Name, threads, outcome, and whether RC11 allows it. `race`: whether there is a data race.
const CLASSICS: &[(&str, &[&str], &str, bool)] = &[
    ("SB, relaxed", &["Wrlx x 1; Rrlx y", "Wrlx y 1; Rrlx x"], "0:0=0 1:0=0", true),
    ("SB, release and acquire", &["Wrel x 1; Racq y", "Wrel y 1; Racq x"], "0:0=0 1:0=0", true),
    ("SB, seq_cst", &["Wsc x 1; Rsc y", "Wsc y 1; Rsc x"], "0:0=0 1:0=0", false),
    ("SB, one seq_cst", &["Wsc x 1; Rsc y", "Wrlx y 1; Rsc x"], "0:0=0 1:0=0", true),
    ("SB, fences", &["Wrlx x 1; Fsc; Rrlx y", "Wrlx y 1; Fsc; Rrlx x"], "0:0=0 1:0=0", false),
    ("SB, one fence", &["Wrlx x 1; Fsc; Rrlx y", "Wrlx y 1; Facqrel; Rrlx x"], "0:0=0 1:0=0", true),
    ("SB, fence and seq_cst", &["Wrlx x 1; Fsc; Rrlx y", "Wsc y 1; Rsc x"], "0:0=0 1:0=0", false),
    ("SB, swaps", &["Uacqrel x 1; Rrlx y", "Uacqrel y 1; Rrlx x"], "0:1=0 1:1=0", true),
    ("MP, relaxed", &["Wrlx x 1; Wrlx y 1", "Rrlx y; Rrlx x"], "1:0=1 1:1=0", true),
    ("MP, release", &["Wrlx x 1; Wrel y 1", "Rrlx y; Rrlx x"], "1:0=1 1:1=0", true),
    ("MP, acquire", &["Wrlx x 1; Wrlx y 1", "Racq y; Rrlx x"], "1:0=1 1:1=0", true),
    ("MP, both", &["Wrlx x 1; Wrel y 1", "Racq y; Rrlx x"], "1:0=1 1:1=0", false),
    ("MP, fences", &["Wrlx x 1; Frel; Wrlx y 1", "Rrlx y; Facq; Rrlx x"], "1:0=1 1:1=0", false),
    ("MP, one fence", &["Wrlx x 1; Frel; Wrlx y 1", "Rrlx y; Rrlx x"], "1:0=1 1:1=0", true),
    ("MP, fence late", &["Wrlx x 1; Wrlx y 1; Frel", "Rrlx y; Facq; Rrlx x"], "1:0=1 1:1=0", true),
    ("MP, plain, relaxed", &["P 1; Wrlx y 1", "Rrlx y; P"], "race", true),
    ("MP, plain, unguarded", &["P 1; Wrel y 1", "Racq y; P"], "race", true),
    ("LB, relaxed", &["Rrlx x; Wrlx y 1", "Rrlx y; Wrlx x 1"], "0:0=1 1:0=1", false),
    ("IRIW, relaxed", &["Wrlx x 1", "Wrlx y 1", "Rrlx x; Rrlx y", "Rrlx y; Rrlx x"], IRIW, true),
    ("IRIW, acquire", &["Wrel x 1", "Wrel y 1", "Racq x; Racq y", "Racq y; Racq x"], IRIW, true),
    ("IRIW, seq_cst", &["Wsc x 1", "Wsc y 1", "Rsc x; Rsc y", "Rsc y; Rsc x"], IRIW, false),
    ("IRIW, acquire first", &["Wsc x 1", "Wsc y 1", "Racq x; Rsc y", "Racq y; Rsc x"], IRIW, true),
    (
        "IRIW, fences",
        &["Wrlx x 1", "Wrlx y 1", "Rrlx x; Fsc; Rrlx y", "Rrlx y; Fsc; Rrlx x"],
        IRIW,
        false,
    ),
    ("2+2W, relaxed", &["Wrlx x 1; Wrlx y 2", "Wrlx y 1; Wrlx x 2"], "x=1 y=1", true),
    ("2+2W, release", &["Wrel x 1; Wrel y 2", "Wrel y 1; Wrel x 2"], "x=1 y=1", true),
    ("2+2W, seq_cst", &["Wsc x 1; Wsc y 2", "Wsc y 1; Wsc x 2"], "x=1 y=1", false),
    ("2+2W, fences", &["Wrlx x 1; Fsc; Wrlx y 2", "Wrlx y 1; Fsc; Wrlx x 2"], "x=1 y=1", false),
    (
        "WRC, relaxed",
        &["Wrlx x 1", "Rrlx x; Wrlx y 1", "Rrlx y; Rrlx x"],
        "1:0=1 2:0=1 2:1=0",
        true,
    ),
    (
        "WRC, release",
        &["Wrlx x 1", "Rrlx x; Wrel y 1", "Racq y; Rrlx x"],
        "1:0=1 2:0=1 2:1=0",
        false,
    ),
    ("ISA2", &["Wrlx x 1; Wrel y 1", "Racq y; Wrel z 1", "Racq z; Rrlx x"], ISA2, false),
    (
        "ISA2, one relaxed",
        &["Wrlx x 1; Wrel y 1", "Rrlx y; Wrel z 1", "Racq z; Rrlx x"],
        ISA2,
        true,
    ),
    ("R, relaxed", &["Wrlx x 1; Wrlx y 1", "Wrlx y 2; Rrlx x"], "1:0=0 y=2", true),
    ("R, release", &["Wrlx x 1; Wrel y 1", "Wrel y 2; Racq x"], "1:0=0 y=2", true),
    ("R, seq_cst", &["Wsc x 1; Wsc y 1", "Wsc y 2; Rsc x"], "1:0=0 y=2", false),
    ("R, fences", &["Wrlx x 1; Fsc; Wrlx y 1", "Wrlx y 2; Fsc; Rrlx x"], "1:0=0 y=2", false),
    ("S, relaxed", &["Wrlx x 2; Wrlx y 1", "Rrlx y; Wrlx x 1"], "1:0=1 x=2", true),
    ("S, release", &["Wrlx x 2; Wrel y 1", "Racq y; Wrlx x 1"], "1:0=1 x=2", false),
    ("CoRR", &["Wrlx x 1; Wrlx x 2", "Rrlx x; Rrlx x"], "1:0=2 1:1=1", false),
    ("CoRR, both ways", &["Wrlx x 1", "Wrlx x 2", "Rrlx x; Rrlx x", "Rrlx x; Rrlx x"], CORR, false),
    ("CoWR", &["Wrlx x 1; Rrlx x", "Wrlx x 2"], "0:0=0", false),
    ("CoRW", &["Rrlx x; Wrlx x 1", "Wrlx x 2"], "0:0=1", false),
    ("CoWW", &["Wrlx x 1; Wrlx x 2", "Rrlx x"], "x=1", false),
    ("release sequence", &["Wrlx x 1; Wrel y 1", "Urlx y 2", "Racq y; Rrlx x"], SEQUENCE, false),
    (
        "release sequence, broken",
        &["Wrlx x 1; Wrel y 1; Wrlx y 2", "Racq y; Rrlx x"],
        "1:0=2 1:1=0",
        true,
    ),
    (
        "release sequence, by another",
        &["Wrlx x 1; Wrel y 1", "Rrlx y; Wrlx y 2", "Racq y; Rrlx x"],
        SEQUENCE,
        true,
    ),
    ("atomicity", &["Urlx x 1", "Urlx x 2"], "0:0=0 1:0=0", false),
    (
        "Z6.U",
        &["Wsc x 1; Wrel y 1", "Uacqrel y 2; Rrlx y", "Wsc y 3; Rsc x"],
        "1:0=1 1:1=3 2:0=0",
        true,
    ),
    (
        "fence between, seq_cst around",
        &["Wsc x 1; Rsc y", "Wrlx y 1; Fsc; Rrlx x"],
        "0:0=0 1:0=0",
        false,
    ),
];

const IRIW: &str = "2:0=1 2:1=0 3:0=1 3:1=0";
const ISA2: &str = "1:0=1 2:0=1 2:1=0";
const CORR: &str = "2:0=1 2:1=2 3:0=2 3:1=1";
const SEQUENCE: &str = "1:0=1 2:0=2 2:1=0";

fn ordering(name: &str) -> Ordering {
    match name {
        "rlx" => Ordering::Relaxed,
        "acq" => Ordering::Acquire,
        "rel" => Ordering::Release,
        "acqrel" => Ordering::AcqRel,
        "sc" => Ordering::SeqCst,
        other => panic!("no ordering {other}"),
    }
}

fn statement(text: &str) -> Statement {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let location = |name: &str| "xyz".find(name).expect("a location");
    let number = |text: &str| text.parse().expect("a number");
    let (kind, order) = parts[0].split_at(1);
    match (kind, &parts[1..]) {
        ("W", [name, value]) => Statement::Store(location(name), number(value), ordering(order)),
        ("R", [name]) => Statement::Load(location(name), ordering(order)),
        ("U", [name, value]) => Statement::Swap(location(name), number(value), ordering(order)),
        ("F", []) => Statement::Fence(ordering(order)),
        ("P", [value]) => Statement::Write(number(value)),
        ("P", []) => Statement::Read,
        _ => panic!("no statement {text}"),
    }
}

fn program(threads: &[&str]) -> Program {
    let thread = |text: &&str| text.split(';').map(statement).collect();
    Program { threads: threads.iter().map(thread).collect() }
}

fn is_outcome(outcome: &Outcome, wanted: &str) -> bool {
    wanted.split(' ').all(|part| {
        let (name, value) = part.split_once('=').unwrap();
        let value: u32 = value.parse().unwrap();
        match name.split_once(':') {
            Some((thread, register)) => {
                let thread: usize = thread.parse().unwrap();
                let register: usize = register.parse().unwrap();
                outcome.read[thread * REGISTERS + register] == value
            }
            None => outcome.memory["xyz".find(name).unwrap()] == value,
        }
    })
}

fn has(outcomes: &Option<BTreeSet<Outcome>>, wanted: &str) -> bool {
    match outcomes {
        None => wanted == "race",
        Some(outcomes) => wanted != "race" && outcomes.iter().any(|one| is_outcome(one, wanted)),
    }
}

#[test]
fn classical_litmus_tests_have_their_outcomes() {
    for (name, threads, wanted, allowed) in CLASSICS {
        let program = program(threads);
        let by_axioms = axioms::outcomes(&program).expect("a small program");
        assert_eq!(has(&by_axioms, wanted), *allowed, "{name}, by the axioms\n{program}");
        for reduction in [true, false] {
            let found = searched(&program, Memory::Rc11, reduction);
            assert_eq!(has(&found, wanted), *allowed, "{name}, by search\n{program}");
        }
    }
}

/// What x86 shows is allowed, and what all interleavings show is shown by x86.
#[test]
fn stronger_memory_shows_no_more() {
    for (name, threads, ..) in CLASSICS {
        let program = program(threads);
        let of = |memory| searched(&program, memory, true);
        let (weak, x86) = (of(Memory::Rc11), of(Memory::TotalStoreOrder));
        if let (Some(weak), Some(x86)) = (&weak, &x86) {
            assert!(x86.is_subset(weak), "{name}: {:?}", x86.difference(weak));
        }
    }
}
