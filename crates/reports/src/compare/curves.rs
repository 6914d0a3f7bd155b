//! The curves of all variants drawn over one another, with the linear ideal and the idle share:
//! where curves part is seen before it is read. What the eye cannot judge stands below.

use analysis::{CellComparison, CellKey, Comparison, MetricComparison};
use text::Style;
use text::plot::{Plot, SYMBOLS, Series, plot};
use text::prose::wrapped;

use crate::compare::change::primary;
use crate::compare::head::{head, names};
use crate::compare::notes::{below, indexes, of_cells};
use crate::compare::places::{Places, heading, loads, size, whole};

/// The metric whose idle share explains it.
const RATE: &str = "operations_per_s";
const IDLE: &str = "idle_percent";

/// The whole report.
pub fn curves(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut text = head(comparison, again, style);
    let places = Places::new(comparison);
    for load in loads(comparison) {
        let place = &load[0].1.key;
        let title = if load.len() == 1 { whole(place) } else { heading(place) };
        let title = wrapped(&title, style.width, 2);
        text += &format!("\n{}\n", style.bold(title.trim_end()));
        let lanes = lanes(&load);
        let title = |lane: &[(usize, &CellComparison)]| match (lanes.len(), lane) {
            (2.., [(_, cell), ..]) => size(&cell.key).join(", ") + " and so on\n",
            _ => String::new(),
        };
        let draw = |lane: &Vec<(usize, &CellComparison)>| {
            let plots: Vec<String> =
                drawings(comparison, lane).iter().map(|drawing| plot(drawing, style)).collect();
            let title = if plots.concat().is_empty() { String::new() } else { title(lane) };
            title + &plots.join("\n")
        };
        let plots: Vec<String> = lanes.iter().map(draw).collect();
        text += &if plots.concat().is_empty() {
            "no curve: it needs at least two CPU counts\n".to_string()
        } else {
            plots.join("\n")
        };
        for line in of_cells(comparison, &places, &indexes(&load)) {
            text += &wrapped(&line, style.width, 2);
        }
    }
    text + &below(comparison, style)
}

/// One drawing, or several where there are more variants than symbols: the baseline is in each.
fn drawings(comparison: &Comparison, load: &[(usize, &CellComparison)]) -> Vec<Plot> {
    let others: Vec<usize> = (1..comparison.variants.len()).collect();
    let chunks =
        if others.is_empty() { vec![&others[..]] } else { others.chunks(SYMBOLS - 1).collect() };
    let with = |chunk: &&[usize]| drawing(comparison, load, &[&[0], *chunk].concat());
    chunks.iter().map(with).collect()
}

fn drawing(comparison: &Comparison, load: &[(usize, &CellComparison)], variants: &[usize]) -> Plot {
    let names = names(comparison);
    let name = metric_name(comparison, load);
    let series = |variant: usize| Series {
        name: names[variant].clone(),
        points: values(load, variant, primary),
        idle: if name == RATE { values(load, variant, idle) } else { Vec::new() },
    };
    let series: Vec<Series> = variants.iter().map(|variant| series(*variant)).collect();
    let (title, over) = (metric_title(comparison, load), "CPUs".to_string());
    Plot { title, ideal: ideal_per_cpu(load), series, over }
}

/// The metric that decides in these cells.
fn metric_name<'a>(comparison: &'a Comparison, load: &[(usize, &'a CellComparison)]) -> &'a str {
    let metric = load.iter().find_map(|(_, cell)| primary(cell));
    metric.map_or(comparison.primary.as_str(), |metric| metric.metric.as_str())
}

/// What the values are.
pub fn metric_title(comparison: &Comparison, load: &[(usize, &CellComparison)]) -> String {
    match metric_name(comparison, load) {
        RATE => "operations/s".to_string(),
        name => name.to_string(),
    }
}

/// The mean of a metric over the CPUs.
fn values(
    load: &[(usize, &CellComparison)],
    variant: usize,
    metric: impl Fn(&CellComparison) -> Option<&MetricComparison>,
) -> Vec<(u32, f64)> {
    let value = |cell: &CellComparison| {
        let spread = metric(cell)?.sides.get(variant)?.as_ref()?;
        Some((cell.key.cpus, spread.mean))
    };
    load.iter().filter_map(|(_, cell)| value(cell)).collect()
}

/// The cells of a load that make one curve: those with the same number of tasks, or of tasks a
/// CPU.
pub fn lanes<'a>(load: &[(usize, &'a CellComparison)]) -> Vec<Vec<(usize, &'a CellComparison)>> {
    let grouped = |by: fn(&CellKey) -> f64| {
        let mut lanes: Vec<Vec<(usize, &CellComparison)>> = Vec::new();
        for cell in load.iter().filter(|(_, cell)| cell.key.cpus > 0) {
            match lanes.iter_mut().find(|lane| by(&lane[0].1.key) == by(&cell.1.key)) {
                Some(lane) => lane.push(*cell),
                None => lanes.push(vec![*cell]),
            }
        }
        lanes
    };
    let (a_cpu, whole) = (
        grouped(|place| place.tasks as f64 / place.cpus as f64),
        grouped(|place| place.tasks as f64),
    );
    if a_cpu.len() <= whole.len() { a_cpu } else { whole }
}

fn idle(cell: &CellComparison) -> Option<&MetricComparison> {
    cell.metrics.iter().find(|metric| metric.metric == IDLE)
}

/// What the baseline does for each CPU where it has fewest; only rates follow CPUs.
pub fn ideal_per_cpu(load: &[(usize, &CellComparison)]) -> Option<f64> {
    let metric = load.iter().find_map(|(_, cell)| primary(cell))?;
    let baseline = values(load, 0, primary);
    let (cpus, value) = baseline.iter().min_by_key(|(cpus, _)| *cpus)?;
    Some(value / *cpus as f64).filter(|rate| *rate > 0.0 && metric.unit == "1/s")
}
