//! The memory models, pinned by litmus tests: files in `litmus/`, each with its expected
//! outcome and the reason.
//!
//!     # what it tests
//!     t0: store x 1; a = load y          statements of a task; words start as 0
//!     t1: swap y 1 acq_rel; await x 1 acquire
//!     exists: a=0 x=1                    a final state; or `race`
//!     sc: never: why                     whether that is possible, for each memory model
//!     tso: sometimes: why
//!
//! Words are x, y, and `both` with its bytes `low` and `high`; p is plain. Registers are a
//! to d. Accesses are relaxed unless they say otherwise.

use std::path::Path;

use engines::checker::{Checked, Fault, Memory, Options, SearchResult, Setup, search};
use machine::{Atom, Field, Machine, Native, Ordering, Region, Until, image};

image! {
    struct Words {
        x: Atom<u32>,
        y: Atom<u32>,
        low: Atom<u8>,
        high: Atom<u8>,
        p: Field<u32>,
        a: Field<u32>,
        b: Field<u32>,
        c: Field<u32>,
        d: Field<u32>,
    }
}

impl Words {
    fn word(&self, name: &str) -> &Atom<u32> {
        match name {
            "x" => &self.x,
            "y" => &self.y,
            _ => panic!("no word {name}"),
        }
    }

    fn byte(&self, name: &str) -> Option<&Atom<u8>> {
        match name {
            "low" => Some(&self.low),
            "high" => Some(&self.high),
            _ => None,
        }
    }

    fn both(&self) -> &Atom<u16> {
        // SAFETY: two bytes of atomics, aligned to two.
        unsafe { &*std::ptr::from_ref(&self.low).cast() }
    }

    fn register(&self, name: &str) -> &Field<u32> {
        match name {
            "a" => &self.a,
            "b" => &self.b,
            "c" => &self.c,
            "d" => &self.d,
            _ => panic!("no register {name}"),
        }
    }
}

/// Runs a statement, such as `a = load x acquire`.
fn run<M: Machine>(m: &M, words: &Words, statement: &str) {
    // No vector: a task may not own heap memory.
    let mut parts = ["relaxed"; 6];
    for (slot, part) in parts.iter_mut().zip(statement.split_whitespace()) {
        *slot = part;
    }
    if parts[1] == "=" {
        let value = access(m, words, [parts[2], parts[3], parts[4], parts[5]]);
        words.register(parts[0]).set(m, value);
    } else {
        access(m, words, [parts[0], parts[1], parts[2], parts[3]]);
    }
}

fn access<M: Machine>(m: &M, words: &Words, [verb, name, third, fourth]: [&str; 4]) -> u32 {
    let number = || third.parse().expect("a number");
    match verb {
        "load" if name == "both" => words.both().load(m, ordering(third)).into(),
        "load" => words.word(name).load(m, ordering(third)),
        "swap" => words.word(name).swap(m, number(), ordering(fourth)),
        "await" => m.await_until(words.word(name), Until::equals(number()), ordering(fourth)),
        "store" => {
            match words.byte(name) {
                Some(byte) => byte.store(m, number() as u8, ordering(fourth)),
                None => words.word(name).store(m, number(), ordering(fourth)),
            }
            0
        }
        "plain" => {
            words.p.set(m, number());
            0
        }
        "read" => words.p.get(m),
        other => panic!("no statement {other}"),
    }
}

fn ordering(name: &str) -> Ordering {
    match name {
        "relaxed" => Ordering::Relaxed,
        "acquire" => Ordering::Acquire,
        "release" => Ordering::Release,
        "acq_rel" => Ordering::AcqRel,
        "seq_cst" => Ordering::SeqCst,
        _ => panic!("no ordering {name}"),
    }
}

struct Litmus {
    tasks: Vec<Vec<String>>,
    exists: String,
}

impl Litmus {
    fn parse(text: &str) -> Litmus {
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let statements = |line: &str| line.split(';').map(|s| s.trim().to_string()).collect();
        let tasks = (0..).map_while(|task| line(&format!("t{task}: ")).map(statements));
        Litmus { tasks: tasks.collect(), exists: line("exists: ").unwrap().to_string() }
    }

    fn search(&self, memory: Memory, reduction: bool) -> SearchResult {
        let region = Region::new(4096).unwrap();
        let words = &region.array::<Words>("w", 1)[0];
        let task = |m: &Checked, task: usize| {
            for statement in &self.tasks[task] {
                run(m, words, statement);
            }
        };
        let setup = Setup {
            region: &region,
            nodes: &vec![0; self.tasks.len()],
            task: &task,
            ipi_handler: None,
            final_check: &|| if self.is_outcome(words) { Err(String::new()) } else { Ok(()) },
            bypasses: None,
            symmetric: false,
        };
        search(&setup, &Options { memory, reduction, ..Options::default() }).unwrap()
    }

    fn is_outcome(&self, words: &Words) -> bool {
        let m = Native::new(0, 0);
        self.exists != "race"
            && self.exists.split(' ').all(|part| {
                let (name, value) = part.split_once('=').expect("NAME=VALUE");
                let actual = match name {
                    "x" | "y" => words.word(name).load(&m, Ordering::Relaxed),
                    register => words.register(register).get(&m),
                };
                actual == value.parse::<u32>().unwrap()
            })
    }

    /// `never` or `sometimes`.
    fn verdict(&self, memory: Memory, reduction: bool) -> &'static str {
        match (
            self.search(memory, reduction).failure.map(|failure| failure.fault),
            self.exists.as_str(),
        ) {
            (None, _) => "never",
            (Some(Fault::Race(_)), "race") => "sometimes",
            (Some(Fault::FinalState(_)), exists) if exists != "race" => "sometimes",
            (Some(other), _) => panic!("{other}"),
        }
    }
}

#[test]
fn every_litmus_test_has_its_outcome() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/litmus");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 17, "only {} files were found", paths.len());
    for path in paths {
        let text = std::fs::read_to_string(&path).unwrap();
        let litmus = Litmus::parse(&text);
        let models = [("sc", Memory::SequentiallyConsistent), ("tso", Memory::TotalStoreOrder)];
        for (name, memory) in models {
            let expected = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            let (expected, why) = expected.unwrap().split_once(": ").expect("a reason");
            for reduction in [true, false] {
                let verdict = litmus.verdict(memory, reduction);
                assert_eq!(verdict, expected, "{}, {name}: {why}", path.display());
            }
        }
    }
}
