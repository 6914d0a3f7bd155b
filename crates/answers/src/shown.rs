//! A record as one JSON document: the summary that `knee show --json` prints, and the
//! whole with all runs that `knee record export --format json` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analysis::{Axis, Curve, CurveCell, Spread, curves};
use host::Placement;
use records::{ClientHost, Form, Opened, Outcome, Pass, Record, RecordState, Run, Until, Warning};
use schemars::JsonSchema;
use serde::Serialize;

/// A record: what was measured where, and each metric at each number of CPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Summary<'a> {
    /// What was measured, where and when.
    record: RecordHead<'a>,
    /// The curves: points that differ only in their CPUs.
    curves: Vec<CurveSummary<'a>>,
    /// What makes numbers less trustworthy, of each run and then of the record as a whole.
    warnings: Vec<WarningSummary<'a>>,
}

/// What a record is of.
#[derive(Debug, Serialize, JsonSchema)]
struct RecordHead<'a> {
    /// Id of the record, unique in its store.
    id: &'a str,
    /// Whether all planned runs were made.
    state: RecordState,
    /// Directory of the record.
    folder: &'a Path,
    /// Name of the experiment.
    name: &'a str,
    /// When the first session started.
    started: Option<jiff::Timestamp>,
    /// Name of the first host, as `uname -n` prints it.
    hostname: Option<&'a str>,
    /// All hosts that ran for the record, those with most runs first.
    hosts: Vec<HostShare>,
    /// Release of the host's kernel, as `uname -r` prints it.
    kernel_release: Option<&'a str>,
    /// Model of the CPU, from /proc/cpuinfo.
    cpu_model: Option<&'a str>,
    /// Hosts of clients that ran elsewhere than their servers, by `client_on`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    clients: &'a BTreeMap<String, ClientHost>,
    /// Seed of the random order.
    seed: u64,
    /// Number of planned blocks.
    blocks: u32,
    /// Number of planned runs. Absent if runs decide how many more there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_planned: Option<u32>,
    /// Number of runs that count.
    runs_finished: usize,
    /// Number of runs that do not count.
    runs_failed: usize,
    /// Command line of the first session, a word each.
    command: &'a [String],
}

/// A host and its part of a record.
#[derive(Debug, Serialize, JsonSchema)]
struct HostShare {
    /// Name of the host, as `uname -n` prints it; `?` if it is not known.
    name: String,
    /// Number of runs that it made, failed ones included.
    runs: u32,
    /// Share of all runs that it made.
    share: f64,
}

/// Points that differ only in their CPUs, or in what else the curve runs over.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CurveSummary<'a> {
    /// Name of the workload or command.
    workload: &'a str,
    /// Version of what an operation of the workload is: operations of different versions must not be compared.
    semantics: u32,
    /// Whether tasks are processes or threads.
    #[serde(rename = "as")]
    form: Form,
    /// Parameters of the workload by name.
    parameters: BTreeMap<String, String>,
    /// Name of the variant. Absent if there is one only.
    #[serde(skip_serializing_if = "str::is_empty")]
    variant: &'a str,
    /// The order in which CPUs are taken into use.
    placement: Placement,
    /// What the runs measured: rates, or the latency of each operation.
    pass: Pass,
    /// Directory in which tasks work.
    dir: &'a Path,
    /// Length of a run: seconds, or operations of each task.
    until: Until,
    /// What the curve runs over: CPUs, or threads, clients, a load.
    axis: Axis,
    /// The curve, by its axis.
    cells: Vec<CellSummary>,
}

/// The runs at one place of a curve.
#[derive(Debug, Serialize, JsonSchema)]
struct CellSummary {
    /// Place on the axis of the curve; 0 if it is not known.
    at: u32,
    /// Number of CPUs.
    cpus: u32,
    /// Number of tasks.
    tasks: u32,
    /// Number of runs that count.
    n: usize,
    /// Number of runs that do not count.
    failed: usize,
    /// Rate for each CPU over that of the first cell, both means over runs; 1 is perfect scaling.
    efficiency: Option<f64>,
    /// Metrics by name. `knee show NAME` says the unit of each and how it is obtained.
    metrics: BTreeMap<String, MetricValues>,
}

