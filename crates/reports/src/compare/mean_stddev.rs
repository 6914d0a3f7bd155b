//! Mean and standard deviation of the time that a load takes, as authors of patches quote
//! them: the sum over tasks, the wall time beside it, and single calls where they were timed.

mod alone;

use analysis::{CellComparison, Comparison, Contrast, MetricComparison, Spread};
use text::Style;
use text::prose::wrapped;
use text::quantity::duration_ns;
use text::table::{Align, Table};

use crate::compare::change::{
    decides, percent, primary, probability, ratio, ratio_interval, value, verdict,
};
use crate::compare::head::{head, names};
use crate::compare::notes::{below, of_cells};
use crate::compare::places::{Places, whole};
use crate::known_metric;

/// What is shown where it is known; the primary metric comes first in any case.
const METRICS: [&str; 3] = ["task_time_s", "wall_s", CALLS];

/// Mean of single calls, whose deviation is a metric of its own.
const CALLS: &str = "latency.mean_ns";

/// The whole report.
pub fn mean_stddev(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut text = head(comparison, again, style);
    if comparison.variants.len() == 1 {
        return text + &alone::table(comparison, style) + &below(comparison, style);
    }
    let places = Places::new(comparison);
    for (i, cell) in comparison.cells.iter().enumerate() {
        let title = wrapped(&whole(&cell.key), style.width, 2);
        text += &format!("\n{}\n", style.bold(title.trim_end()));
        let metrics = shown(cell);
        if metrics.is_empty() {
            text += &format!("no run has {}\n", comparison.primary);
        }
        let blocks: Vec<String> =
            metrics.iter().map(|metric| block(comparison, cell, metric, style)).collect();
        text += &blocks.join("\n");
        for line in of_cells(comparison, &places, &[i]) {
            text += &wrapped(&line, style.width, 2);
        }
    }
    text + &below(comparison, style)
}

fn shown(cell: &CellComparison) -> Vec<&MetricComparison> {
    let find = |name: &str| cell.metrics.iter().skip(1).find(|metric| metric.metric == name);
    primary(cell).into_iter().chain(METRICS.into_iter().filter_map(find)).collect()
}

/// How a table is made to fit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TableForm {
    /// All in one line.
    Whole,
    /// What is said about a change stands below the table.
    Split,
    /// As `Split`, with letters for long names.
    Lettered,
}

fn block(
    comparison: &Comparison,
    cell: &CellComparison,
    metric: &MetricComparison,
    style: Style,
) -> String {
    let text = |form: TableForm| table(comparison, cell, metric, form).text();
    let fits =
        |form: &TableForm| text(*form).lines().all(|line| line.chars().count() <= style.width);
    let form =
        [TableForm::Whole, TableForm::Split].into_iter().find(fits).unwrap_or(TableForm::Lettered);
    let below =
        if form == TableForm::Whole { String::new() } else { said(comparison, metric, style) };
    let about = wrapped(&about(comparison, metric), style.width, 2);
    about + &ruled(&text(form), comparison.variants.len()) + &below
}

/// A line between the headings and the last rows.
fn ruled(table: &str, rows: usize) -> String {
    let lines: Vec<&str> = table.lines().collect();
    let width = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    let (headings, rows) = lines.split_at(lines.len() - rows);
    let rule = "-".repeat(width);
    [headings, &[rule.as_str()], rows].concat().join("\n") + "\n"
}

/// What is said about each change, a line a variant.
fn said(comparison: &Comparison, metric: &MetricComparison, style: Style) -> String {
    let names = names(comparison);
    let one = |(name, contrast): (&String, &Contrast)| {
        wrapped(&format!("{name}: {}", judged(comparison, metric, contrast)), style.width, 2)
    };
    names[1..].iter().zip(&metric.contrasts).map(one).collect()
}

/// The verdict where the metric decides, else the adjusted probability.
fn judged(comparison: &Comparison, metric: &MetricComparison, contrast: &Contrast) -> String {
    if decides(comparison, metric) {
        verdict(metric, contrast, comparison.smallest_effect)
    } else {
        format!("p = {}", contrast.p.map_or("-".to_string(), probability)).replace("= <", "<")
    }
}

/// "task_time_s (s): sum over tasks of the time from first operation to stop".
fn about(comparison: &Comparison, metric: &MetricComparison) -> String {
    let unit = if metric.unit == "1" { String::new() } else { format!(" ({})", metric.unit) };
    let about = known_metric(&metric.metric).map(|known| format!(": {}", known.about));
    let about = about.unwrap_or_default();
    let rank = if decides(comparison, metric) { "; decides" } else { "; exploratory" };
    match metric.metric.as_str() {
        CALLS => format!("single calls (latency.mean_ns, latency.stddev_ns){rank}"),
        name => format!("{name}{unit}{about}{rank}"),
    }
}

fn table(
    comparison: &Comparison,
    cell: &CellComparison,
    metric: &MetricComparison,
    form: TableForm,
) -> Table {
    let letters = names(comparison);
    let mut table = Table::new(columns(comparison, metric, form));
    for (i, variant) in comparison.variants.iter().enumerate() {
        let spread = metric.sides.get(i).and_then(Option::as_ref);
        let (mean, deviation) = mean_and_deviation(cell, metric, i);
        let contrast = i.checked_sub(1).and_then(|i| metric.contrasts.get(i));
        let name = if form == TableForm::Lettered { &letters[i] } else { &variant.name };
        let mut row = vec![
            name.clone(),
            mean,
            deviation,
            spread.map_or("-".to_string(), |spread| spread.n.to_string()),
            contrast.map(|contrast| ratio(contrast, &metric.unit)).unwrap_or_default(),
            contrast.map(ratio_interval).unwrap_or_default(),
        ];
        if form == TableForm::Whole {
            row.push(contrast.map(|c| judged(comparison, metric, c)).unwrap_or_default());
        }
        table.row(row);
    }
    table
}

fn columns(
    comparison: &Comparison,
    metric: &MetricComparison,
    form: TableForm,
) -> Vec<(String, Align)> {
    let of_calls = if metric.metric == CALLS { "\nof calls" } else { "" };
    let deviation = if form == TableForm::Whole { "std. deviation" } else { "std.\ndeviation" };
    let decides = decides(comparison, metric);
    let mut columns = vec![
        ("variant".to_string(), Align::Left),
        (format!("mean{of_calls}"), Align::Right),
        (format!("{deviation}{of_calls}"), Align::Right),
        ("n".to_string(), Align::Right),
        ("after/\nbefore".to_string(), Align::Right),
        (format!("{} interval", percent(comparison.confidence)), Align::Left),
    ];
    if form == TableForm::Whole {
        let judged = if decides { "verdict" } else { "adjusted" };
        columns.push((judged.to_string(), Align::Left));
    }
    columns
}

/// Mean and deviation of runs; for single calls, the mean over runs of the calls' own deviation.
fn mean_and_deviation(
    cell: &CellComparison,
    metric: &MetricComparison,
    variant: usize,
) -> (String, String) {
    let side = |metric: &MetricComparison| -> Option<Spread> { *metric.sides.get(variant)? };
    let spread = side(metric);
    if metric.metric != CALLS {
        let (mean, deviation) = value(spread.as_ref());
        return (mean, if deviation.is_empty() { "-".to_string() } else { deviation });
    }
    let deviation = cell.metrics.iter().find(|metric| metric.metric == "latency.stddev_ns");
    let text =
        |spread: Option<Spread>| spread.map_or("-".to_string(), |spread| duration_ns(spread.mean));
    (text(spread), text(deviation.and_then(side)))
}
