//! From the events of one run to its metrics, samples and doubts.

use std::collections::{BTreeMap, BTreeSet};

use records::{
    Event, Latency, Measured, Outcome, Point, Sample, TaskReport, Until, Warmup, Warning, Window,
};

use crate::{jain, warmup};

/// What one run comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reduced {
    /// Finished with metrics, or failed with a reason.
    pub outcome: Outcome,
    /// Doubts about it.
    pub warnings: Vec<Warning>,
    /// Its raw values.
    pub samples: Vec<Sample>,
    /// What was seen of it, if it was watched.
    pub windows: Vec<Window>,
    /// Probes that could not see, and why.
    pub unavailable_probes: BTreeMap<String, String>,
}

impl Reduced {
    /// Of a run that could not be begun.
    pub fn failed(reason: String) -> Reduced {
        Reduced {
            outcome: Outcome::Failed { reason },
            warnings: Vec::new(),
            samples: Vec::new(),
            windows: Vec::new(),
            unavailable_probes: BTreeMap::new(),
        }
    }

    /// The same run, failed for what was found when it was over.
    pub fn spoilt(self, reason: String) -> Reduced {
        let reason = match self.outcome {
            Outcome::Failed { reason: first } => format!("{first}; {reason}"),
            Outcome::Finished { .. } => reason,
        };
        Reduced { warnings: self.warnings, ..Reduced::failed(reason) }
    }
}

/// How a command ended: its exit status, and what was read out of what it left.
type Ended<'a> = (i32, &'a BTreeMap<String, f64>);

/// The events of a run sorted by what they are.
#[derive(Default)]
struct Sorted<'a> {
    startup_s: Option<f64>,
    intervals: Vec<(u64, u64)>,
    measured: Option<&'a Measured>,
    tasks: Vec<&'a TaskReport>,
    latency: Option<&'a Latency>,
    ended: Option<Ended<'a>>,
    windows: Vec<&'a Window>,
    unavailable_probes: BTreeMap<String, String>,
    warnings: Vec<Warning>,
    finished: bool,
    failed: Option<&'a str>,
}

/// Reduces the events of a run of `point`. `death` says how the worker ended, in case its
/// events do not.
pub fn reduce(point: &Point, events: &[Event], death: &str) -> Reduced {
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
    if sorted.ended.is_none() && point.command.is_some() {
        return failed("the worker did not say how the command ended".to_string());
    }
    if sorted.ended.is_none() && !reported.iter().copied().eq(0..point.tasks) {
        return failed(format!("{} of {} tasks reported", reported.len(), point.tasks));
    }
    let warmup = warmup(&sorted.intervals);
    let metrics = metrics(point, &sorted, measured, warmup);
    let mut warnings = doubts(point, &metrics, measured, warmup);
    warnings.extend(sorted.warnings.iter().cloned());
    Reduced {
        outcome: Outcome::Finished {
            metrics,
            counters: measured.deltas.clone(),
            unavailable: measured.unavailable.clone(),
            warmup,
        },
        warnings,
        samples: samples(&sorted),
        windows: sorted.windows.into_iter().cloned().collect(),
        unavailable_probes: sorted.unavailable_probes,
    }
}

