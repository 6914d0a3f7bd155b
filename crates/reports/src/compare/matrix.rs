//! Options down, variants across: the smallest table that says what changed where. Long
//! times are minutes and seconds, as a person reads them from a clock.

use analysis::{CellComparison, Comparison, Contrast, MetricComparison, Spread};
use text::Style;
use text::prose::wrapped;
use text::table::{Align, Table};

use crate::compare::change::{percent, primary, ratio, ratio_interval, value, verdict};
use crate::compare::head::{head, names};
use crate::compare::notes::{below, of_cells};
use crate::compare::places::{Places, apart, heading, whole};
use crate::compare::verdicts::described;

/// From this on times are shown in minutes and seconds.
const MINUTE_S: f64 = 60.0;

/// From this on, tenths of a second are noise to the eye.
const TENTHS_BELOW_S: f64 = 600.0;

/// Labels of rows are broken where they are longer.
const LABEL_MAX: usize = 30;

/// The whole report.
pub fn matrix(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut metrics: Vec<Option<&str>> = Vec::new();
    for cell in &comparison.cells {
        let metric = primary(cell).map(|metric| metric.metric.as_str());
        if !metrics.contains(&metric) {
            metrics.push(metric);
        }
    }
    let table_of = |metric: &Option<&str>| {
        let has =
            |cell: &&analysis::CellComparison| primary(cell).map(|m| m.metric.as_str()) == *metric;
        let cells = comparison.cells.iter().filter(has).cloned().collect();
        one_metric(&Comparison { cells, curves: Vec::new(), ..comparison.clone() }, style)
    };
    let tables: String = match metrics.len() {
        0 | 1 => one_metric(comparison, style),
        _ => metrics.iter().map(table_of).collect(),
    };
    let shown = comparison.shown.iter().filter_map(|name| led_by(comparison, name));
    let shown: String = shown.map(|comparison| one_metric(&comparison, style)).collect();
    head(comparison, again, style) + &tables + &shown + &below(comparison, style)
}

/// The comparison with another metric in front, of the cells that have it.
fn led_by(comparison: &Comparison, name: &str) -> Option<Comparison> {
    let cells = comparison.cells.iter().filter_map(|cell| {
        let found = cell.metrics.iter().find(|metric| metric.metric == name)?;
        found.sides.iter().any(Option::is_some).then(|| CellComparison {
            metrics: vec![found.clone()],
            failed: vec![0; cell.failed.len()],
            ..cell.clone()
        })
    });
    let cells: Vec<CellComparison> = cells.collect();
    (!cells.is_empty()).then(|| Comparison { cells, curves: Vec::new(), ..comparison.clone() })
}

/// The table of the cells that one metric decides about.
fn one_metric(comparison: &Comparison, style: Style) -> String {
    let mut text = format!("\n{}\n", style.bold(title(comparison, style).trim_end()));
    let pair = (comparison.variants.len() == 2).then(|| pair(comparison));
    let in_line = pair.filter(|text| text.lines().all(|l| l.chars().count() <= style.width));
    let number = match in_line {
        Some(_) => "mean; ratio = after/before",
        None => "mean, below it the ratio to the baseline with its interval, n, verdict",
    };
    let rows = in_line.unwrap_or_else(|| stacks(comparison, style));
    let metric = comparison.cells.iter().find_map(|cell| primary(cell));
    let about = match metric {
        Some(metric) => format!("{}, {number}", described(metric)),
        None => format!("no run has {}", comparison.primary),
    };
    text += &wrapped(&about, style.width, 2);
    text += &rows;
    let places = Places::new(comparison);
    let all: Vec<usize> = (0..comparison.cells.len()).collect();
    for line in of_cells(comparison, &places, &all) {
        text += &wrapped(&line, style.width, 2);
    }
    text
}

/// What all rows have in common.
fn title(comparison: &Comparison, style: Style) -> String {
    let Some(first) = comparison.cells.first() else {
        return "nothing in common to compare".to_string();
    };
    if comparison.cells.len() == 1 {
        return wrapped(&whole(&first.key), style.width, 2);
    }
    let mut place = first.key.clone();
    let everywhere =
        |of: &dyn Fn(&analysis::CellKey) -> bool| comparison.cells.iter().all(|cell| of(&cell.key));
    if !everywhere(&|p| p.workload == place.workload) {
        return "several loads".to_string();
    }
    let (form, length, dir) = (place.form.clone(), place.length.clone(), place.dir.clone());
    let cut = |same: bool, text: String| if same { text } else { String::new() };
    place.form = cut(everywhere(&|p| p.form == form), form.clone());
    place.length = cut(everywhere(&|p| p.length == length), length.clone());
    place.dir = cut(everywhere(&|p| p.dir == dir), dir.clone());
    place.parameters.retain(|name, value| everywhere(&|p| p.parameters.get(name) == Some(value)));
    let cpus = (place.cpus, place.tasks);
    let text =
        if everywhere(&|p| (p.cpus, p.tasks) == cpus) { whole(&place) } else { heading(&place) };
    wrapped(&text, style.width, 2)
}

