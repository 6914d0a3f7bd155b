//! A drawn file: one kind of queue or lock, the size of its elements, how they are copied, how atomics are written, and a fault
//! or none.

use std::fmt::Write;
use std::ops::RangeInclusive;

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A kind of file: templates in `bench/c_files`, which `#if FAULT ==` changes.
struct Kind {
    name: &'static str,
    text: &'static [&'static str],
    faults: &'static [&'static str],
    tasks: RangeInclusive<u32>,
    /// How many operations each task does, enough for each fault to show.
    operations: RangeInclusive<u32>,
    /// The fewest elements that fit.
    capacity: RangeInclusive<u32>,
    /// Whether it can be written in the kernel's words.
    is_of_kernel: bool,
}

const PRELUDE: &str = include_str!("../../c_files/prelude.c");

/// A template by its name.
macro_rules! template {
    ($name:literal) => {
        include_str!(concat!("../../c_files/", $name, ".c"))
    };
}

const fn lock(
    name: &'static str,
    text: &'static [&'static str],
    faults: &'static [&'static str],
) -> Kind {
    Kind { tasks: 2..=3, ..kind(name, text, faults, 1..=1) }
}

const fn kind(
    name: &'static str,
    text: &'static [&'static str],
    faults: &'static [&'static str],
    operations: RangeInclusive<u32>,
) -> Kind {
    Kind { name, text, faults, tasks: 2..=2, operations, capacity: 1..=1, is_of_kernel: true }
}

static KINDS: [Kind; 16] = [
    Kind {
        capacity: 1..=3,
        ..kind(
            "ring",
            &[template!("ring")],
            &[
                "RAISED_EARLY",
                "FREED_EARLY",
                "HEAD_NOT_RELEASED",
                "HEAD_NOT_ACQUIRED",
                "TAIL_NOT_RELEASED",
                "TAIL_NOT_ACQUIRED",
                "ONE_TOO_MANY",
            ],
            4..=4,
        )
    },
    Kind {
        capacity: 2..=2,
        ..kind(
            "cells",
            &[template!("cells")],
            &[
                "RAISED_EARLY",
                "FREED_EARLY",
                "TURN_NOT_ACQUIRED",
                "TURN_NOT_RELEASED",
                "HEAD_NOT_EXCHANGED",
                "TAIL_NOT_EXCHANGED",
            ],
            2..=2,
        )
    },
    kind(
        "stack",
        &[template!("stack")],
        &["COMES_BACK_UNNOTICED", "HEAD_NOT_ACQUIRED", "HEAD_NOT_RELEASED", "USED_AFTER"],
        1..=2,
    ),
    lock(
        "test_and_set",
        &[template!("test_and_set"), template!("guarded")],
        &["NOT_ACQUIRED", "NOT_RELEASED", "NOT_EXCHANGED"],
    ),
    lock(
        "ticket",
        &[template!("ticket"), template!("guarded")],
        &["NOT_ACQUIRED", "NOT_RELEASED", "NOT_EXCHANGED", "SKIPS_ONE"],
    ),
    lock(
        "mcs",
        &[template!("mcs"), template!("guarded")],
        &["NOT_ACQUIRED", "NOT_RELEASED", "TAIL_NOT_ACQUIRED", "NO_RECHECK"],
    ),
    Kind {
        is_of_kernel: false,
        ..lock(
            "futex",
            &[template!("futex"), template!("guarded")],
            &["NOT_RELEASED", "NOT_WOKEN", "NOT_MARKED", "MARK_LOST"],
        )
    },
    kind(
        "sequence",
        &[template!("sequence")],
        &["NOT_MARKED", "NOT_REPEATED", "ODD_IS_FINE"],
        1..=2,
    ),
    kind(
        "readers",
        &[template!("readers")],
        &[
            "WRITER_NOT_ACQUIRED",
            "WRITER_NOT_RELEASED",
            "WRITER_NOT_SEEN",
            "READER_NOT_ACQUIRED",
            "READER_NOT_RELEASED",
            "READ_AFTER",
        ],
        1..=2,
    ),
    kind(
        "mailbox",
        &[template!("mailbox")],
        &[
            "RAISED_EARLY",
            "FREED_EARLY",
            "NOT_AWAITED",
            "EMPTY_NOT_ACQUIRED",
            "EMPTY_NOT_RELEASED",
            "FULL_NOT_ACQUIRED",
            "FULL_NOT_RELEASED",
        ],
        2..=3,
    ),
    Kind {
        // An address that depends on what was read orders accesses there.
        is_of_kernel: false,
        ..kind(
            "published",
            &[template!("published")],
            &["RAISED_EARLY", "WRITTEN_AGAIN", "NOT_RELEASED", "NOT_ACQUIRED"],
            2..=4,
        )
    },
    kind(
        "counted",
        &[template!("counted")],
        &["NOT_ACQUIRED", "NOT_RELEASED", "NOT_EXCHANGED", "READ_AFTER"],
        1..=1,
    ),
    kind("flags", &[template!("flags")], &["NOT_FENCED", "NOT_ACQUIRED", "NOT_RELEASED"], 2..=2),
    kind(
        "barrier",
        &[template!("barrier")],
        &["NOT_ACQUIRED", "NOT_RELEASED", "NOT_EXCHANGED", "ONE_TOO_FEW"],
        1..=2,
    ),
    kind(
        "once",
        &[template!("once")],
        &["NOT_ACQUIRED", "NOT_RELEASED", "NOT_EXCHANGED", "NOT_AWAITED", "RAISED_EARLY"],
        1..=2,
    ),
    kind("fields", &[template!("fields")], &["IN_ONE_WORD", "ONE_BYTE_MORE"], 1..=2),
];

