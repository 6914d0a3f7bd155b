//! What a check reports when it fails: the fault and the steps that lead to it.

use std::fmt;

use machine::CodeSite;

use super::Schedule;
use super::trace::Race;
use crate::Unsupported;
use crate::steppable::Panic;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A plain access that is not ordered after a conflicting one.
    Race(String),
    /// Two tasks are inside that must exclude each other.
    NotExclusive(String),
    /// A task entered before one that had arrived earlier.
    Overtaken(String),
    /// No task can take a step: which task waits for what.
    Deadlock(Vec<String>),
    /// A task sleeps until its time-out, although what it waits for has come true.
    LostWakeUp(String),
    /// From here on the end is never reached.
    Endless(String),
    /// An access to bytes that belong to no variable.
    OutOfBounds(String),
    /// The algorithm panicked.
    Panicked(String),
    /// The memory is wrong at the end.
    FinalState(String),
    /// The algorithm forgot history that still matters: merged states have different accesses
    /// pending.
    Forgotten(String),
    /// The machine cannot do what the algorithm asks for: nothing is known to be wrong.
    Unsupported(Unsupported),
}

impl Fault {
    /// The kind of fault, for a table.
    pub fn word(&self) -> &'static str {
        match self {
            Fault::Race(_) => "race",
            Fault::NotExclusive(_) => "exclusion",
            Fault::Overtaken(_) => "overtaken",
            Fault::Deadlock(_) => "deadlock",
            Fault::LostWakeUp(_) => "lost wake-up",
            Fault::Endless(_) => "endless",
            Fault::OutOfBounds(_) => "out of bounds",
            Fault::Panicked(_) => "panic",
            Fault::FinalState(_) => "final state",
            Fault::Forgotten(_) => "history",
            Fault::Unsupported(_) => "not checked",
        }
    }
}

impl From<Panic> for Fault {
    fn from(panic: Panic) -> Fault {
        match panic {
            Panic::Message(message) => Fault::Panicked(message),
            Panic::Unsupported(unsupported) => Fault::Unsupported(unsupported),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fault::Race(why) => write!(f, "data race: {why}"),
            Fault::NotExclusive(why) => write!(f, "no mutual exclusion: {why}"),
            Fault::Overtaken(why) => write!(f, "overtaken: {why}"),
            Fault::Deadlock(waits) => write!(f, "deadlock: {}", waits.join("; ")),
            Fault::LostWakeUp(why) => write!(f, "lost wake-up: {why}"),
            Fault::Endless(why) => write!(f, "never ends: {why}"),
            Fault::OutOfBounds(why) => write!(f, "out of bounds: {why}"),
            Fault::Panicked(message) => write!(f, "panic: {message}"),
            Fault::FinalState(why) => write!(f, "wrong final state: {why}"),
            Fault::Forgotten(why) => write!(f, "history was forgotten that matters: {why}"),
            Fault::Unsupported(unsupported) => write!(f, "not checked: {unsupported}"),
        }
    }
}

/// A fault and the interleaving that leads to it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What is wrong.
    pub fault: Fault,
    /// Which task takes each step.
    pub schedule: Schedule,
    /// The schedule as readable text, one line a step.
    pub steps: Vec<String>,
    /// Whether no shorter schedule leads to a fault, of all that are possible.
    pub is_shortest: bool,
    /// What programs want to know besides.
    pub details: Box<FailureDetails>,
}

/// More of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailureDetails {
    /// The accesses, of a data race.
    pub race: Option<Race>,
    /// Where each step stands in the source; `None` for what is no access.
    pub sites: Vec<Option<CodeSite>>,
}

impl Failure {
    /// What the machine lacks, if that is all that was found.
    pub fn unsupported(&self) -> Option<&Unsupported> {
        match &self.fault {
            Fault::Unsupported(unsupported) => Some(unsupported),
            _ => None,
        }
    }
}
