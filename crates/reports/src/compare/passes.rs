//! Each run in the order of execution, variant by variant, as fs_mark prints its passes:
//! what to send where readers want to see the numbers themselves. The mean, its spread and the
//! verdict stand below.

use analysis::{CellComparison, ComparedVariant, Comparison, Contrast, RunValues, rounded};
use text::Style;
use text::prose::wrapped;
use text::table::{Align, Table};

use crate::compare::change::{aligned, percent, primary, value, verdict, whole as whole_change};
use crate::compare::head::head;
use crate::compare::notes::{below, of_cells};
use crate::compare::places::{Places, whole};

/// fs_mark's columns: as it prints them, its own metric, and what knee's own runs have for it.
const FS_MARK: [(&str, &str, &str); 5] = [
    ("FSUse%", "fs_mark.file_system_used_percent", ""),
    ("Count", "fs_mark.files", "operations"),
    ("Size", "fs_mark.size", "size_bytes"),
    ("Files/sec", "fs_mark.files_per_s", "operations_per_s"),
    ("App Overhead", "fs_mark.app_overhead_us", ""),
];

/// Beside the primary metric of other loads, as many of these as runs have.
const OTHERS: [&str; 6] = [
    "wall_s",
    "operations",
    "task_time_s",
    "latency.p99_ns",
    "time.system_time",
    "time.voluntary_context_switches",
];

/// More columns than these make rows that nobody compares.
const OTHERS_SHOWN: usize = 4;

/// The whole report.
pub fn passes(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut text = head(comparison, again, style);
    let places = Places::new(comparison);
    for (i, cell) in comparison.cells.iter().enumerate() {
        let title = wrapped(&whole(&cell.key), style.width, 2);
        text += &format!("\n{}\n", style.bold(title.trim_end()));
        for (variant, runs) in cell.passes.iter().enumerate() {
            text += &listing(comparison, cell, variant, runs, style);
        }
        text += &judged(comparison, cell, style);
        for line in of_cells(comparison, &places, &[i]) {
            text += &wrapped(&line, style.width, 2);
        }
    }
    text + &below(comparison, style)
}

/// One column: its heading, and its value in a run.
type Column<'a> = (String, Box<dyn Fn(&RunValues) -> Option<String> + 'a>);

fn listing(
    comparison: &Comparison,
    cell: &CellComparison,
    variant: usize,
    runs: &[RunValues],
    style: Style,
) -> String {
    let name = &comparison.variants[variant].name;
    if runs.is_empty() {
        return format!("\n{name}: no finished run\n");
    }
    let columns = if files(cell) { fs_mark(cell) } else { general(comparison, cell) };
    let headings = columns.iter().map(|(heading, _)| (heading.as_str(), Align::Right));
    let place = [("run", Align::Right), ("block", Align::Right)];
    let mut table = Table::new(place.into_iter().chain(headings).chain([("", Align::Left)]));
    for run in runs {
        let missing = || "-".to_string();
        let values = columns.iter().map(|(_, text)| text(run).unwrap_or_else(missing));
        let mark = if run.discarded { "left out" } else { "" };
        let place = [run.run.to_string(), run.block.to_string()];
        table.row(place.into_iter().chain(values).chain([mark.to_string()]).collect());
    }
    let summary = summary(comparison, cell, variant, style);
    format!("\n{name} does:\n{}{summary}", table.text())
}

/// Whether a cell's runs are read like fs_mark's.
fn files(cell: &CellComparison) -> bool {
    let runs = cell.passes.iter().flatten();
    let imported = runs.flat_map(|run| run.metrics.keys()).any(|name| name.starts_with("fs_mark."));
    imported || cell.key.workload.split(" / ").all(|name| name == "create_files")
}

fn fs_mark(cell: &CellComparison) -> Vec<Column<'_>> {
    let column = |(heading, own, native): (&str, &'static str, &'static str)| -> Column<'_> {
        let text = move |run: &RunValues| {
            let parameter = cell.key.parameters.get(native);
            match run.metrics.get(own).or_else(|| run.metrics.get(native)) {
                Some(value) if own.ends_with("_per_s") => Some(format!("{value:.1}")),
                Some(value) => Some(format!("{value:.0}")),
                None => parameter.cloned(),
            }
        };
        (heading.to_string(), Box::new(text))
    };
    FS_MARK.into_iter().map(column).collect()
}

/// The primary metric and a few others that some run has.
fn general<'a>(comparison: &'a Comparison, cell: &'a CellComparison) -> Vec<Column<'a>> {
    let runs = || cell.passes.iter().flatten();
    let known = |name: &&str| runs().any(|run| run.metrics.contains_key(name));
    let first = primary(cell).map_or(&comparison.primary, |metric| &metric.metric);
    let others = OTHERS.into_iter().filter(|name| name != first).filter(known);
    let primary: Column = (
        first.clone(),
        Box::new(move |run: &RunValues| run.metrics.get(first).map(|v| rounded(v, 5))),
    );
    let other = |name: &'static str| -> Column<'a> {
        let heading =
            name.strip_prefix("time.").unwrap_or(name).replace("voluntary_context_", "vol.\n");
        (heading, Box::new(move |run| run.metrics.get(name).map(|value| rounded(value, 5))))
    };
    [primary].into_iter().chain(others.take(OTHERS_SHOWN).map(other)).collect()
}

/// "mean 287 900 +- 12 600 (4.4 %), n = 4".
fn summary(comparison: &Comparison, cell: &CellComparison, variant: usize, style: Style) -> String {
    let metric = primary(cell);
    let Some(spread) = metric.and_then(|metric| metric.sides.get(variant)?.as_ref()) else {
        return format!("no {}\n", comparison.primary);
    };
    let values = aligned(&[value(Some(spread))], style).concat();
    let relative = spread.stddev.map(|stddev| stddev / spread.mean.abs());
    let relative = relative.filter(|share| share.is_finite());
    let relative = relative.map(|share| format!(" (stddev {})", percent(share)));
    let relative = relative.unwrap_or_default();
    let name = metric.map_or(comparison.primary.as_str(), |metric| metric.metric.as_str());
    format!("{name} mean {}{relative}, n = {}\n", values.trim_end(), spread.n)
}

/// The verdicts, a line a variant.
fn judged(comparison: &Comparison, cell: &CellComparison, style: Style) -> String {
    let Some(metric) = primary(cell) else {
        return String::new();
    };
    let variants = &comparison.variants;
    let line = |(variant, contrast): (&ComparedVariant, &Contrast)| {
        let said = verdict(metric, contrast, comparison.smallest_effect);
        let change = whole_change(contrast, &metric.unit);
        let (a, b) = (&variants[0].name, &variant.name);
        let text = format!("{b} against {a}: {said}: {change}, n={}", contrast.n);
        wrapped(&text, style.width, 2)
    };
    let lines: String = variants[1..].iter().zip(&metric.contrasts).map(line).collect();
    format!("\n{lines}")
}