const STYLES: [&str; 3] = ["C11", "BUILTINS", "KERNEL"];
const SHAPES: [&str; 3] = ["CHARS", "WORDS", "MIXED"];
const COPIES: [&str; 8] =
    ["MEMCPY", "ASSIGNMENT", "LOOP", "BYTE_LOOP", "BY_VALUE", "MEMMOVE", "HALVES", "VECTORS"];
const TESTS: [&str; 3] = ["BY_MEMCMP", "BY_ENDS", "BY_LOOP"];

/// The largest element.
const BYTES_MAX: u32 = 512;

/// A file, drawn.
pub struct Drawn {
    kind: &'static Kind,
    fault: Option<&'static str>,
    tasks: u32,
    operations: u32,
    capacity: u32,
    bytes: u32,
    style: &'static str,
    shape: &'static str,
    put: &'static str,
    get: &'static str,
    test: &'static str,
}

impl Drawn {
    pub fn draw(random: &mut Xoshiro256PlusPlus) -> Drawn {
        let index = random.random_range(0..KINDS.len());
        let kind = &KINDS[index];
        let is_faulty = random.random::<bool>();
        let fault = kind.faults.choose(random).copied().filter(|_| is_faulty);
        let styles = if kind.is_of_kernel { &STYLES[..] } else { &STYLES[..2] };
        let mut one_of = |names: &[&'static str]| *names.choose(random).expect("names");
        let (style, shape) = (one_of(styles), one_of(&SHAPES));
        let (put, get, test) = (one_of(&COPIES), one_of(&COPIES), one_of(&TESTS));
        let mut within = |range: &RangeInclusive<u32>| random.random_range(range.clone());
        let doublings = within(&(0..=9));
        let bytes = within(&(1 << doublings..=BYTES_MAX.min((2 << doublings) - 1)));
        let bytes = match shape {
            "WORDS" => bytes.next_multiple_of(8),
            "MIXED" => bytes.next_multiple_of(8).max(16),
            _ => bytes,
        };
        let tasks = within(&kind.tasks);
        let operations = within(&kind.operations);
        let capacity = within(&kind.capacity);
        Drawn { kind, fault, tasks, operations, capacity, bytes, style, shape, put, get, test }
    }

    /// The kind, and the fault if it has one.
    pub fn name(&self) -> String {
        let fault = self.fault.unwrap_or("right").to_lowercase();
        format!("{}_{fault}", self.kind.name)
    }

    pub fn is_right(&self) -> bool {
        self.fault.is_none()
    }

    pub fn tasks(&self) -> u32 {
        self.tasks
    }

    pub fn operations(&self) -> u32 {
        self.operations
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for names in [&STYLES[..], &SHAPES, &COPIES, &TESTS] {
            define(&mut text, names, 0);
        }
        define(&mut text, self.kind.faults, 1);
        let fault = self.fault.unwrap_or("0");
        let (bytes, capacity) = (self.bytes.to_string(), self.capacity.to_string());
        for (name, value) in [
            ("STYLE", self.style),
            ("SHAPE", self.shape),
            ("BYTES", &bytes),
            ("CAPACITY", &capacity),
            ("PUT", self.put),
            ("GET", self.get),
            ("TEST", self.test),
            ("FAULT", fault),
        ] {
            let _ = writeln!(text, "#define {name} {value}");
        }
        text.push_str(PRELUDE);
        text.extend(self.kind.text.iter().copied());
        text
    }
}

/// Defines names as numbers from this one on.
fn define(text: &mut String, names: &[&str], first: usize) {
    for (number, name) in (first..).zip(names) {
        let _ = writeln!(text, "#define {name} {number}");
    }
}

#[cfg(test)]
mod tests {
    use super::KINDS;

    /// A name that is not defined would be 0 to the preprocessor: no fault.
    #[test]
    fn templates_have_the_faults_of_their_kind_and_no_others() {
        for kind in &KINDS {
            let text = kind.text.concat();
            let words: Vec<&str> = text.split_whitespace().collect();
            let named = words.windows(3).filter(|three| three[0] == "FAULT");
            let named: Vec<&str> = named.map(|three| three[2]).collect();
            for fault in kind.faults {
                assert!(named.contains(fault), "{} has no {fault}", kind.name);
            }
            for fault in named {
                assert!(kind.faults.contains(&fault), "{}: {fault} is not listed", kind.name);
            }
        }
    }
}
