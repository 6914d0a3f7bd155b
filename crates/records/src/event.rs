//! Events: what a worker says while it does a job, one JSON object a line on its
//! standard output.
//!
//!     hello ─ ready ─ interval* ─ measured ─ task* ─ [latency] ─ finished
//!        └───────┴───────┴───────────┴─────────┴─────────┴─────── failed
//!     hello ─ ready ─ measured ─ ended ─ finished                 (a command)
//!
//! A job that watches says `blind` and `window` too, after `measured`.
//!
//! What happens between the release of the tasks and their stop is said only afterwards:
//! a line written meanwhile would wake its reader on a CPU under measurement.
//!
//! A stream that ends without `finished` or `failed` is a worker that died. `warning`
//! may come anywhere. A reader skips events it does not know.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::look::Window;
use crate::record::Warning;

/// One line of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The worker has read its job.
    Hello {
        /// Version of the events, [`crate::PROTOCOL`].
        protocol: u32,
        /// Version of the binary.
        knee: String,
        /// Its process id.
        pid: u32,
    },
    /// All tasks exist, are pinned, set up, and wait.
    Ready {
        /// How many acknowledged.
        tasks: u32,
        /// From the worker's start until the last acknowledged.
        startup_s: f64,
    },
    /// Operations of all tasks so far.
    Interval {
        /// Nanoseconds since the release.
        at_ns: u64,
        /// Operations completed, summed over tasks.
        operations: u64,
    },
    /// The tasks have stopped, or the command has ended.
    Measured(Measured),
    /// What one task did.
    Task(TaskReport),
    /// Single operations, all tasks together (latency pass).
    Latency(Latency),
    /// A command has ended, in a way that counts.
    Ended {
        /// Its exit status.
        exit_status: i32,
        /// The numbers read out of what it left, by metric.
        values: BTreeMap<String, f64>,
        /// Metrics for which no number was found, and why, as a sentence.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        missing: BTreeMap<String, String>,
    },
    /// What was seen between two instants, of a run that was watched.
    Window(Box<Window>),
    /// A probe that could not see.
    Blind {
        /// Its name.
        probe: String,
        /// What was tried and what went wrong.
        why: String,
    },
    /// Something to know about this run.
    Warning(Warning),
    /// Verified and cleaned up: the run counts.
    Finished,
    /// The run does not count.
    Failed {
        /// What was tried, on what, and what went wrong.
        reason: String,
    },
    /// An event of a newer worker.
    #[serde(other)]
    Unknown,
}

/// The run as a whole, from the release to the last task's stop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// From the release to the last task's stop, in ns.
    pub wall_ns: u64,
    /// From the stop flag to the last task's stop, in ns; absent in fixed-count runs.
    pub drain_ns: Option<u64>,
    /// CPU time, switches, faults and block input and output of the tasks.
    pub usage: Usage,
    /// CPU time of the worker itself meanwhile, in µs.
    #[serde(default)]
    pub worker_us: u64,
    /// How much each counter of this host moved meanwhile (see the metric list).
    pub deltas: BTreeMap<String, i64>,
    /// Levels at the end.
    pub gauges: BTreeMap<String, f64>,
    /// Sources that could not be read, and why.
    pub unavailable: BTreeMap<String, String>,
}

/// Resource usage as getrusage(2) has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode, in µs.
    pub user_us: u64,
    /// CPU time in the kernel, in µs.
    pub system_us: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Page faults served without input.
    pub minor_faults: u64,
    /// Page faults that read from a device.
    pub major_faults: u64,
    /// Largest resident set of one process, in KiB.
    pub max_rss_kib: u64,
    /// Blocks of 512 bytes read from file systems.
    pub block_inputs: u64,
    /// Blocks of 512 bytes written to file systems.
    pub block_outputs: u64,
}

/// What one task did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Number of the task, from 0.
    pub task: u32,
    /// The CPU it was pinned to.
    pub cpu: u32,
    /// Operations it completed.
    pub operations: u64,
    /// From the release to its first operation, in ns.
    pub start_ns: u64,
    /// From the release to the end of its last operation, in ns.
    pub stop_ns: u64,
    /// Its own resource usage.
    pub usage: Usage,
    /// Further numbers the workload reports, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, f64>,
    /// Its failure, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Its operations by duration: (ns, count); only between task and worker, which
    /// merges them into [`Latency`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<(u64, u64)>,
}

/// Durations of single operations, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Operations timed.
    pub count: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Sample standard deviation over operations.
    pub stddev_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// What reading the clock twice costs by itself; included in every value above.
    pub timing_cost_ns: f64,
    /// The histogram: (upper bound of the bucket in ns, count), three digits.
    pub buckets: Vec<(u64, u64)>,
}

impl Event {
    /// Reads one line.
    pub fn read(line: &str) -> Result<Event> {
        serde_json::from_str(line).context("reading an event")
    }

    /// The line, without its newline.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("events are plain data")
    }
}
