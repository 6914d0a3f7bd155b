//! How the tasks of a run are made, how many there may be, when they stop, and what is recorded.

use anyhow::{Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most tasks one run may have.
pub const TASKS_MAX: u32 = 4096;

/// What the tasks of a run are.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One process per task.
    Processes,
    /// One thread per task, all in one process.
    Threads,
}

impl Form {
    /// The word used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Form::Processes => "processes",
            Form::Threads => "threads",
        }
    }

    /// `1 process`, `4 threads`.
    pub fn counted(self, tasks: u32) -> String {
        let one = match self {
            Form::Processes => "process",
            Form::Threads => "thread",
        };
        host::counted(tasks as usize, one)
    }
}

/// When the tasks of a run stop.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// This number of seconds after the release.
    Seconds(f64),
    /// When each task has done this number of operations.
    OperationsPerTask(u64),
    /// When the command ends by itself.
    End,
}

/// What is recorded during a run. Timing operations costs time, so the two are never mixed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Pass {
    /// Only the count of operations: the published rate.
    Rate,
    /// The duration of each operation too, in a histogram.
    Latency,
}

impl Until {
    /// Refuses durations and counts that no run can have.
    pub fn check(&self) -> Result<()> {
        match *self {
            Until::Seconds(s) => ensure!(
                (0.001..=1e6).contains(&s),
                "seconds is {s}, must be between 0.001 and 1 000 000"
            ),
            Until::OperationsPerTask(n) => {
                ensure!(n > 0, "operations_per_task is 0, must be at least 1")
            }
            Until::End => bail!("a workload does not end by itself"),
        }
        Ok(())
    }
}
