//! What is told of a failure: what is wrong, and the way there.

use std::fmt;

use super::Schedule;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A plain access that nothing orders after another one.
    Race(String),
    /// Two are inside who must not be together.
    Together(String),
    /// Somebody entered who had not arrived first.
    Overtaken(String),
    /// Nobody can go on: who waits for what.
    Deadlock(Vec<String>),
    /// From here on the end is never reached.
    Endless(String),
    /// The algorithm panicked.
    Panicked(String),
    /// The memory is wrong at the end.
    Last(String),
    /// A `forget_history` merged states with different accesses pending.
    Cut(String),
}

impl Fault {
    /// The kind of fault in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Fault::Race(_) => "race",
            Fault::Together(_) => "together",
            Fault::Overtaken(_) => "overtaken",
            Fault::Deadlock(_) => "deadlock",
            Fault::Endless(_) => "endless",
            Fault::Panicked(_) => "panic",
            Fault::Last(_) => "wrong end",
            Fault::Cut(_) => "wrong cut",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fault::Race(what) => write!(f, "race: {what}"),
            Fault::Together(what) => write!(f, "together inside: {what}"),
            Fault::Overtaken(what) => write!(f, "not first in, first out: {what}"),
            Fault::Deadlock(waits) => write!(f, "deadlock: {}", waits.join("; ")),
            Fault::Endless(what) => write!(f, "never ends: {what}"),
            Fault::Panicked(what) => write!(f, "panic: {what}"),
            Fault::Last(what) => write!(f, "wrong at the end: {what}"),
            Fault::Cut(what) => write!(f, "a cut is wrong: {what}"),
        }
    }
}

/// A fault, and how to come to it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub fault: Fault,
    /// Who goes when.
    pub schedule: Schedule,
    /// The same, step by step and readable.
    pub steps: Vec<String>,
}
