//! From the events of one run to its metrics, samples and warnings.

mod run_warning;
mod ticks;

use std::collections::{BTreeMap, BTreeSet};

use records::{
    Event, INSTRUCTIONS, Latency, Measured, Outcome, Point, Sample, TaskReport, Until, Warmup,
    Warning, Window,
};

use crate::{jain, warmup};
use run_warning::{RunWarning, warnings};
use ticks::{CLIENT_CPUS, all_ticks, ticks};

/// The events of one run, reduced to what a record keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced {
    /// Finished with metrics, or failed with a reason.
    pub outcome: Outcome,
    /// Warnings about the run.
    pub warnings: Vec<Warning>,
    /// Metrics of a command for which no number was found, and why.
    pub missing: BTreeMap<String, String>,
    /// Raw values.
    pub samples: Vec<Sample>,
    /// What probes saw, if the run was watched.
    pub windows: Vec<Window>,
    /// Probes that were not available, and why.
    pub unavailable_probes: BTreeMap<String, String>,
}

impl Reduced {
    /// A run that failed, with nothing measured.
    pub fn failed(reason: String) -> Reduced {
        Reduced {
            outcome: Outcome::Failed { reason },
            warnings: Vec::new(),
            missing: BTreeMap::new(),
            samples: Vec::new(),
            windows: Vec::new(),
            unavailable_probes: BTreeMap::new(),
        }
    }

    /// This run in a guest whose clock goes on by 1 ns with each instruction: its CPU time counts them, to the microsecond.
    pub fn with_instructions(mut self) -> Reduced {
        if let Outcome::Finished { metrics, .. } = &mut self.outcome
            && let Some(cpu_s) = metrics.get("cpu_s")
        {
            metrics.insert(INSTRUCTIONS, cpu_s * 1e9);
        }
        self
    }

    /// This run as a failed one, for a reason that was found after its end.
    pub fn invalidated(self, reason: String) -> Reduced {
        let reason = match self.outcome {
            Outcome::Failed { reason: first } => format!("{first}; {reason}"),
            Outcome::Finished { .. } => reason,
        };
        Reduced { warnings: self.warnings, ..Reduced::failed(reason) }
    }
}

/// How a command ended: its exit status, the numbers that were read from its output, and why
/// others were not.
struct CommandEnd<'a> {
    exit_status: i32,
    values: &'a BTreeMap<String, f64>,
    missing: &'a BTreeMap<String, String>,
    operations: Option<u64>,
}

/// The events of a run, sorted by kind.
#[derive(Default)]
struct SortedEvents<'a> {
    startup_s: Option<f64>,
    intervals: Vec<(u64, u64)>,
    measured: Option<&'a Measured>,
    tasks: Vec<&'a TaskReport>,
    latency: Option<&'a Latency>,
    command_end: Option<CommandEnd<'a>>,
    windows: Vec<&'a Window>,
    unavailable_probes: BTreeMap<String, String>,
    warnings: Vec<Warning>,
    finished: bool,
    failed: Option<&'a str>,
}

/// Whose work the kernel's threads do in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelThreads {
    /// Anybody's.
    OfOthers,
    /// The load's: a module that it loads, such as one that tests a lock, works in threads of the kernel.
    OfLoad,
}

/// Reduces the events of a run of `point`. `death` says how the worker process ended, in case its
/// events do not say so.
pub fn reduce(
    point: &Point,
    kernel_threads: KernelThreads,
    events: &[Event],
    death: &str,
) -> Reduced {
    let sorted = sort(events);
    let failed = |reason: String| Reduced {
        warnings: sorted.warnings.clone(),
        unavailable_probes: sorted.unavailable_probes.clone(),
        ..Reduced::failed(reason)
    };
    if let Some(reason) = sorted.failed {
        return failed(reason.to_string());
    }
    let (true, Some(measured)) = (sorted.finished, sorted.measured) else {
        return failed(format!("the worker {death} before the run was over"));
    };
    let reported: BTreeSet<u32> = sorted.tasks.iter().map(|t| t.task).collect();
    if sorted.command_end.is_none() && point.command.is_some() {
        return failed("the worker did not report how the command ended".to_string());
    }
    if sorted.command_end.is_none() && !reported.iter().copied().eq(0..point.tasks) {
        let tasks = host::counted(point.tasks as usize, "task");
        return failed(format!("{} of {tasks} reported", reported.len()));
    }
    let warmup = warmup(&sorted.intervals);
    let metrics = metrics(point, &sorted, measured, warmup);
    let warnings = warnings(point, kernel_threads, &metrics, measured, warmup)
        .into_iter()
        .map(RunWarning::warning);
    let warnings = warnings.chain(sorted.warnings.iter().cloned()).collect();
    let missing = sorted.command_end.as_ref().map(|end| end.missing.clone());
    Reduced {
        outcome: Outcome::Finished {
            metrics: metrics.into(),
            counters: measured.deltas.clone().into(),
            unavailable: measured.unavailable.clone().into(),
            warmup,
        },
        warnings,
        missing: missing.unwrap_or_default(),
        samples: samples(&sorted),
        windows: sorted.windows.into_iter().cloned().collect(),
        unavailable_probes: sorted.unavailable_probes,
    }
}

