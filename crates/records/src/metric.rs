//! Metrics: name, unit, which direction is better, how the number was obtained, and what it is made of.

mod counters;

pub use counters::{COUNTERS, find_counter};
use schemars::JsonSchema;
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
    /// The kind of number: a count of events, a time, ticks or a level.
    pub kind: MetricKind,
    /// Description for lists.
    pub about: &'static str,
}

/// A record's description of a metric that is not knee's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescribedMetric {
    /// Unit of the number; `1` for a count.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// How it is obtained.
    pub obtained: Obtained,
    /// The kind of number, if it was declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MetricKind>,
}

/// What a metric's number is made of. It decides where the number means something: an emulated guest does what its
/// program asks for, but at no processor's pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Events that the program causes, however long it takes: page faults, bytes written.
    Count,
    /// A time, a rate, or anything that follows from how long things take.
    Time,
    /// Events that a clock causes, so that a slower program has more of them: timer interrupts, preemptions.
    Ticks,
    /// A state, a level or a size: an exit status, a frequency, resident memory.
    Level,
}

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl MetricKind {
    /// The word used in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Count => "count",
            MetricKind::Time => "time",
            MetricKind::Ticks => "ticks",
            MetricKind::Level => "level",
        }
    }

    /// The kind as a noun in a sentence: "cpu_s is a time".
    pub fn in_words(self) -> &'static str {
        match self {
            MetricKind::Count => "a count of the program's events",
            MetricKind::Time => "a time, or follows from one",
            MetricKind::Ticks => "a count of events that the clock causes",
            MetricKind::Level => "a level",
        }
    }
}

