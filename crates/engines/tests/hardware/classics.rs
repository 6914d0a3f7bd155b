//! Litmus tests from the literature, and what Armv8 and the kernel's model say of them.

use std::collections::BTreeSet;

use engines::checker::Memory;
use machine::Ordering;

use crate::program::{Access, Action, Barrier, Outcome, Program, REGISTERS, Statement};
use crate::{allowed, searched};

/// Its threads, an outcome, and whether Armv8 and the kernel's model allow it. Statements, by ';': `Wrlx x 1` and so on, `A` adds,
/// `Fmb`, `Frmb`, `Fwmb`, `B0` a branch on the first read. `@0` is an address, `#0` a value, that depends on the first read.
type Classic = (&'static str, &'static [&'static str], &'static str, bool, bool);

const CLASSICS: &[Classic] = &[
    ("MP", &["Wrlx x 1; Wrlx y 1", "Rrlx y; Rrlx x"], MP, true, true),
    ("MP, wmb and address", &["Wrlx x 1; Fwmb; Wrlx y 1", "Rrlx y; Rrlx x @0"], MP, false, false),
    ("MP, wmb and control", &["Wrlx x 1; Fwmb; Wrlx y 1", "Rrlx y; B0; Rrlx x"], MP, true, true),
    ("MP, wmb and rmb", &["Wrlx x 1; Fwmb; Wrlx y 1", "Rrlx y; Frmb; Rrlx x"], MP, false, false),
    ("MP, release and acquire", &["Wrlx x 1; Wrel y 1", "Racq y; Rrlx x"], MP, false, false),
    ("MP, wmb alone", &["Wrlx x 1; Fwmb; Wrlx y 1", "Rrlx y; Rrlx x"], MP, true, true),
    ("MP, rmb alone", &["Wrlx x 1; Wrlx y 1", "Rrlx y; Frmb; Rrlx x"], MP, true, true),
    (
        "MP, by way of a store",
        &["Wrlx x 1; Fmb; Wrlx y 1", "Rrlx y; Wrlx z 1 #0; Rrlx z; Rrlx x @1"],
        "1:0=1 1:1=1 1:2=0",
        false,
        false,
    ),
    ("SB", &["Wrlx x 1; Rrlx y", "Wrlx y 1; Rrlx x"], SB, true, true),
    ("SB, fences", &["Wrlx x 1; Fmb; Rrlx y", "Wrlx y 1; Fmb; Rrlx x"], SB, false, false),
    ("SB, one fence", &["Wrlx x 1; Fmb; Rrlx y", "Wrlx y 1; Rrlx x"], SB, true, true),
    ("SB, release and acquire", &["Wrel x 1; Racq y", "Wrel y 1; Racq x"], SB, true, true),
    ("LB", &["Rrlx x; Wrlx y 1", "Rrlx y; Wrlx x 1"], LB, true, true),
    ("LB, one data", &["Rrlx x; Wrlx y 1", "Rrlx y; Wrlx x 1 #0"], LB, true, true),
    ("LB, one fence", &["Rrlx x; Fmb; Wrlx y 1", "Rrlx y; Wrlx x 1"], LB, true, true),
    ("LB, fences", &["Rrlx x; Fmb; Wrlx y 1", "Rrlx y; Fmb; Wrlx x 1"], LB, false, false),
    ("LB, store fence", &["Rrlx x; Fwmb; Wrlx y 1", "Rrlx y; Wrlx x 1 #0"], LB, true, true),
    ("LB, exchange", &["Rrlx x; Urlx y 1", "Rrlx y; Wrlx x 1 #0"], "0:0=1 1:0=1", true, true),
    ("LB, data", &["Rrlx x; Wrlx y 1 #0", "Rrlx y; Wrlx x 1 #0"], LB, false, false),
    ("LB, control", &["Rrlx x; B0; Wrlx y 1", "Rrlx y; B0; Wrlx x 1"], LB, false, false),
    ("LB, acquire", &["Racq x; Wrlx y 1", "Racq y; Wrlx x 1"], LB, false, false),
    ("LB, release", &["Rrlx x; Wrel y 1", "Rrlx y; Wrel x 1"], LB, false, false),
    ("S, wmb and data", &["Wrlx x 2; Fwmb; Wrlx y 1", "Rrlx y; Wrlx x 1 #0"], S, false, false),
    ("S, wmb", &["Wrlx x 2; Fwmb; Wrlx y 1", "Rrlx y; Wrlx x 1"], S, true, true),
    ("S, release and acquire", &["Wrlx x 2; Wrel y 1", "Racq y; Wrlx x 1"], S, false, false),
    ("R", &["Wrlx x 1; Wrlx y 1", "Wrlx y 2; Rrlx x"], R, true, true),
    ("R, fences", &["Wrlx x 1; Fmb; Wrlx y 1", "Wrlx y 2; Fmb; Rrlx x"], R, false, false),
    ("R, release", &["Wrlx x 1; Wrel y 1", "Wrlx y 2; Fmb; Rrlx x"], R, false, true),
    ("2+2W", &["Wrlx x 1; Wrlx y 2", "Wrlx y 1; Wrlx x 2"], W22, true, true),
    ("2+2W, wmb", &["Wrlx x 1; Fwmb; Wrlx y 2", "Wrlx y 1; Fwmb; Wrlx x 2"], W22, false, true),
    ("2+2W, fences", &["Wrlx x 1; Fmb; Wrlx y 2", "Wrlx y 1; Fmb; Wrlx x 2"], W22, false, false),
    ("WRC", &["Wrlx x 1", "Rrlx x; Wrlx y 1", "Rrlx y; Rrlx x"], WRC, true, true),
    (
        "WRC, data and address",
        &["Wrlx x 1", "Rrlx x; Wrlx y 1 #0", "Rrlx y; Rrlx x @0"],
        WRC,
        false,
        true,
    ),
    (
        "WRC, release and rmb",
        &["Wrlx x 1", "Rrlx x; Wrel y 1", "Rrlx y; Frmb; Rrlx x"],
        WRC,
        false,
        false,
    ),
    ("IRIW", &["Wrlx x 1", "Wrlx y 1", "Rrlx x; Rrlx y", "Rrlx y; Rrlx x"], IRIW, true, true),
    (
        "IRIW, addresses",
        &["Wrlx x 1", "Wrlx y 1", "Rrlx x; Rrlx y @0", "Rrlx y; Rrlx x @0"],
        IRIW,
        false,
        true,
    ),
    (
        "IRIW, acquires",
        &["Wrlx x 1", "Wrlx y 1", "Racq x; Rrlx y", "Racq y; Rrlx x"],
        IRIW,
        false,
        true,
    ),
    (
        "IRIW, fences",
        &["Wrlx x 1", "Wrlx y 1", "Rrlx x; Fmb; Rrlx y", "Rrlx y; Fmb; Rrlx x"],
        IRIW,
        false,
        false,
    ),
    (
        "ISA2, releases and acquires",
        &["Wrlx x 1; Wrel y 1", "Racq y; Wrel z 1", "Racq z; Rrlx x"],
        ISA2,
        false,
        false,
    ),
    (
        "ISA2, wmb, data and address",
        &["Wrlx x 1; Fwmb; Wrlx y 1", "Rrlx y; Wrlx z 1 #0", "Rrlx z; Rrlx x @0"],
        ISA2,
        false,
        true,
    ),
    ("CoRR", &["Wrlx x 1; Wrlx x 2", "Rrlx x; Rrlx x"], "1:0=2 1:1=1", false, false),
    ("CoWR", &["Wrlx x 1; Rrlx x", "Wrlx x 2"], "0:0=0", false, false),
    ("CoRW", &["Rrlx x; Wrlx x 1", "Wrlx x 2"], "0:0=1", false, false),
    ("atomicity", &["Urlx x 1", "Urlx x 2"], "0:0=0 1:0=0", false, false),
    (
        "SB, exchanges that are fully ordered",
        &["Usc x 1; Rrlx y", "Usc y 1; Rrlx x"],
        "0:0=0 0:1=0 1:0=0 1:1=0",
        true,
        false,
    ),
    ("store behind an exchange", &["Usc x 1; Wrlx y 1", "Rrlx y; Rrlx x @0"], MP, true, false),
    (
        "release sequence",
        &["Wrlx x 1; Wrel y 1", "Urlx y 2", "Racq y; Rrlx x"],
        "1:0=1 2:0=2 2:1=0",
        false,
        false,
    ),
    (
        "MP, read back from a sum",
        &["Wrlx x 1; Wrel y 1", "Arlx y 2; Racq y; Rrlx x"],
        BACK,
        false,
        false,
    ),
    (
        "MP, read back from an exchange",
        &["Wrlx x 1; Wrel y 1", "Urlx y 3; Racq y; Rrlx x"],
        BACK,
        false,
        true,
    ),
    (
        "MP, a sum's address",
        &["Wrlx x 1; Fmb; Wrlx y 1", "Arlx y 2; Rrlx y; Rrlx x @1"],
        BACK,
        false,
        false,
    ),
    ("LB, sums", &["Rrlx x; Arlx y 1 #0", "Rrlx y; Arlx x 1 #0"], "0:0=1 1:0=1", false, false),
    (
        "LB, a sum without a dependency",
        &["Rrlx x; Arlx y 1", "Rrlx y; Wrlx x 1 #0"],
        "0:0=1 1:0=1",
        true,
        true,
    ),
    ("PPOCA", &["Wrlx z 1; Fmb; Wrlx y 1", PPOCA], "1:0=1 1:1=1 1:2=0", true, true),
];

const MP: &str = "1:0=1 1:1=0";
const BACK: &str = "1:0=1 1:1=3 1:2=0";
const SB: &str = "0:0=0 1:0=0";
const LB: &str = "0:0=1 1:0=1";
const S: &str = "1:0=1 x=2";
const R: &str = "1:0=0 y=2";
const W22: &str = "x=1 y=1";
const WRC: &str = "1:0=1 2:0=1 2:1=0";
const IRIW: &str = "2:0=1 2:1=0 3:0=1 3:1=0";
const ISA2: &str = "1:0=1 2:0=1 2:1=0";
const PPOCA: &str = "Rrlx y; B0; Wrlx x 1; Rrlx x; Rrlx z @1";

fn ordering(name: &str) -> Ordering {
    match name {
        "rlx" => Ordering::Relaxed,
        "acq" => Ordering::Acquire,
        "rel" => Ordering::Release,
        "sc" => Ordering::SeqCst,
        other => panic!("no ordering {other}"),
    }
}

fn statement(text: &str) -> Statement {
    let mut parts: Vec<&str> = text.split_whitespace().collect();
    let mut depends = |sign: char| {
        let at = parts.iter().position(|part| part.starts_with(sign));
        at.map_or(0, |at| 1 << parts.remove(at)[1..].parse::<u8>().unwrap())
    };
    let (address, data) = (depends('@'), depends('#'));
    let location = |name: &str| "xyz".find(name).expect("a location");
    let number = |text: &str| text.parse().expect("a number");
    let (kind, order) = parts[0].split_at(1);
    let access = |action, name| {
        let (location, ordering) = (location(name), ordering(order));
        Statement::Access(Access { action, location, ordering, address, data })
    };
    match (kind, &parts[1..]) {
        ("W", [name, value]) => access(Action::Store(number(value)), name),
        ("R", [name]) => access(Action::Load, name),
        ("A", [name, value]) => access(Action::Add(number(value)), name),
        ("U", [name, value]) => access(Action::Swap(number(value)), name),
        ("B", []) => Statement::Branch(1 << order.parse::<u8>().unwrap()),
        ("F", []) => Statement::Fence(match order {
            "mb" => Barrier::Full,
            "rmb" => Barrier::Loads,
            _ => Barrier::Stores,
        }),
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

fn has(outcomes: &BTreeSet<Outcome>, wanted: &str) -> bool {
    outcomes.iter().any(|one| is_outcome(one, wanted))
}

#[test]
fn classical_litmus_tests_have_their_outcomes() {
    let mut wrong = Vec::new();
    for (name, threads, wanted, by_armv8, by_kernel) in CLASSICS {
        let program = program(threads);
        for (memory, expected) in [(Memory::Armv8, *by_armv8), (Memory::Lkmm, *by_kernel)] {
            let by_axioms = allowed(&program, memory).expect("a small program");
            let found = searched(&program, memory);
            let is_right = has(&by_axioms, wanted) == expected && found == by_axioms;
            if !is_right {
                let [axioms, search] = [&by_axioms, &found].map(|outcomes| has(outcomes, wanted));
                wrong.push(format!("{name}, {}: axioms {axioms}, search {search}", memory.name()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An update carries on what a release before it published: since Linux 6.3 by the kernel's model, too.
#[test]
fn updates_passed_no_order_on_until_linux_6_2() {
    for update in ["Arlx y 1", "Urlx y 2"] {
        let program = program(&["Wrlx x 1; Wrel y 1", update, "Racq y; Rrlx x"]);
        let late = "1:0=1 2:0=2 2:1=0";
        for (memory, expected) in [(Memory::Lkmm, false), (Memory::LkmmUntil62, true)] {
            let by_axioms = allowed(&program, memory).expect("a small program");
            assert_eq!(has(&by_axioms, late), expected, "{update}, by the axioms");
            assert_eq!(searched(&program, memory), by_axioms, "{update}, {}", memory.name());
        }
    }
}
