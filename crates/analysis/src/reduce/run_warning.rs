//! Warnings about a run: it counts, but a reader should know this before trusting its numbers.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

use records::{Measured, Point, Until, Warmup, Warning};

use super::KernelThreads;
use super::ticks::{CLIENT_CPUS, other_busy_percent};

/// What limits the numbers of a run that still counts. Percentages are of the run's length or of its CPUs.
#[derive(Clone, Debug, PartialEq)]
pub enum RunWarning {
    NoOperation,
    /// How far apart the first and the last task started, in percent of the run.
    StartsApart(f64),
    /// How long the last task took to stop, in percent of the run.
    SlowStop(f64),
    /// CPU time that the hypervisor took, in percent.
    Steal(f64),
    /// Periods in which the cgroup's CPU quota throttled tasks.
    CpuQuota(f64),
    /// How often CPUs were throttled for heat or power.
    Throttled(f64),
    /// CPU time of other tasks on the run's CPUs, in percent.
    OtherTasks(f64),
    /// CPU time in user mode of other tasks on the run's CPUs, in percent.
    OtherTasksInUserMode(f64),
    NeverSteady,
    /// CPU time of the client, in percent of the CPUs that it can use.
    ClientIsLimit(f64),
    /// The client of a server had no CPUs of its own.
    SharedCpus,
    /// Work that took another time than its parameter asked for.
    WorkLength {
        parameter: String,
        asked_ns: f64,
        real_ns: f64,
    },
}

impl RunWarning {
    /// The warning that a record keeps.
    pub fn warning(self) -> Warning {
        let (text, advice) = (self.to_string(), self.advice().to_string());
        Warning { text, advice, amount: self.amount() }
    }

    /// The number in the text.
    fn amount(&self) -> Option<f64> {
        match *self {
            RunWarning::NoOperation | RunWarning::NeverSteady | RunWarning::SharedCpus => None,
            RunWarning::StartsApart(amount)
            | RunWarning::SlowStop(amount)
            | RunWarning::Steal(amount)
            | RunWarning::CpuQuota(amount)
            | RunWarning::Throttled(amount)
            | RunWarning::OtherTasks(amount)
            | RunWarning::OtherTasksInUserMode(amount)
            | RunWarning::ClientIsLimit(amount) => Some(amount),
            RunWarning::WorkLength { asked_ns, real_ns, .. } => {
                Some(off_percent(asked_ns, real_ns))
            }
        }
    }

    fn advice(&self) -> &'static str {
        match self {
            RunWarning::NoOperation => {
                "run longer (--seconds), or look at what the operation waits for"
            }
            RunWarning::StartsApart(_) => "run longer (--seconds)",
            RunWarning::SlowStop(_) => {
                "run longer (--seconds): while tasks stop, fewer of them are running"
            }
            RunWarning::Steal(_) => {
                "on a shared host, run more blocks (--blocks) and compare only interleaved runs"
            }
            RunWarning::CpuQuota(_) => "use fewer CPUs or raise cpu.max",
            RunWarning::Throttled(_) => {
                "let the host cool down, or lower the frequency for all runs"
            }
            RunWarning::OtherTasks(_) | RunWarning::OtherTasksInUserMode(_) => {
                "`knee doctor` names them"
            }
            RunWarning::NeverSteady => {
                "run longer (--seconds), or read the run as one that ages its files"
            }
            RunWarning::ClientIsLimit(_) => {
                "the server may be faster than that: give the client more threads, or more CPUs: fewer \
                 --cpus for the server, or another host (--client-on)"
            }
            RunWarning::SharedCpus => {
                "leave CPUs to the client: give the server fewer (--cpus), or run it on another host (--client-on)"
            }
            RunWarning::WorkLength { .. } => {
                "ask for at least 200 ns, on CPUs of one kind and of constant frequency (`knee doctor`)"
            }
        }
    }
}