impl DescribedMetric {
    /// What the metric is made of, as declared, or by its unit: a number of seconds is a time.
    pub fn kind(&self) -> Option<MetricKind> {
        let is_time = ["s", "ms", "us", "ns", "min", "h", "tick"].contains(&self.unit.as_str())
            || ["/s", "/ms", "/us", "/ns", "/min", "/h"].iter().any(|per| self.unit.ends_with(per));
        self.kind.or(is_time.then_some(MetricKind::Time))
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
use MetricKind::{Count, Level, Ticks, Time};
use Obtained::{Apportioned, Exact, Sampled};

macro_rules! metrics {
    ($($name:literal, $unit:literal, $better:ident, $obtained:ident, $kind:ident, $about:literal;)*) => {
        /// The metrics of a run, in the order in which they are listed.
        pub const METRICS: &[Metric] = &[$(Metric {
            name: $name, unit: $unit, better: $better, obtained: $obtained, kind: $kind,
            about: $about,
        },)*];
    };
}

metrics! {
    "operations_per_s", "1/s", Higher, Exact, Time, "operations of all tasks over wall time from the release to the last stop";
    "operations", "1", Neither, Exact, Count, "operations of all tasks";
    "wall_s", "s", Lower, Exact, Time, "from the release to the last task's stop; of a command, from its start to its end";
    "task_time_s", "s", Lower, Exact, Time, "sum over tasks of the time from first operation to stop (lockperf's figure); not with idle_ns";
    "task_operations_min", "1", Higher, Exact, Time, "operations of the slowest task";
    "task_operations_max", "1", Neither, Exact, Time, "operations of the fastest task";
    "fairness", "1", Higher, Exact, Time, "Jain's index of the tasks' operations (of their rates in fixed-count runs): 1 if all are equal, 1/n if one has all";
    "start_skew_s", "s", Lower, Exact, Time, "between the first and the last task's start";
    "startup_s", "s", Lower, Exact, Time, "from the worker's start until all tasks were ready";
    "drain_s", "s", Lower, Exact, Time, "from the stop flag to the last task's stop";
    "steady_operations_per_s", "1/s", Higher, Sampled, Time, "operations per second after the detected warm-up";
    "idle_percent", "%", Neither, Sampled, Time, "idle share of the CPUs used, by tick";
    "steal_percent", "%", Lower, Sampled, Time, "share of the CPUs used that the hypervisor took, by tick";
    "cpu_s", "s", Lower, Exact, Time, "CPU time of the tasks, user and system together, by the scheduler's clock, free of ticks; of a command, with the children that it waited for; where knee starts a server, of that server";
    "instructions", "1", Lower, Exact, Count, "instructions of the tasks, user and system together, in virtual machines whose clock counts them (--metric instructions); with the few of timers that interrupt them";
    "slab_allocations", "1", Lower, Exact, Count, "objects that the kernel allocated from slabs for the tasks (tracepoints kmem:kmalloc, kmem:kmem_cache_alloc); counted where this metric or page_allocations is asked for, and the kernel permits it";
    "page_allocations", "1", Lower, Exact, Count, "blocks of pages that the kernel allocated for the tasks, for their slabs too (tracepoint kmem:mm_page_alloc); counted where this metric or slab_allocations is asked for, and the kernel permits it";
    "time.user_time", "s", Lower, Sampled, Time, "CPU time of the tasks in user mode; the kernel splits cpu_s by ticks of 1 to 10 ms";
    "time.system_time", "s", Lower, Sampled, Time, "CPU time of the tasks in the kernel; the kernel splits cpu_s by ticks of 1 to 10 ms";
    "time.elapsed_time", "s", Lower, Exact, Time, "wall_s by its name in time(1)";
    "time.percent_of_cpu_this_job_got", "%", Neither, Exact, Time, "user and system time over elapsed time";
    "time.voluntary_context_switches", "1", Neither, Exact, Count, "switches because a task waited";
    "time.involuntary_context_switches", "1", Neither, Exact, Ticks, "switches because a task was preempted";
    "time.minor_page_faults", "1", Neither, Exact, Count, "page faults served without input";
    "time.major_page_faults", "1", Neither, Exact, Count, "page faults that read from a device";
    "time.maximum_resident_set_size", "KiB", Lower, Exact, Level, "resident set size of the largest process";
    "time.file_system_inputs", "512 B", Neither, Exact, Count, "blocks read";
    "time.file_system_outputs", "512 B", Neither, Exact, Count, "blocks written";
    "frequency_mhz", "MHz", Neither, Sampled, Level, "mean of scaling_cur_freq over the CPUs used, at the end";
    "latency.mean_ns", "ns", Lower, Exact, Time, "mean duration of one operation (latency pass)";
    "latency.stddev_ns", "ns", Lower, Exact, Time, "standard deviation over single operations";
    "latency.p50_ns", "ns", Lower, Exact, Time, "median operation, to three digits";
    "latency.p99_ns", "ns", Lower, Exact, Time, "99th percentile, to three digits";
    "latency.p999_ns", "ns", Lower, Exact, Time, "99.9th percentile, to three digits";
    "latency.max_ns", "ns", Lower, Exact, Time, "slowest operation";
    "latency.timing_cost_ns", "ns", Neither, Apportioned, Time, "cost of the two clock reads, included in the values above";
    "guest.ran_s", "s", Neither, Exact, Time, "host CPU time of the vCPUs of the run's virtual machine, from the start of its job to the end";
    "guest.waited_s", "s", Lower, Exact, Time, "time that these vCPUs were runnable but had no CPU of the host";
    "work.*", "ns", Neither, Sampled, Time, "real length of the work that this parameter asks for, measured after the run on its CPUs";
    "client.cpu_s", "s", Neither, Exact, Time, "CPU time of the client of a server that knee started, user and system together";
    "client.user_s", "s", Neither, Sampled, Time, "the part of client.cpu_s in user mode";
    "client.system_s", "s", Neither, Sampled, Time, "the part of client.cpu_s in the kernel";
    "client.cpus", "1", Neither, Exact, Level, "number of CPUs that the client had for itself; 0 if it shared the server's";
    "client.busy_percent", "%", Neither, Exact, Time, "client.cpu_s over the wall time of the CPUs that the client can use: at most one for each of its threads";
    "client.host_busy_percent", "%", Neither, Sampled, Time, "how much of the CPUs of the client's host anything used, if that is another host";
    "server.cpu_s", "s", Neither, Sampled, Time, "CPU time of the server that --server-pid names, user and system together";
    "server.user_s", "s", Neither, Sampled, Time, "the part of server.cpu_s in user mode";
    "server.system_s", "s", Neither, Sampled, Time, "the part of server.cpu_s in the kernel";
    "daemon.cpu_s", "s", Neither, Sampled, Time, "CPU time of the variant's daemon and its descendants while the run was measured, user and system together";
    "daemon.user_s", "s", Neither, Sampled, Time, "the part of daemon.cpu_s in user mode";
    "daemon.system_s", "s", Neither, Sampled, Time, "the part of daemon.cpu_s in the kernel";
    "delayed_locks", "1", Neither, Exact, Time, "kernel locks of the dosed kind that tasks got after a wait; each was held longer by the dose";
    "delayed_s", "s", Neither, Exact, Time, "time that the dose added while these locks were held, by the clock";
    "exit_status", "1", Neither, Exact, Level, "exit status of a command";
    "effect.*", "1", Neither, Exact, Count, "further counts of a workload, summed over tasks";
}

/// The metrics that need counters of allocations, which cost time: of slab objects, and of pages.
pub const ALLOCATIONS: [&str; 2] = ["slab_allocations", "page_allocations"];

/// Knee's own description of a metric or counter.
pub fn find_metric(name: &str) -> Option<&'static Metric> {
    known_metric(name).or_else(|| find_counter(name))
}

/// Knee's own description of a metric; counters have none.
pub fn known_metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.matches(name))
}

/// A metric as it is asked for: its name, and whether `/op` asks for the value per operation.
pub fn per_operation(metric: &str) -> (&str, bool) {
    match metric.strip_suffix("/op") {
        Some(name) => (name, true),
        None => (metric, false),
    }
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