fn sort(events: &[Event]) -> SortedEvents<'_> {
    let mut sorted = SortedEvents::default();
    for event in events {
        match event {
            Event::Ready { startup_s, .. } => sorted.startup_s = Some(*startup_s),
            Event::Interval { at_ns, operations } => sorted.intervals.push((*at_ns, *operations)),
            Event::Measured(measured) => sorted.measured = Some(measured),
            Event::Task(report) => sorted.tasks.push(report),
            Event::Latency(latency) => sorted.latency = Some(latency),
            Event::Ended { exit_status, values, missing, operations, .. } => {
                sorted.warnings.extend(missing.iter().map(missing_metric));
                let (exit_status, operations) = (*exit_status, *operations);
                sorted.command_end = Some(CommandEnd { exit_status, values, missing, operations });
            }
            Event::Window(window) => sorted.windows.push(window),
            Event::UnavailableProbe { probe, why } => {
                sorted.unavailable_probes.insert(probe.clone(), why.clone());
            }
            Event::Warning(warning) => sorted.warnings.push(warning.clone()),
            Event::Finished => sorted.finished = true,
            Event::Failed { reason } => sorted.failed = Some(reason),
            Event::Hello { .. } | Event::Unknown => (),
        }
    }
    sorted
}

fn missing_metric((name, why): (&String, &String)) -> Warning {
    Warning::new(why, format!("look at what the command writes, and at its metric {name}"))
}

/// Metrics under construction. A value that is not finite is missing, not zero.
#[derive(Default)]
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn put(&mut self, name: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|v| v.is_finite()) {
            self.0.insert(name.to_string(), value);
        }
    }
}

