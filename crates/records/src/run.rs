//! A run: one execution of one point with fresh tasks, the unit of replication. One line of
//! `runs.ndjson`.

use anyhow::Context;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::file_system::Mounted;
use crate::metric::per_operation;
use crate::unavailable::Unavailable;
use crate::values::Values;
use crate::warning::Warning;

/// One finished or failed run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "RunLine")]
#[schemars(!try_from)]
pub struct Run {
    /// Number of the run in its record, in the order of execution, from 0.
    pub run: u32,
    /// The point it is a run of: index into the record's `points`.
    pub point: u32,
    /// The block it belongs to, from 0.
    pub block: u32,
    /// Whether it repeats a run of the same point in the same block. A placebo shows how far equal
    /// variants differ, and belongs to no comparison.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placebo: bool,
    /// Number of the run among several of its point in one boot, from 0.
    #[serde(default, skip_serializing_if = "is_first")]
    pub repeat: u32,
    /// When it started. An imported run has the time of the import if its own is unknown.
    pub started: jiff::Timestamp,
    /// The file system that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<Mounted>,
    /// The boot it ran in: a number in `boots.ndjson`. Absent if it ran on the host itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<u32>,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Warnings about this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// A run as it stands in its line. serde reads a flattened enum by way of a copy of all values, which
/// took half the time of opening a record with 40 000 runs.
#[derive(Deserialize)]
struct RunLine {
    run: u32,
    point: u32,
    block: u32,
    #[serde(default)]
    placebo: bool,
    #[serde(default)]
    repeat: u32,
    started: jiff::Timestamp,
    file_system: Option<Mounted>,
    boot: Option<u32>,
    state: LineState,
    metrics: Option<Values<f64>>,
    counters: Option<Values<i64>>,
    #[serde(default)]
    unavailable: Unavailable,
    warmup: Option<Warmup>,
    reason: Option<String>,
    #[serde(default)]
    warnings: Vec<Warning>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum LineState {
    Finished,
    Failed,
}

impl TryFrom<RunLine> for Run {
    type Error = String;

    fn try_from(line: RunLine) -> Result<Run, String> {
        let RunLine { metrics, counters, unavailable, warmup, reason, .. } = line;
        let missing = |field: &str| format!("missing field `{field}`");
        let outcome = match line.state {
            LineState::Finished => Outcome::Finished {
                metrics: metrics.ok_or_else(|| missing("metrics"))?,
                counters: counters.ok_or_else(|| missing("counters"))?,
                unavailable,
                warmup,
            },
            LineState::Failed => {
                Outcome::Failed { reason: reason.ok_or_else(|| missing("reason"))? }
            }
        };
        let RunLine { run, point, block, placebo, repeat, started, file_system, boot, .. } = line;
        let warnings = line.warnings;
        Ok(Run {
            run,
            point,
            block,
            placebo,
            repeat,
            started,
            file_system,
            boot,
            outcome,
            warnings,
        })
    }
}

fn is_first(repeat: &u32) -> bool {
    *repeat == 0
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// The run counts.
    Finished {
        /// Values by metric name; a value that could not be measured is absent, never zero.
        #[schemars(with = "std::collections::BTreeMap<String, f64>")]
        metrics: Values<f64>,
        /// How much each counter changed, including 0. An absent counter does not exist on this host.
        #[schemars(with = "std::collections::BTreeMap<String, i64>")]
        counters: Values<i64>,
        /// Sources that could not be read, and why.
        #[serde(default, skip_serializing_if = "Unavailable::is_empty")]
        #[schemars(with = "std::collections::BTreeMap<String, String>")]
        unavailable: Unavailable,
        /// Whether and when it became steady.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warmup: Option<Warmup>,
    },
    /// The run does not count.
    Failed {
        /// What was tried, on what, and what went wrong.
        reason: String,
    },
}

/// Whether and when a run became steady, from its intervals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "found", rename_all = "snake_case")]
pub enum Warmup {
    /// It was steady from the start.
    Steady,
    /// It became steady after a first part.
    Until {
        /// Length of the first part.
        seconds: f64,
        /// Operations per second after it.
        steady_operations_per_s: f64,
    },
    /// It did not become steady within the run.
    Never,
}

impl Run {
    /// Parses one line of `runs.ndjson`.
    pub fn read(line: &str) -> anyhow::Result<Run> {
        if let Some(run) = Run::read_like_recent(line) {
            return Ok(run);
        }
        serde_json::from_str(line).context("reading a run")
    }

