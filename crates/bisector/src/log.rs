//! The log of a bisection: a line for each thing done, durable before the next thing begins. A line that a kill cut off
//! is as if it had never been begun.

use std::path::Path;

use anyhow::Result;
use bisection::Foresight;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Request;
use crate::lines::{self, Lines, LinesOf};
use crate::range::Range;

/// Something that was done.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The first line.
    Begun {
        /// Version of knee.
        knee: String,
        /// When it began.
        at: jiff::Timestamp,
        /// What was asked for.
        request: Box<Request>,
        /// The commits.
        range: Range,
    },
    /// A commit was built.
    Built {
        /// Number of the commit in the range.
        commit: usize,
        /// Equal for builds that load equal code and data.
        key: String,
        /// Seconds that the build took.
        seconds: f64,
    },
    /// A commit cannot be tested.
    Skipped {
        /// Number of the commit in the range.
        commit: usize,
        /// Why it cannot be tested.
        why: String,
    },
    /// What is known of the candidates once both ends are built.
    Candidates {
        /// Commits that touch nothing that the build of an end reads.
        unread: Vec<usize>,
        /// Number of files that these builds read, as reported by compilers.
        files_read: usize,
        /// Whether two builds of the good end were equal; absent if this was not tried.
        reproducible: Option<bool>,
    },
    /// What the bisection was to take, once its ends were apart.
    Foreseen {
        /// The forecast, by simulated bisections.
        forecast: Foresight,
    },
    /// Runs of commits in turn.
    Step {
        /// The record of the runs, in the bisection's folder.
        record: Option<String>,
        /// The runs by commit.
        runs: Vec<StepRuns>,
        /// Seconds that they took.
        seconds: f64,
        /// Blocks of the runs that the host disturbed. They count for the search all the same.
        #[serde(default, skip_serializing_if = "is_zero")]
        disturbed: u32,
        /// Whether they compared a commit that the search had named with its parent, and did not bear it out.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_of_comparison: bool,
    },
    /// The search has ended.
    Answered {
        /// When it ended.
        at: jiff::Timestamp,
        /// What it came to, as the answer of `knee bisect --json`.
        answer: serde_json::Value,
    },
    /// The bisection goes on within other limits.
    Limited(Limits),
    /// A change was compared: with its parent, at the bad end, or in other layouts.
    Confirmed {
        /// What was compared.
        what: String,
        /// The record of the runs.
        record: Option<String>,
        /// What that said, as a sentence.
        text: String,
        /// Number of runs.
        #[serde(default)]
        runs: u32,
        /// Seconds that they took.
        #[serde(default)]
        seconds: f64,
        /// Seconds that it waited for a quiet host, beside.
        #[serde(default)]
        waited_s: f64,
    },
}

/// What a bisection that goes on may take. What is absent stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Seconds that the search may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_s: Option<f64>,
    /// Seconds that comparisons may wait for a quiet host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
    /// Number of runs that the search may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_max: Option<u32>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The runs of one commit in a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRuns {
    /// Number of the commit in the range.
    pub commit: usize,
    /// 0 as the commit is built; others are linked in other layouts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub layout: u32,
    /// Logarithms of the metric.
    pub logs: Vec<f64>,
}

const LOG: LinesOf =
    LinesOf { file: "the log of a bisection", owner: "bisection", go_on: "go on with --resume" };

/// An open log. Nobody else can open it meanwhile.
pub struct Log(Lines);

impl Log {
    /// Makes a log, or opens the one that is there, and returns what it holds.
    pub fn open(path: &Path) -> Result<(Log, Vec<Event>)> {
        let (lines, events) = Lines::open(path, LOG)?;
        Ok((Log(lines), events))
    }

    /// A log to which nothing can be written.
    pub fn closed() -> Result<Log> {
        Lines::closed(LOG).map(Log)
    }

    /// Appends an event. When this returns, it is durable.
    pub fn append(&mut self, event: &Event) -> Result<()> {
        self.0.append(event)
    }
}

/// The events of a log and the length of its whole lines.
pub fn read(path: &Path) -> Result<(Vec<Event>, u64)> {
    lines::read(path, LOG)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::{Event, Log, StepRuns, read};

    /// Opens a log once no child of another test holds its lock, which one does between fork and exec.
    fn opened(path: &Path) -> (Log, Vec<Event>) {
        loop {
            match Log::open(path) {
                Err(why) if why.to_string().contains("is in use") => std::thread::yield_now(),
                opened => return opened.unwrap(),
            }
        }
    }

    #[test]
    fn a_torn_line_is_dropped_and_the_log_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.ndjson");
        let step = |commit| Event::Step {
            record: None,
            runs: vec![StepRuns { commit, layout: 0, logs: vec![0.1, -0.25] }],
            seconds: 1.0,
            disturbed: 0,
            is_of_comparison: false,
        };
        let (mut log, events) = opened(&path);
        assert!(events.is_empty());
        log.append(&step(1)).unwrap();
        drop(log);
        let whole = fs::read_to_string(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, format!("{whole}{}", &whole[..cut])).unwrap();
            let (mut log, events) = opened(&path);
            assert_eq!(events.len(), 1, "cut at {cut}");
            log.append(&step(2)).unwrap();
            drop(log);
            let (events, _) = read(&path).unwrap();
            assert!(matches!(&events[1], Event::Step { runs, .. } if runs[0].commit == 2));
        }
    }

    #[test]
    fn a_log_has_one_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.ndjson");
        let _first = Log::open(&path).unwrap();
        let why = Log::open(&path).err().unwrap().to_string();
        assert!(why.contains("is in use"), "{why}");
    }
}