fn metrics(
    point: &Point,
    run: &SortedEvents,
    measured: &Measured,
    warmup: Option<Warmup>,
) -> BTreeMap<String, f64> {
    let mut m = Metrics::default();
    let wall_s = seconds(measured.wall_ns);
    match run.command_end {
        Some(CommandEnd { exit_status, values, operations, .. }) => {
            values.iter().for_each(|(name, value)| m.put(name, *value));
            m.put("operations", operations.map(|n| n as f64));
            m.put(records::RATE, operations.map(|n| n as f64 / wall_s));
            m.put("exit_status", exit_status as f64);
        }
        None => {
            let operations: u64 = run.tasks.iter().map(|t| t.operations).sum();
            m.put("operations", operations as f64);
            m.put("operations_per_s", operations as f64 / wall_s);
            m.put("startup_s", run.startup_s);
            m.put("drain_s", measured.drain_ns.map(seconds));
            put_tasks(&mut m, point, &run.tasks);
        }
    }
    m.put("wall_s", wall_s);
    put_time(&mut m, measured, wall_s);
    put_ticks(&mut m, measured);
    for (name, value) in &measured.gauges {
        m.put(name, *value);
    }
    if let Some(Warmup::Until { steady_operations_per_s, .. }) = warmup {
        m.put("steady_operations_per_s", steady_operations_per_s);
    }
    if let Some(latency) = run.latency {
        put_latency(&mut m, latency);
    }
    m.0
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn put_tasks(m: &mut Metrics, point: &Point, tasks: &[&TaskReport]) {
    let counts = tasks.iter().map(|t| t.operations);
    m.put("task_operations_min", counts.clone().min().map(|n| n as f64));
    m.put("task_operations_max", counts.clone().max().map(|n| n as f64));
    let starts = tasks.iter().map(|t| t.start_ns);
    if let (Some(first), Some(last)) = (starts.clone().min(), starts.max()) {
        m.put("start_skew_s", seconds(last - first));
    }
    let time_s = |t: &TaskReport| seconds(t.stop_ns.saturating_sub(t.start_ns));
    // The work between operations may have been preempted, so its time is unknown.
    let has_idle = point.parameters.get("idle_ns").is_some_and(|ns| ns != "0");
    let task_time_s = tasks.iter().map(|t| time_s(t)).sum::<f64>();
    m.put("task_time_s", (!has_idle).then_some(task_time_s));
    let shares: Vec<f64> = match point.until {
        Until::Seconds(_) => counts.map(|n| n as f64).collect(),
        // All tasks do the same count: they differ in the time it took.
        Until::OperationsPerTask(_) | Until::End => {
            tasks.iter().map(|t| t.operations as f64 / time_s(t).max(1e-9)).collect()
        }
    };
    m.put("fairness", jain(&shares));
    let names: BTreeSet<&String> = tasks.iter().flat_map(|t| t.effects.keys()).collect();
    for name in names {
        let sum: f64 = tasks.iter().filter_map(|t| t.effects.get(name)).sum();
        m.put(&format!("effect.{name}"), sum);
    }
}

fn put_time(m: &mut Metrics, measured: &Measured, wall_s: f64) {
    let usage = &measured.usage;
    let (user_s, system_s) = (usage.user_us as f64 / 1e6, usage.system_us as f64 / 1e6);
    m.put("cpu_s", user_s + system_s);
    m.put("time.user_time", user_s);
    m.put("time.system_time", system_s);
    m.put("time.elapsed_time", wall_s);
    m.put("time.percent_of_cpu_this_job_got", 100.0 * (user_s + system_s) / wall_s);
    m.put("time.minor_page_faults", usage.minor_faults as f64);
    m.put("time.major_page_faults", usage.major_faults as f64);
    // Of a server, which goes on living, the kernel tells no more.
    if measured.gauges.contains_key(CLIENT_CPUS) {
        return;
    }
    m.put("time.voluntary_context_switches", usage.voluntary_switches as f64);
    m.put("time.involuntary_context_switches", usage.involuntary_switches as f64);
    m.put("time.maximum_resident_set_size", usage.max_rss_kib as f64);
    m.put("time.file_system_inputs", usage.block_inputs as f64);
    m.put("time.file_system_outputs", usage.block_outputs as f64);
}

fn put_ticks(m: &mut Metrics, measured: &Measured) {
    let all = all_ticks(measured);
    if all > 0.0 {
        m.put("idle_percent", 100.0 * ticks(measured, &["idle", "iowait"]) / all);
        m.put("steal_percent", 100.0 * ticks(measured, &["steal"]) / all);
    }
}

fn put_latency(m: &mut Metrics, latency: &Latency) {
    m.put("latency.mean_ns", latency.mean_ns);
    m.put("latency.stddev_ns", latency.stddev_ns);
    // Of too few operations, a quantile would just be one of them.
    let is_enough = |p: f64| latency.count as f64 >= 10.0 / (1.0 - p);
    m.put("latency.p50_ns", is_enough(0.5).then_some(latency.p50_ns as f64));
    m.put("latency.p99_ns", is_enough(0.99).then_some(latency.p99_ns as f64));
    m.put("latency.p999_ns", is_enough(0.999).then_some(latency.p999_ns as f64));
    m.put("latency.max_ns", (latency.count > 0).then_some(latency.max_ns as f64));
    m.put("latency.timing_cost_ns", latency.timing_cost_ns);
}

fn samples(run: &SortedEvents) -> Vec<Sample> {
    let task = |t: &TaskReport| {
        let sample = |metric: &str, value: f64| Sample {
            metric: format!("task.{metric}"),
            task: Some(t.task),
            at_ns: None,
            value,
        };
        [
            sample("cpu", t.cpu as f64),
            sample("operations", t.operations as f64),
            sample("start_ns", t.start_ns as f64),
            sample("stop_ns", t.stop_ns as f64),
            sample("user_us", t.usage.user_us as f64),
            sample("system_us", t.usage.system_us as f64),
            sample("voluntary_switches", t.usage.voluntary_switches as f64),
            sample("involuntary_switches", t.usage.involuntary_switches as f64),
        ]
    };
    let timed = |metric: &str, at_ns: u64, value: f64| Sample {
        metric: metric.to_string(),
        task: None,
        at_ns: Some(at_ns as i64),
        value,
    };
    let tasks = run.tasks.iter().flat_map(|t| task(t));
    let intervals =
        run.intervals.iter().map(|&(at_ns, n)| timed("interval.operations", at_ns, n as f64));
    let buckets = run.latency.iter().flat_map(|l| &l.buckets);
    let latency = buckets.map(|&(ns, n)| timed("latency.count", ns, n as f64));
    tasks.chain(intervals).chain(latency).collect()
}

#[cfg(test)]
mod tests;