    /// Parses a line whose counters have the names that those of a recent line have. Counters are most of a line, and all
    /// else of it is left to serde. None for any other line.
    fn read_like_recent(line: &str) -> Option<Run> {
        // No text within a line has this: its quotes have backslashes.
        const COUNTERS: &str = "\"counters\":{";
        let start = line.find(COUNTERS)? + COUNTERS.len();
        let (counters, bytes) = Values::read_like_recent(&line[start..])?;
        let rest = [&line[..start], &line[start + bytes..]].concat();
        let rest: RunLine = serde_json::from_str(&rest).ok()?;
        let is_of_run = rest.counters.as_ref().is_some_and(Values::is_empty);
        is_of_run.then(|| Run::try_from(RunLine { counters: Some(counters), ..rest }).ok())?
    }

    /// A metric's or counter's value, if the run finished and has it. `NAME/op` is the value
    /// per operation.
    pub fn value(&self, metric: &str) -> Option<f64> {
        let Outcome::Finished { metrics, counters, .. } = &self.outcome else {
            return None;
        };
        let value = |name: &str| metrics.get(name).or_else(|| counters.get(name).map(|n| n as f64));
        match per_operation(metric) {
            (name, true) => Some(value(name)? / value("operations").filter(|n| *n > 0.0)?),
            (name, false) => value(name),
        }
    }

    /// Its metrics, if it finished.
    pub fn metrics(&self) -> Option<&Values<f64>> {
        match &self.outcome {
            Outcome::Finished { metrics, .. } => Some(metrics),
            Outcome::Failed { .. } => None,
        }
    }

    /// Whether the run finished, so that it counts.
    pub fn finished(&self) -> bool {
        matches!(self.outcome, Outcome::Finished { .. })
    }
}

/// One raw value inside a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The kind of value, for example `task.operations` or `interval.operations`.
    pub metric: String,
    /// The task it belongs to; absent for values of the whole run.
    pub task: Option<u32>,
    /// Nanoseconds since the release; for `latency.count`, the upper bound of the bucket.
    pub at_ns: Option<i64>,
    /// The value.
    pub value: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line after another with the same names is read as serde reads it.
    #[test]
    fn lines_like_recent_ones_are_read_as_by_serde() {
        let line = r#"{"run":1,"point":0,"block":0,"started":"2026-11-20T09:00:00Z","state":"finished","metrics":{"wall_s":1.5},"counters":{"a":0,"b":-7},"unavailable":{"x":"no \"counters\":{\"a\":1} here"}}"#;
        let read = |line: &str| serde_json::from_str::<Run>(line).ok();
        read(line).unwrap();
        for (from, to, is_like) in [
            ("-7", "8", true),
            ("\"run\":1", "\"run\":2", true),
            ("-7", "1.5", false),
            ("{\"a\":0,\"b\":-7}", "{}", false),
            ("\"b\"", "\"c\"", false),
            (",\"counters\":{\"a\":0,\"b\":-7}", "", false),
            ("\"metrics\":", "\"counters\":{},\"metrics\":", false),
            ("finished", "failed", false),
            ("\"wall_s\":1.5", "\"wall_s\"", false),
        ] {
            let other = line.replace(from, to);
            assert!(other != line, "{from}");
            assert_eq!(Run::read_like_recent(&other).is_some(), is_like, "{other}");
            assert_eq!(Run::read(&other).ok(), read(&other), "{other}");
        }
    }
}
