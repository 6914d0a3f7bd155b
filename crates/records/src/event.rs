//! Events: what a worker reports about its job, one JSON object per line on standard output.
//!
//!     hello ─ ready ─ interval* ─ measured ─ task* ─ [latency] ─ finished
//!        └───────┴───────┴───────────┴─────────┴─────────┴─────── failed
//!     hello ─ ready ─ measured ─ ended ─ finished                 (a command)
//!
//! A profiled job adds `blind` and `window` after `measured`.
//!
//! Between the release of the tasks and their stop the worker prints nothing: a line would wake its
//! reader on a CPU under measurement.
//!
//! A stream that ends without `finished` or `failed` is a worker that died. `warning`
//! may come anywhere. A reader skips events it does not know.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::Window;
use crate::warning::Warning;

/// One line of a worker's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The worker has read its job.
    Hello {
        /// Version of the events, [`crate::PROTOCOL`].
        protocol: u32,
        /// Version of the binary.
        knee: String,
        /// Process id of the worker.
        pid: u32,
    },
    /// All tasks exist, are pinned, set up, and wait.
    Ready {
        /// How many tasks are ready.
        tasks: u32,
        /// From the worker's start until the last task was ready.
        startup_s: f64,
    },
    /// Operations of all tasks so far.
    Interval {
        /// Nanoseconds since the release.
        at_ns: u64,
        /// Operations completed, summed over the tasks.
        operations: u64,
    },
    /// The tasks have stopped, or the command has ended.
    Measured(Measured),
    /// What one task did.
    Task(TaskReport),
    /// Single operations, all tasks together (latency pass).
    Latency(Latency),
    /// A command has ended with an exit status that means success.
    Ended {
        /// Exit status of the command.
        exit_status: i32,
        /// The numbers read from its output and files, by metric.
        values: BTreeMap<String, f64>,
        /// Units that the output tells of numbers whose metrics have none.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        units: BTreeMap<String, String>,
        /// Metrics for which no number was found, and why, as a sentence.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        missing: BTreeMap<String, String>,
        /// The number of operations, where the job says how many there are.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        operations: Option<u64>,
    },
    /// A window of a profiled run.
    Window(Box<Window>),
    /// A probe that was unavailable in a profiled run.
    #[serde(rename = "blind")]
    UnavailableProbe {
        /// Name of the probe.
        probe: String,
        /// What was tried and what went wrong.
        why: String,
    },
    /// A warning about this run.
    Warning(Warning),
    /// The run was verified and cleaned up: it counts.
    Finished,
    /// The run does not count.
    Failed {
        /// What was tried, on what, and what went wrong.
        reason: String,
    },
    /// An event that only a newer knee knows.
    #[serde(other)]
    Unknown,
}

/// The run as a whole, from the release to the last task's stop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// From the release to the last task's stop, in ns.
    pub wall_ns: u64,
    /// From the stop flag to the last task's stop, in ns; absent in fixed-count runs.
    pub drain_ns: Option<u64>,
    /// CPU time, switches, faults and block input and output of the tasks.
    pub usage: Usage,
    /// CPU time of the worker itself during the run, in µs.
    #[serde(default)]
    pub worker_us: u64,
    /// How much each counter of this host changed during the run (see the metric list).
    pub deltas: BTreeMap<String, i64>,
    /// Values of gauges at the end.
    pub gauges: BTreeMap<String, f64>,
    /// Sources that could not be read, and why.
    pub unavailable: BTreeMap<String, String>,
}

/// Resource usage as in getrusage(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time in user mode, in µs.
    pub user_us: u64,
    /// CPU time in the kernel, in µs.
    pub system_us: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Page faults that needed no I/O.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskReport {
    /// Number of the task, from 0.
    pub task: u32,
    /// The CPU it was pinned to.
    pub cpu: u32,
    /// Operations that it completed.
    pub operations: u64,
    /// From the release to its first operation, in ns.
    pub start_ns: u64,
    /// From the release to the end of its last operation, in ns.
    pub stop_ns: u64,
    /// Resource usage of the task.
    pub usage: Usage,
    /// Further numbers that the workload reports, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, f64>,
    /// Objects from slabs and blocks of pages that the kernel allocated for the task, if the job asked for them and the
    /// kernel permits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<[u64; 2]>,
    /// Why the task failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Operations by duration: (ns, count). Only tasks send them; the worker merges them into
    /// [`Latency`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub durations: Vec<(u64, u64)>,
}

/// Durations of single operations, in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of timed operations.
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
    /// Cost of the two clock readings around an operation; included in every value above.
    pub timing_cost_ns: f64,
    /// The histogram: (upper bound of the bucket in ns, count), with a precision of three digits.
    pub buckets: Vec<(u64, u64)>,
}

impl Event {
    /// Parses one line.
    pub fn read(line: &str) -> Result<Event> {
        serde_json::from_str(line).context("reading an event")
    }

    /// The event as a line, without its newline.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("events are plain data")
    }
}
