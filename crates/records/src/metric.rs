//! Metrics: name, unit, which direction is better, and how the number was obtained.

use serde::{Deserialize, Serialize};

/// One metric of a run.
#[derive(Debug)]
pub struct Metric {
    /// Name in records and on the command line; `*` stands for any text.
    pub name: &'static str,
    /// Unit of the number.
    pub unit: &'static str,
    /// Which direction is better.
    pub better: Better,
    /// How it is obtained.
    pub obtained: Obtained,
    /// Description for lists.
    pub about: &'static str,
}

/// A record's description of a metric that is not knee's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DescribedMetric {
    /// Unit of the number; `1` for a count.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// How it is obtained.
    pub obtained: Obtained,
}

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: the metric only describes the run.
    Neither,
}

/// How a number was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Obtained {
    /// Every event was counted or timed.
    Exact,
    /// Sampled at clock ticks or intervals.
    Sampled,
    /// Computed from other numbers by an estimate.
    Apportioned,
    /// Imported from another tool, which does not record it.
    Imported,
}

impl Obtained {
    /// The word used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Obtained::Exact => "exact",
            Obtained::Sampled => "sampled",
            Obtained::Apportioned => "apportioned",
            Obtained::Imported => "imported",
        }
    }
}

impl Better {
    /// The word used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "-",
        }
    }
}

use Better::{Higher, Lower, Neither};
use Obtained::{Apportioned, Exact, Sampled};

macro_rules! metrics {
    ($($name:literal, $unit:literal, $better:ident, $obtained:ident, $about:literal;)*) => {
        /// The metrics of a run, in the order in which they are listed.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name, unit: $unit, better: $better, obtained: $obtained, about: $about,
        },)*];
    };
}

metrics! {
    "operations_per_s", "1/s", Higher, Exact, "operations of all tasks over wall time from the release to the last stop";
    "operations", "1", Neither, Exact, "operations of all tasks";
    "wall_s", "s", Lower, Exact, "from the release to the last task's stop; of a command, from its start to its end";
    "task_time_s", "s", Lower, Exact, "sum over tasks of the time from first operation to stop (lockperf's figure); not with idle_ns";
    "task_operations_min", "1", Higher, Exact, "operations of the slowest task";
    "task_operations_max", "1", Neither, Exact, "operations of the fastest task";
    "fairness", "1", Higher, Exact, "Jain's index of the tasks' operations (of their rates in fixed-count runs): 1 if all are equal, 1/n if one has all";
    "start_skew_s", "s", Lower, Exact, "between the first and the last task's start";
    "startup_s", "s", Lower, Exact, "from the worker's start until all tasks were ready";
    "drain_s", "s", Lower, Exact, "from the stop flag to the last task's stop";
    "steady_operations_per_s", "1/s", Higher, Sampled, "operations per second after the detected warm-up";
    "idle_percent", "%", Neither, Sampled, "idle share of the CPUs used, by tick";
    "steal_percent", "%", Lower, Sampled, "share of the CPUs used that the hypervisor took, by tick";
    "cpu_s", "s", Lower, Exact, "CPU time of the tasks, user and system together, by the scheduler's clock, free of ticks; of a command, with the children that it waited for";
    "time.user_time", "s", Lower, Sampled, "CPU time of the tasks in user mode; the kernel splits cpu_s by ticks of 1 to 10 ms";
    "time.system_time", "s", Lower, Sampled, "CPU time of the tasks in the kernel; the kernel splits cpu_s by ticks of 1 to 10 ms";
    "time.elapsed_time", "s", Lower, Exact, "wall_s by its name in time(1)";
    "time.percent_of_cpu_this_job_got", "%", Neither, Exact, "user and system time over elapsed time";
    "time.voluntary_context_switches", "1", Neither, Exact, "switches because a task waited";
    "time.involuntary_context_switches", "1", Neither, Exact, "switches because a task was preempted";
    "time.minor_page_faults", "1", Neither, Exact, "page faults served without input";
    "time.major_page_faults", "1", Neither, Exact, "page faults that read from a device";
    "time.maximum_resident_set_size", "KiB", Lower, Exact, "resident set size of the largest process";
    "time.file_system_inputs", "512 B", Neither, Exact, "blocks read";
    "time.file_system_outputs", "512 B", Neither, Exact, "blocks written";
    "frequency_mhz", "MHz", Neither, Sampled, "mean of scaling_cur_freq over the CPUs used, at the end";
    "latency.mean_ns", "ns", Lower, Exact, "mean duration of one operation (latency pass)";
    "latency.stddev_ns", "ns", Lower, Exact, "standard deviation over single operations";
    "latency.p50_ns", "ns", Lower, Exact, "median operation, to three digits";
    "latency.p99_ns", "ns", Lower, Exact, "99th percentile, to three digits";
    "latency.p999_ns", "ns", Lower, Exact, "99.9th percentile, to three digits";
    "latency.max_ns", "ns", Lower, Exact, "slowest operation";
    "latency.timing_cost_ns", "ns", Neither, Apportioned, "cost of the two clock reads, included in the values above";
    "guest.ran_s", "s", Neither, Exact, "host CPU time of the vCPUs of the run's virtual machine, from the start of its job to the end";
    "guest.waited_s", "s", Lower, Exact, "time that these vCPUs were runnable but had no CPU of the host";
    "work.*", "ns", Neither, Sampled, "real length of the work that this parameter asks for, measured after the run on its CPUs";
    "delayed_locks", "1", Neither, Exact, "kernel locks of the dosed kind that tasks got after a wait; each was held longer by the dose";
    "delayed_s", "s", Neither, Exact, "time that the dose added while these locks were held, by the clock";
    "exit_status", "1", Neither, Exact, "exit status of a command";
    "effect.*", "1", Neither, Exact, "further counts of a workload, summed over tasks";
}

impl Metric {
    /// Whether this metric's name, with any text for its `*`, is `name`.
    pub fn matches(&self, name: &str) -> bool {
        match self.name.split_once('*') {
            Some((start, end)) => {
                name.len() >= start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
            }
            None => self.name == name,
        }
    }
}