/// A row's label in lines that are not too long; "all" where there is only one row.
fn label(comparison: &Comparison, cell: usize) -> Vec<String> {
    let label = apart(comparison, cell);
    let label = if label.is_empty() { "all".to_string() } else { label };
    // Options hang together by commas, which are where they may break.
    let breakable = label.replace(',', ", ").replace(",  ", ", ");
    if label.chars().count() <= LABEL_MAX {
        return vec![label];
    }
    wrapped(&breakable, LABEL_MAX, 2).lines().map(String::from).collect()
}

/// Two variants: one row a cell, all in it.
fn pair(comparison: &Comparison) -> String {
    let names = names(comparison);
    let heading = format!("{} interval", percent(comparison.confidence));
    let mut table = Table::new([
        ("config", Align::Left),
        (&names[0], Align::Right),
        (&names[1], Align::Right),
        ("ratio", Align::Right),
        (&heading, Align::Left),
        ("n", Align::Right),
        ("verdict", Align::Left),
    ]);
    for (i, cell) in comparison.cells.iter().enumerate() {
        let metric = primary(cell);
        let contrast = metric.and_then(|metric| metric.contrasts.first());
        let mut row = vec![side(metric, 0), side(metric, 1)];
        row.extend(match metric.zip(contrast) {
            Some((metric, contrast)) => [
                ratio(contrast, &metric.unit),
                ratio_interval(contrast),
                contrast.n.to_string(),
                verdict(metric, contrast, comparison.smallest_effect),
            ],
            None => ["-"; 4].map(String::from),
        });
        let label = label(comparison, i);
        table.row([vec![label[0].clone()], row].concat());
        for more in &label[1..] {
            table.row([vec![more.clone()], vec![String::new(); 6]].concat());
        }
    }
    table.text()
}

/// More variants, or too wide a row: what is said about each stands below its value.
fn stacks(comparison: &Comparison, style: Style) -> String {
    let variants: Vec<usize> = (1..comparison.variants.len()).collect();
    let fits = |n: &usize| {
        variants.chunks(*n).all(|chunk| {
            let text = stacked(comparison, chunk).text();
            text.lines().all(|line| line.chars().count() <= style.width)
        })
    };
    let n = (1..=variants.len()).rev().find(fits).unwrap_or(1);
    let tables = variants.chunks(n).map(|chunk| stacked(comparison, chunk).text());
    tables.collect::<Vec<_>>().join("\n")
}

fn stacked(comparison: &Comparison, variants: &[usize]) -> Table {
    let names = names(comparison);
    let columns = [("config", Align::Left), (names[0].as_str(), Align::Right)];
    let others = variants.iter().map(|variant| (names[*variant].as_str(), Align::Right));
    let mut table = Table::new(columns.into_iter().chain(others));
    for (i, cell) in comparison.cells.iter().enumerate() {
        let metric = primary(cell);
        let mut columns = vec![label(comparison, i), vec![side(metric, 0)]];
        columns.extend(variants.iter().map(|variant| {
            let contrast = metric.and_then(|metric| metric.contrasts.get(variant - 1));
            let said = metric.zip(contrast).map(|(m, c)| said(comparison, m, c));
            [vec![side(metric, *variant)], said.unwrap_or_default()].concat()
        }));
        let height = columns.iter().map(Vec::len).max().unwrap_or_default();
        for line in 0..height {
            let cell = |column: &Vec<String>| column.get(line).cloned().unwrap_or_default();
            table.row(columns.iter().map(cell).collect());
        }
    }
    table
}

/// Ratio, interval with n, verdict: a line each.
fn said(comparison: &Comparison, metric: &MetricComparison, contrast: &Contrast) -> Vec<String> {
    let ratio = match contrast.interval {
        Some(_) => format!("{} {}", ratio(contrast, &metric.unit), ratio_interval(contrast)),
        None => ratio(contrast, &metric.unit),
    };
    vec![
        ratio,
        format!("n {}, {}", contrast.n, verdict(metric, contrast, comparison.smallest_effect)),
    ]
}

fn side(metric: Option<&MetricComparison>, variant: usize) -> String {
    let spread = metric.and_then(|metric| metric.sides.get(variant)?.as_ref());
    match (metric, spread) {
        (Some(metric), Some(spread)) if metric.unit == "s" && spread.mean >= MINUTE_S => {
            clock(spread)
        }
        _ => value(spread).0,
    }
}

/// `8m08s`; `4m04.3s` below ten minutes, where the uncertainty of a run is below a second.
fn clock(spread: &Spread) -> String {
    let fine = spread.mean < TENTHS_BELOW_S && spread.stddev.is_some_and(|stddev| stddev < 0.95);
    let tenths = if fine { (10.0 * spread.mean).round() } else { 10.0 * spread.mean.round() };
    let (minutes, tenths) = ((tenths / 600.0).floor(), tenths.rem_euclid(600.0));
    if fine {
        format!("{minutes:.0}m{:04.1}s", tenths / 10.0)
    } else {
        format!("{minutes:.0}m{:02.0}s", tenths / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_minutes_and_seconds() {
        let check = |values: &[f64], expected: &str| {
            assert_eq!(clock(&Spread::from_values(values).unwrap()), expected);
        };
        check(&[488.0], "8m08s");
        check(&[599.96, 599.97], "10m00.0s");
        check(&[244.1, 244.5], "4m04.3s");
        check(&[240.0, 250.0], "4m05s");
        check(&[3599.7, 3599.8], "60m00s");
        check(&[59.99, 60.01], "1m00.0s");
    }
}
