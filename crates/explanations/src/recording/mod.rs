//! What recordings of perf say, in the views that people know: a ledger, its difference, callers,
//! a table like perf diff's, folded stacks for flame graphs, and the Firefox Profiler's format.
//! Pure functions from recordings to parts of pages and to files of other tools.

mod callers;
mod changes;
mod firefox;
mod flame;
mod folded;
mod functions;
mod recorded_ledger;

use ledger::{Measure, Per, RecordedLedger};
use records::recording::{PerfSample, Recording};
use text::quantity::{duration_ns, short};

pub use crate::recording::callers::callers;
pub use crate::recording::changes::changes_part;
pub use crate::recording::firefox::firefox;
pub use crate::recording::flame::{FlameGraph, FlameNode, flame};
pub use crate::recording::folded::{folded, folded_pair};
pub use crate::recording::functions::functions_part;
pub use crate::recording::recorded_ledger::recording_part;

#[cfg(test)]
mod tests;

/// A recording with its name, and the number of operations done while it ran.
pub struct NamedRecording<'a> {
    /// The file.
    pub name: &'a str,
    /// What is in it.
    pub recording: &'a Recording,
    /// Number of operations, if the user gave it.
    pub operations: Option<u64>,
}

/// A value of a ledger as people read it.
fn amount(recorded: &RecordedLedger, value: f64) -> String {
    match recorded.measure {
        Measure::Nanoseconds => duration_ns(value * recorded.scale()),
        Measure::Events(_) => short(value * recorded.scale()),
    }
}

/// What the values are of: `time`, `cycles`.
fn quantity(recorded: &RecordedLedger) -> &str {
    match &recorded.measure {
        Measure::Nanoseconds => "time",
        Measure::Events(event) => event,
    }
}

/// The measure of all values: `time per operation`, `cycles per second`.
fn measured(recorded: &RecordedLedger) -> String {
    let what = quantity(recorded);
    match recorded.per {
        Per::Operation => format!("{what} per operation"),
        Per::Second => format!("{what} per second"),
    }
}

/// A share as a percentage.
fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// Whether a sample is of the idle task.
fn is_idle(sample: &PerfSample) -> bool {
    sample.tid == 0 && sample.pid <= 0
}

/// The name of the sampled task, as the outermost frame.
fn task<'a>(recording: &'a Recording, sample: &PerfSample) -> &'a str {
    if is_idle(sample) { "idle" } else { &recording.tasks[sample.task as usize] }
}
