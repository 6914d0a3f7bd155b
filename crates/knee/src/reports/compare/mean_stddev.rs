//! Mean and standard deviation of the time that a load takes, as authors of patches quote
//! them: the sum over tasks, the wall time beside it, and single calls where they were timed.

use analysis::{CellComparison, Comparison, MetricComparison, Spread};

use super::super::prose::wrapped;
use super::super::quantity::duration_ns;
use super::super::table::{Align, Table};
use super::super::{Style, known_metric};
use super::change::{percent, probability, ratio, ratio_interval, value, verdict};
use super::head::head;
use super::places::whole;
use super::sentences::{below, of_cells};

/// What is shown where it is known; the primary metric comes first in any case.
const METRICS: [&str; 3] = ["task_time_s", "wall_s", CALLS];

/// Mean of single calls, whose deviation is a metric of its own.
const CALLS: &str = "latency.mean_ns";

/// The whole report.
pub fn mean_stddev(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut text = head(comparison, again, style);
    for (i, cell) in comparison.cells.iter().enumerate() {
        let title = wrapped(&whole(&cell.place), style.width, 2);
        text += &format!("\n{}\n", style.bold(title.trim_end()));
        let metrics = shown(comparison, cell);
        if metrics.is_empty() {
            text += &format!("no run has {}\n", comparison.primary);
        }
        let blocks: Vec<String> =
            metrics.iter().map(|metric| block(comparison, cell, metric, style)).collect();
        text += &blocks.join("\n");
        for line in of_cells(comparison, &[i]) {
            text += &wrapped(&line, style.width, 2);
        }
    }
    text + &below(comparison, style)
}

fn shown<'a>(comparison: &Comparison, cell: &'a CellComparison) -> Vec<&'a MetricComparison> {
    let find = |name: &str| cell.metrics.iter().find(|metric| metric.metric == name);
    let others = METRICS.into_iter().filter(|name| *name != comparison.primary);
    [comparison.primary.as_str()].into_iter().chain(others).filter_map(find).collect()
}

fn block(
    comparison: &Comparison,
    cell: &CellComparison,
    metric: &MetricComparison,
    style: Style,
) -> String {
    let table = table(comparison, cell, metric).text();
    let ruled: Vec<&str> = table.lines().collect();
    let rule: &str = &"-".repeat(ruled.iter().map(|line| line.chars().count()).max().unwrap_or_default());
    // The headings are the first lines, one row a variant the others.
    let headings = ruled.len() - comparison.variants.len();
    let lines = ruled[..headings].iter().chain([&rule]).chain(&ruled[headings..]);
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    wrapped(&about(comparison, metric), style.width, 2) + &lines
}

/// "task_time_s (s): sum over tasks of the time from first operation to stop".
fn about(comparison: &Comparison, metric: &MetricComparison) -> String {
    let unit = if metric.unit == "1" { String::new() } else { format!(" ({})", metric.unit) };
    let about = known_metric(&metric.metric).map(|known| format!(": {}", known.about));
    let about = about.unwrap_or_default();
    let rank = match metric.metric == comparison.primary {
        true => "; decides",
        false => "; exploratory",
    };
    match metric.metric.as_str() {
        CALLS => format!("single calls (latency.mean_ns, latency.stddev_ns){rank}"),
        name => format!("{name}{unit}{about}{rank}"),
    }
}

fn table(comparison: &Comparison, cell: &CellComparison, metric: &MetricComparison) -> Table {
    let decides = metric.metric == comparison.primary;
    let confidence = percent(comparison.confidence);
    let mut table = Table::new([
        ("variant", Align::Left),
        ("mean", Align::Right),
        ("std. deviation", Align::Right),
        ("n", Align::Right),
        ("after/\nbefore", Align::Right),
        (&format!("{confidence} interval"), Align::Left),
        (if decides { "verdict" } else { "adj. p" }, Align::Left),
    ]);
    for (i, variant) in comparison.variants.iter().enumerate() {
        let spread = metric.sides.get(i).and_then(Option::as_ref);
        let (mean, deviation) = mean_and_deviation(cell, metric, i);
        let n = spread.map_or("-".to_string(), |spread| spread.n.to_string());
        let contrast = i.checked_sub(1).and_then(|i| metric.contrasts.get(i));
        let judged = contrast.map(|contrast| match decides {
            true => verdict(metric, contrast, comparison.smallest_effect),
            false => contrast.p.map_or("-".to_string(), probability),
        });
        table.row(vec![
            variant.name.clone(),
            mean,
            deviation,
            n,
            contrast.map(|contrast| ratio(contrast, &metric.unit)).unwrap_or_default(),
            contrast.map(ratio_interval).unwrap_or_default(),
            judged.unwrap_or_default(),
        ]);
    }
    table
}

/// Of runs; of single calls, the mean over runs of the calls' own deviation.
fn mean_and_deviation(
    cell: &CellComparison,
    metric: &MetricComparison,
    variant: usize,
) -> (String, String) {
    let of = |metric: &MetricComparison| -> Option<Spread> { *metric.sides.get(variant)? };
    let spread = of(metric);
    if metric.metric != CALLS {
        let (mean, deviation) = value(spread.as_ref());
        return (mean, if deviation.is_empty() { "-".to_string() } else { deviation });
    }
    let deviation = cell.metrics.iter().find(|metric| metric.metric == "latency.stddev_ns");
    let text =
        |spread: Option<Spread>| spread.map_or("-".to_string(), |spread| duration_ns(spread.mean));
    (text(spread), text(deviation.and_then(of)))
}