impl Display for RunWarning {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            RunWarning::NoOperation => write!(f, "no operation was completed"),
            RunWarning::StartsApart(percent) => {
                write!(f, "the first and the last task started {percent:.0} % of the run apart")
            }
            RunWarning::SlowStop(percent) => {
                write!(f, "the last task took {percent:.0} % of the run to stop")
            }
            RunWarning::Steal(percent) => {
                write!(f, "the hypervisor took {percent:.0} % of the CPUs used")
            }
            RunWarning::CpuQuota(periods) => {
                write!(f, "the cgroup's CPU quota throttled tasks in {periods:.0} periods")
            }
            RunWarning::Throttled(times) => {
                write!(f, "CPUs were throttled for heat or power {times:.0} times")
            }
            RunWarning::OtherTasks(percent) => {
                write!(f, "other tasks took {percent:.0} % of the CPUs used")
            }
            RunWarning::OtherTasksInUserMode(percent) => {
                write!(f, "other tasks took {percent:.0} % of the CPUs used in user mode alone")
            }
            RunWarning::NeverSteady => write!(f, "the rate did not become steady within the run"),
            RunWarning::ClientIsLimit(percent) => {
                write!(f, "the client is the limit: its CPUs are {percent:.0} % used")
            }
            RunWarning::SharedCpus => write!(f, "client and server share CPUs"),
            RunWarning::WorkLength { parameter, asked_ns, real_ns } => {
                let off = off_percent(*asked_ns, *real_ns);
                write!(f, "the work of {parameter}={asked_ns} took {real_ns:.0} ns, {off:.0} % off")
            }
        }
    }
}

/// The warnings about a run of `point`.
pub fn warnings(
    point: &Point,
    kernel_threads: KernelThreads,
    metrics: &BTreeMap<String, f64>,
    measured: &Measured,
    warmup: Option<Warmup>,
) -> Vec<RunWarning> {
    let value = |name: &str| metrics.get(name).copied().unwrap_or(0.0);
    let delta = |name: &str| measured.deltas.get(name).copied().unwrap_or(0) as f64;
    let percent_of_run = |name: &str| 100.0 * value(name) / value("wall_s");
    let is_timed = matches!(point.until, Until::Seconds(_));
    let throttled = delta("throttle.core") + delta("throttle.package");
    let warnings = [
        (metrics.get("operations") == Some(&0.0)).then_some(RunWarning::NoOperation),
        // With a fixed count, the first task may be done before the last one starts.
        above(percent_of_run("start_skew_s"), 2.0)
            .filter(|_| is_timed)
            .map(RunWarning::StartsApart),
        above(percent_of_run("drain_s"), 5.0).map(RunWarning::SlowStop),
        above(value("steal_percent"), 1.0).map(RunWarning::Steal),
        above(delta("cgroup.throttled_periods"), 0.0).map(RunWarning::CpuQuota),
        above(throttled, 0.0).map(RunWarning::Throttled),
        // Of a command, this includes what it left running and did not wait for.
        above(other_busy_percent(measured, kernel_threads), 5.0).map(match kernel_threads {
            KernelThreads::OfOthers => RunWarning::OtherTasks,
            KernelThreads::OfLoad => RunWarning::OtherTasksInUserMode,
        }),
        (warmup == Some(Warmup::Never)).then_some(RunWarning::NeverSteady),
        above(value("client.busy_percent").max(value("client.host_busy_percent")), 90.0)
            .map(RunWarning::ClientIsLimit),
        (metrics.get(CLIENT_CPUS) == Some(&0.0)).then_some(RunWarning::SharedCpus),
    ];
    warnings.into_iter().flatten().chain(work_lengths(point, metrics)).collect()
}

/// How far real work may be from what was asked for: 5 %, and 2 ns, which is two turns of its loop.
const WORK_TOLERANCE: (f64, f64) = (0.05, 2.0);

/// How far real work is from what was asked for, in percent of that.
fn off_percent(asked_ns: f64, real_ns: f64) -> f64 {
    100.0 * (real_ns / asked_ns - 1.0).abs()
}

/// The parameters whose work took longer or shorter than that.
fn work_lengths(
    point: &Point,
    metrics: &BTreeMap<String, f64>,
) -> impl Iterator<Item = RunWarning> {
    let warning = |(parameter, asked): (&String, &String)| {
        let asked_ns = asked.parse::<f64>().ok()?;
        let real_ns = *metrics.get(&format!("work.{parameter}"))?;
        let limit_ns = (WORK_TOLERANCE.0 * asked_ns).max(WORK_TOLERANCE.1);
        let parameter = parameter.clone();
        above((real_ns - asked_ns).abs(), limit_ns)?;
        Some(RunWarning::WorkLength { parameter, asked_ns, real_ns })
    };
    point.parameters.iter().filter_map(warning)
}

/// An amount, if it is above a limit.
fn above(amount: f64, limit: f64) -> Option<f64> {
    (amount > limit).then_some(amount)
}