fn sort(events: &[Event]) -> Sorted<'_> {
    let mut sorted = Sorted::default();
    for event in events {
        match event {
            Event::Ready { startup_s, .. } => sorted.startup_s = Some(*startup_s),
            Event::Interval { at_ns, operations } => sorted.intervals.push((*at_ns, *operations)),
            Event::Measured(measured) => sorted.measured = Some(measured),
            Event::Task(report) => sorted.tasks.push(report),
            Event::Latency(latency) => sorted.latency = Some(latency),
            Event::Ended { exit_status, values } => sorted.ended = Some((*exit_status, values)),
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

/// Metrics under construction: what is not finite is missing, not zero.
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
    run: &Sorted,
    measured: &Measured,
    warmup: Option<Warmup>,
) -> BTreeMap<String, f64> {
    let mut m = Metrics::default();
    let wall_s = seconds(measured.wall_ns);
    match run.ended {
        Some((exit_status, values)) => {
            values.iter().for_each(|(name, value)| m.put(name, *value));
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
    // How long the work between operations took is not known: it may have been preempted.
    let has_idle = point.parameters.get("idle_ns").is_some_and(|ns| ns != "0");
    let task_time_s = tasks.iter().map(|t| time_s(t)).sum::<f64>();
    m.put("task_time_s", (!has_idle).then_some(task_time_s));
    let shares: Vec<f64> = match point.until {
        Until::Seconds(_) => counts.map(|n| n as f64).collect(),
        // All do the same count: what differs is how long it took.
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
    m.put("time.user_time", user_s);
    m.put("time.system_time", system_s);
    m.put("time.elapsed_time", wall_s);
    m.put("time.percent_of_cpu_this_job_got", 100.0 * (user_s + system_s) / wall_s);
    m.put("time.voluntary_context_switches", usage.voluntary_switches as f64);
    m.put("time.involuntary_context_switches", usage.involuntary_switches as f64);
    m.put("time.minor_page_faults", usage.minor_faults as f64);
    m.put("time.major_page_faults", usage.major_faults as f64);
    m.put("time.maximum_resident_set_size", usage.max_rss_kib as f64);
    m.put("time.file_system_inputs", usage.block_inputs as f64);
    m.put("time.file_system_outputs", usage.block_outputs as f64);
}

/// Ticks of the measured CPUs that went to `kinds`. Guest time is in user time already.
fn ticks(measured: &Measured, kinds: &[&str]) -> f64 {
    let of = |kind: &&str| measured.deltas.get(&format!("stat.cpus.{kind}_ticks")).copied();
    kinds.iter().filter_map(of).sum::<i64>() as f64
}

const BUSY: &[&str] = &["user", "nice", "system", "irq", "softirq"];

fn all_ticks(measured: &Measured) -> f64 {
    ticks(measured, BUSY) + ticks(measured, &["idle", "iowait", "steal"])
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
    // A quantile of too few operations is one of them, not a quantile.
    let enough = |p: f64| latency.count as f64 >= 10.0 / (1.0 - p);
    m.put("latency.p50_ns", enough(0.5).then_some(latency.p50_ns as f64));
    m.put("latency.p99_ns", enough(0.99).then_some(latency.p99_ns as f64));
    m.put("latency.p999_ns", enough(0.999).then_some(latency.p999_ns as f64));
    m.put("latency.max_ns", (latency.count > 0).then_some(latency.max_ns as f64));
    m.put("latency.timing_cost_ns", latency.timing_cost_ns);
}

fn doubts(
    point: &Point,
    metrics: &BTreeMap<String, f64>,
    measured: &Measured,
    warmup: Option<Warmup>,
) -> Vec<Warning> {
    let value = |name: &str| metrics.get(name).copied().unwrap_or(0.0);
    let moved = |name: &str| measured.deltas.get(name).copied().unwrap_or(0) as f64;
    let of_run = |name: &str| 100.0 * value(name) / value("wall_s");
    let yes = |is: bool| if is { 1.0 } else { 0.0 };
    // What is looked at, from which amount on it is a doubt, what it says, what to do.
    let list: &[(f64, f64, &str, &str)] = &[
        (
            yes(metrics.get("operations") == Some(&0.0)),
            0.0,
            "no operation was completed",
            "run longer (--seconds), or look at what the operation waits for",
        ),
        (
            // With a fixed count, the first task may be done before the last one's turn.
            if matches!(point.until, Until::Seconds(_)) { of_run("start_skew_s") } else { 0.0 },
            2.0,
            "tasks started one after the other over # % of the run",
            "run longer (--seconds)",
        ),
        (
            of_run("drain_s"),
            5.0,
            "the last task stopped # % of the run after its end",
            "run longer (--seconds): the tail counts with fewer tasks running",
        ),
        (
            value("steal_percent"),
            1.0,
            "the hypervisor took # % of the CPUs used",
            "a shared host: repeat more (--blocks), compare only interleaved",
        ),
        (
            moved("cgroup.throttled_periods"),
            0.0,
            "the cgroup's CPU quota throttled # periods",
            "use fewer CPUs or raise cpu.max",
        ),
        (
            moved("throttle.core") + moved("throttle.package"),
            0.0,
            "CPUs were throttled for heat or power # times",
            "cool down, or lower the frequency for all runs alike",
        ),
        (
            other_busy_percent(measured),
            // Of a command, also what it left running and did not wait for.
            5.0,
            "others used # % of the CPUs used",
            "knee doctor names them",
        ),
        (
            yes(warmup == Some(Warmup::Never)),
            0.0,
            "the rate did not become steady within the run",
            "run longer (--seconds), or read it as a run that ages its files",
        ),
    ];
    let doubtful = list.iter().filter(|(amount, above, ..)| amount > above);
    doubtful
        .map(|&(amount, _, text, advice)| Warning {
            text: text.replace('#', &format!("{amount:.0}")),
            advice: advice.to_string(),
            amount: text.contains('#').then_some(amount),
        })
        .collect()
}

/// Busy time of the CPUs used that the CPU time of tasks and worker does not explain, in
/// percent of the CPUs. A tick is 1 % of a CPU in a second, so a little is rounding.
fn other_busy_percent(measured: &Measured) -> f64 {
    let all = all_ticks(measured);
    let own = (measured.usage.user_us + measured.usage.system_us + measured.worker_us) as f64 / 1e4;
    let rest = ticks(measured, BUSY) - own;
    if all > 0.0 && rest > 4.0 { 100.0 * rest / all } else { 0.0 }
}

fn samples(run: &Sorted) -> Vec<Sample> {
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
    let whole = |metric: &str, at_ns: u64, value: f64| Sample {
        metric: metric.to_string(),
        task: None,
        at_ns: Some(at_ns as i64),
        value,
    };
    let tasks = run.tasks.iter().flat_map(|t| task(t));
    let intervals =
        run.intervals.iter().map(|&(at_ns, n)| whole("interval.operations", at_ns, n as f64));
    let buckets = run.latency.iter().flat_map(|l| &l.buckets);
    let latency = buckets.map(|&(ns, n)| whole("latency.count", ns, n as f64));
    tasks.chain(intervals).chain(latency).collect()
}

#[cfg(test)]
mod tests;