/// A metric over the runs of a cell, in the unit of the metric; exact over these runs.
#[derive(Debug, Serialize, JsonSchema)]
struct MetricValues {
    /// Number of runs that have a value.
    n: usize,
    /// Arithmetic mean.
    mean: f64,
    /// Standard deviation between runs; null for one run.
    stddev: Option<f64>,
    /// Lowest value.
    min: f64,
    /// Median.
    median: f64,
    /// Highest value.
    max: f64,
}

/// A warning, and the run that it is about; without one, the record as a whole.
#[derive(Debug, Serialize, JsonSchema)]
struct WarningSummary<'a> {
    /// Number of the run in its record, from 0; null for the record as a whole.
    run: Option<u32>,
    #[serde(flatten)]
    warning: &'a Warning,
}

/// The summary of a record. `also` names counters per operation to include: `NAME/op`.
pub fn summary<'a>(opened: &'a Opened, also: &[String]) -> Summary<'a> {
    let curves = curves(opened);
    let of_run = |run: &'a Run| {
        run.warnings.iter().map(|warning| WarningSummary { run: Some(run.run), warning })
    };
    let of_record = opened.record.warnings.iter();
    let of_record = of_record.map(|warning| WarningSummary { run: None, warning });
    Summary {
        record: head(opened),
        curves: curves.iter().map(|curve| curve_summary(curve, also)).collect(),
        warnings: opened.runs.iter().flat_map(of_run).chain(of_record).collect(),
    }
}

fn head(opened: &Opened) -> RecordHead<'_> {
    let record = &opened.record;
    let finished = opened.runs.iter().filter(|run| run.finished()).count();
    let runs = opened.runs.len() as u32;
    let share = |(name, made): (String, u32)| {
        let share = f64::from(made) / f64::from(runs.max(1));
        HostShare { name, runs: made, share }
    };
    RecordHead {
        id: &record.id,
        state: record.state,
        folder: &opened.folder,
        name: &record.experiment.name,
        started: record.started(),
        hostname: record.host.hostname.as_deref(),
        hosts: record.hosts(runs).into_iter().map(share).collect(),
        kernel_release: record.host.kernel_release.as_deref(),
        cpu_model: record.host.cpu_model.as_deref(),
        clients: &record.clients,
        seed: record.seed,
        blocks: record.experiment.blocks(),
        runs_planned: record.runs_planned(),
        runs_finished: finished,
        runs_failed: opened.runs.len() - finished,
        command: record.sessions.first().map_or(&[], |session| &session.command),
    }
}

fn curve_summary<'a>(curve: &Curve<'a>, also: &[String]) -> CurveSummary<'a> {
    let point = curve.point;
    let cell = |cell: &CurveCell| CellSummary {
        at: cell.at,
        cpus: cell.point.cpus,
        tasks: cell.point.tasks,
        n: cell.runs.len(),
        failed: cell.failed,
        efficiency: curve.efficiency(cell, "operations_per_s"),
        metrics: metrics(cell, also),
    };
    CurveSummary {
        workload: &point.workload,
        semantics: point.semantics,
        form: point.form,
        parameters: curve.fixed_parameters(),
        variant: &point.variant,
        placement: point.placement,
        pass: point.pass,
        dir: &point.dir,
        until: point.until,
        axis: curve.axis.clone(),
        cells: curve.cells.iter().map(cell).collect(),
    }
}

fn metrics(cell: &CurveCell, also: &[String]) -> BTreeMap<String, MetricValues> {
    let mut names: BTreeSet<&str> = also.iter().map(String::as_str).collect();
    for run in &cell.runs {
        if let Outcome::Finished { metrics, .. } = &run.outcome {
            names.extend(metrics.keys());
        }
    }
    let values = |name: &str| {
        let Spread { n, mean, stddev, min, median, max } = cell.spread(name)?;
        Some((name.to_string(), MetricValues { n, mean, stddev, min, median, max }))
    };
    names.into_iter().filter_map(values).collect()
}

/// A record with all its runs; docs/formats/record.md has the format.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WholeRecord<'a> {
    /// What was planned, where and how it was measured.
    record: &'a Record,
    /// The runs in the order of execution.
    runs: &'a [Run],
}

/// Everything but the raw samples.
pub fn whole(opened: &Opened) -> WholeRecord<'_> {
    WholeRecord { record: &opened.record, runs: &opened.runs }
}
