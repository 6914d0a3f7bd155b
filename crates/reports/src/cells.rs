//! Tables of metrics, one row a metric: cells across.

use std::collections::BTreeSet;

use analysis::{Curve, CurveCell};
use records::{METRICS, Outcome};
use text::prose::counted_or_unknown;
use text::quantity::short;
use text::table::{Align, Table};

use crate::known_metric;

/// A standard deviation below this share of the mean is not printed.
const DEVIATION_SHOWN: f64 = 0.02;

/// All metrics of time(1); no row where no run has one.
pub fn time(curves: &[&Curve]) -> Table {
    let names = METRICS.iter().map(|metric| metric.name).filter(|name| name.starts_with("time."));
    by_metric(curves, names.map(String::from).collect())
}

/// What the kernel counted for each operation, and the state of the CPUs; no row where no run has one of them.
pub fn counters(curves: &[&Curve]) -> Table {
    by_metric(curves, counter_names(curves))
}

/// Counters that say why something does not scale, in the order of asking.
const TELLING: [&str; 10] = [
    "stat.ctxt",
    "stat.intr",
    "interrupts.LOC",
    "interrupts.RES",
    "interrupts.CAL",
    "interrupts.TLB",
    "interrupts.device",
    "vmstat.pgfault",
    "vmstat.pgalloc_normal",
    "vmstat.numa_hint_faults",
];

/// Names that begin like this are shown where they moved at all.
const TELLING_FAMILIES: [&str; 2] = ["softirqs.", "pressure."];

fn counter_names(curves: &[&Curve]) -> Vec<String> {
    let runs = curves.iter().flat_map(|curve| &curve.cells).flat_map(|cell| &cell.runs);
    let counters = runs.filter_map(|run| match &run.outcome {
        Outcome::Finished { counters, .. } => Some(counters),
        Outcome::Failed { .. } => None,
    });
    let values = counters.flat_map(|counters| counters.iter());
    let moved = values.filter(|(_, n)| *n != 0).map(|(name, _)| name);
    let of_family = |name: &&str| TELLING_FAMILIES.iter().any(|f| name.starts_with(f));
    let of_families: BTreeSet<&str> = moved.filter(of_family).collect();
    let levels = ["steal_percent", "frequency_mhz"].map(String::from);
    // A command has no operations that are counted.
    let whole = curves.iter().any(|curve| curve.point.command.is_some());
    let per = if whole { "" } else { "/op" };
    let counted = TELLING.into_iter().chain(of_families);
    levels.into_iter().chain(counted.map(|name| format!("{name}{per}"))).collect()
}

fn by_metric(curves: &[&Curve], names: Vec<String>) -> Table {
    let cells: Vec<&CurveCell> = curves.iter().flat_map(|curve| &curve.cells).collect();
    let known = |name: &String| cells.iter().any(|cell| cell.spread(name).is_some());
    let names: Vec<String> = names.into_iter().filter(known).collect();
    let with_tasks = curves.iter().any(|curve| curve.tasks_per_cpu != Some(1.0));
    let columns: Vec<Vec<String>> = cells.iter().map(|cell| values(cell, &names)).collect();
    let headings = cells.iter().map(|cell| (heading(cell, with_tasks), Align::Right));
    let mut table = Table::new([("metric".to_string(), Align::Left)].into_iter().chain(headings));
    for (row, name) in names.iter().enumerate() {
        let cells = columns.iter().map(|column| column[row].clone());
        table.row([label(name)].into_iter().chain(cells).collect());
    }
    table
}

fn heading(cell: &CurveCell, with_tasks: bool) -> String {
    let cpus = counted_or_unknown(cell.point.cpus, "CPU");
    if with_tasks {
        format!("{cpus}\n{}", counted_or_unknown(cell.point.tasks, "task"))
    } else {
        cpus
    }
}

/// The name with its unit, where it is not a mere count.
fn label(name: &str) -> String {
    match known_metric(name).map(|metric| metric.unit) {
        Some(unit) if unit != "1" => format!("{name} ({unit})"),
        _ => name.to_string(),
    }
}

/// Means with their relative deviations, padded so that the means end evenly.
fn values(cell: &CurveCell, names: &[String]) -> Vec<String> {
    let parts: Vec<(String, String)> = names.iter().map(|name| parts(cell, name)).collect();
    let width = parts.iter().map(|(_, deviation)| deviation.chars().count()).max();
    let padded = |(mean, deviation): &(String, String)| {
        format!("{mean}{deviation:<0$}", width.unwrap_or_default())
    };
    parts.iter().map(padded).collect()
}

fn parts(cell: &CurveCell, name: &str) -> (String, String) {
    let Some(spread) = cell.spread(name) else {
        return ("-".to_string(), String::new());
    };
    let relative = spread.stddev.map(|stddev| stddev / spread.mean.abs());
    let shown = relative.filter(|share| share.is_finite() && *share >= DEVIATION_SHOWN);
    let deviation = shown.map(|share| format!(" ±{:.0}%", 100.0 * share));
    (short(spread.mean), deviation.unwrap_or_default())
}
