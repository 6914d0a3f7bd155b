//! A record as one JSON document: the summary that `knee show --json` prints, and the
//! whole with all runs that `knee export` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use analysis::{Curve, CurveCell, Spread, curves};
use host::Placement;
use records::{Form, Opened, Outcome, Pass, Record, RecordState, Run, Until, Warning};
use serde::Serialize;

/// What `knee show` says, as data.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    record: RecordHead<'a>,
    curves: Vec<CurveSummary<'a>>,
    warnings: Vec<WarningSummary<'a>>,
}

#[derive(Debug, Serialize)]
struct RecordHead<'a> {
    id: &'a str,
    state: RecordState,
    folder: &'a Path,
    name: &'a str,
    started: Option<jiff::Timestamp>,
    hostname: Option<&'a str>,
    kernel_release: Option<&'a str>,
    cpu_model: Option<&'a str>,
    seed: u64,
    blocks: u32,
    /// Absent if runs decide how many more there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    runs_planned: Option<u32>,
    runs_finished: usize,
    runs_failed: usize,
    command: &'a [String],
}

#[derive(Debug, Serialize)]
struct CurveSummary<'a> {
    workload: &'a str,
    semantics: u32,
    #[serde(rename = "as")]
    form: Form,
    parameters: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "str::is_empty")]
    variant: &'a str,
    placement: Placement,
    pass: Pass,
    dir: &'a Path,
    until: Until,
    cells: Vec<CellSummary>,
}

#[derive(Debug, Serialize)]
struct CellSummary {
    cpus: u32,
    tasks: u32,
    n: usize,
    failed: usize,
    /// Rate for each CPU over that of the first cell.
    efficiency: Option<f64>,
    metrics: BTreeMap<String, MetricValues>,
}

#[derive(Debug, Serialize)]
struct MetricValues {
    n: usize,
    mean: f64,
    stddev: Option<f64>,
    min: f64,
    median: f64,
    max: f64,
}

/// A doubt, and the run it is about; without one, the record as a whole.
#[derive(Debug, Serialize)]
struct WarningSummary<'a> {
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
    RecordHead {
        id: &record.id,
        state: record.state,
        folder: &opened.folder,
        name: &record.experiment.name,
        started: record.started(),
        hostname: record.host.hostname.as_deref(),
        kernel_release: record.host.kernel_release.as_deref(),
        cpu_model: record.host.cpu_model.as_deref(),
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
        parameters: &point.parameters,
        variant: &point.variant,
        placement: point.placement,
        pass: point.pass,
        dir: &point.dir,
        until: point.until,
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

/// A record with all its runs.
#[derive(Debug, Serialize)]
pub struct WholeRecord<'a> {
    record: &'a Record,
    runs: &'a [Run],
}

/// Everything but the raw samples.
pub fn whole(opened: &Opened) -> WholeRecord<'_> {
    WholeRecord { record: &opened.record, runs: &opened.runs }
}
