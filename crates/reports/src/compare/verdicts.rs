//! The verdicts: for each load a table with a row for each CPU count and variant, and
//! below it what else there is to say. The layout that is printed unless another is asked for.

use analysis::{CellComparison, Comparison, Contrast, Design, MetricComparison, Verdict};
use text::Style;
use text::prose::wrapped;
use text::quantity::short;
use text::table::{Align, Table};

use crate::compare::WIDTH_LEAST;
use crate::compare::change::{
    aligned, change, interval, percent, primary, value, verdict, without_values,
};
use crate::compare::exploratory::also_changed;
use crate::compare::head::{head, names};
use crate::compare::notes::{below, indexes, of_cells};
use crate::compare::places::{Places, heading, loads};

/// The whole report.
pub fn verdicts(comparison: &Comparison, again: &str, style: Style) -> String {
    let mut text = head(comparison, again, style);
    let places = Places::new(comparison);
    for load in loads(comparison) {
        let title = wrapped(&heading(&load[0].1.key), style.width, 2);
        text += &format!("\n{}\n", style.bold(title.trim_end()));
        text += &tables(comparison, &load, style);
        for line in of_cells(comparison, &places, &indexes(&load)) {
            text += &wrapped(&line, style.width, 2);
        }
        if let Some(also) = also_changed(comparison, &indexes(&load)) {
            let (table, _) = also.table.within(style.width);
            text += &format!("{}{table}", wrapped(&also.title, style.width, 2));
        }
    }
    text + &below(comparison, style)
}

/// One row: a cell and a variant of it.
pub struct VerdictRow<'a> {
    cell: &'a CellComparison,
    /// The metric that decides, which may have no values.
    metric: Option<&'a MetricComparison>,
    variant: usize,
}

impl VerdictRow<'_> {
    fn contrast(&self) -> Option<&Contrast> {
        self.metric.and_then(|metric| metric.contrasts.get(self.variant - 1))
    }
}

/// All rows of a load, cell by cell.
pub fn rows<'a>(
    comparison: &Comparison,
    load: &[(usize, &'a CellComparison)],
) -> Vec<VerdictRow<'a>> {
    let variants = 1..comparison.variants.len();
    let row = |cell, variant| VerdictRow { cell, metric: cell.metrics.first(), variant };
    load.iter()
        .flat_map(|(_, cell)| variants.clone().map(move |variant| row(cell, variant)))
        .collect()
}

/// What a table shows of the values.
#[derive(Clone, Copy)]
pub enum Deviations {
    /// Deviations of both sides.
    Both,
    /// Deviations of the baseline only.
    Baseline,
    /// No deviations.
    No,
    /// No deviations, and values in three digits: the narrowest table.
    Short,
}

const DEVIATIONS: [Deviations; 4] =
    [Deviations::Both, Deviations::Baseline, Deviations::No, Deviations::Short];

/// The first form that fits: all variants in one table before a table for each.
fn tables(comparison: &Comparison, load: &[(usize, &CellComparison)], style: Style) -> String {
    let rows = rows(comparison, load);
    let fits = |text: &String| text.lines().all(|line| line.chars().count() <= style.width);
    let one = |deviations| table(comparison, &rows, deviations, style).text();
    let each = |deviations| each_variant(comparison, load, deviations, style);
    let forms = DEVIATIONS[..3].iter().map(|d| (one(*d), *d));
    let forms = forms.chain(DEVIATIONS.iter().map(|d| (each(*d), *d)));
    let found = forms.into_iter().find(|(text, _)| fits(text));
    let (text, deviations) = found.unwrap_or_else(|| (each(Deviations::Short), Deviations::Short));
    if load.iter().all(|(_, cell)| primary(cell).is_none()) {
        return wrapped(&without_values(comparison, load), style.width, 2) + &text;
    }
    about(&rows, deviations, style) + &text + &left_out(deviations, style)
}

/// The rows of a load in at most 72 columns, for a mail.
pub fn narrow(comparison: &Comparison, load: &[(usize, &CellComparison)]) -> String {
    tables(comparison, load, Style { width: WIDTH_LEAST, ..Style::PLAIN })
}

/// "operations_per_s (1/s, higher is better), mean +- standard deviation of single runs".
fn about(rows: &[VerdictRow], deviations: Deviations, style: Style) -> String {
    let metric = rows.iter().find_map(|row| row.metric).expect("some row has the metric");
    let deviation = match deviations {
        Deviations::Both | Deviations::Baseline => {
            format!(" {} standard deviation of runs", style.plus_minus())
        }
        Deviations::No | Deviations::Short => String::new(),
    };
    wrapped(&format!("{}, mean{deviation}", described(metric)), style.width, 2)
}

/// "operations_per_s (1/s, higher is better)".
pub fn described(metric: &MetricComparison) -> String {
    let unit = Some(metric.unit.clone()).filter(|unit| unit != "1" && !unit.is_empty());
    let better = match metric.better {
        records::Better::Neither => None,
        better => Some(format!("{} is better", better.name())),
    };
    let parts: Vec<String> = [unit, better].into_iter().flatten().collect();
    if parts.is_empty() {
        metric.metric.clone()
    } else {
        format!("{} ({})", metric.metric, parts.join(", "))
    }
}

fn left_out(deviations: Deviations, style: Style) -> String {
    let text = match deviations {
        Deviations::Both => return String::new(),
        Deviations::Baseline => "(no room for the other standard deviations; ",
        Deviations::No => "(no room for standard deviations; ",
        Deviations::Short => "(no room for standard deviations and all digits; ",
    };
    wrapped(&format!("{text}layout mean-stddev shows them)"), style.width, 1)
}

fn each_variant(
    comparison: &Comparison,
    load: &[(usize, &CellComparison)],
    deviations: Deviations,
    style: Style,
) -> String {
    let several = comparison.variants.len() > 2;
    let one = |variant: usize| {
        let rows: Vec<VerdictRow> =
            rows(comparison, load).into_iter().filter(|row| row.variant == variant).collect();
        table(comparison, &rows, deviations, style).text()
    };
    let tables: Vec<String> = (1..comparison.variants.len()).map(one).collect();
    tables.join(if several { "\n" } else { "" })
}

/// A column with its cells.
type Column = (String, Align, Vec<String>);

/// The place first and the verdict last.
pub fn table(
    comparison: &Comparison,
    rows: &[VerdictRow],
    deviations: Deviations,
    style: Style,
) -> Table {
    let names = names(comparison);
    let one_variant = rows.first().filter(|one| rows.iter().all(|r| r.variant == one.variant));
    let (baseline, variant) = sides(rows, deviations, style);
    let mut columns = place_columns(rows);
    if one_variant.is_none() {
        let name = rows.iter().map(|row| names[row.variant].clone()).collect();
        columns.push(("variant".to_string(), Align::Left, name));
    }
    let own = one_variant.map_or("value".to_string(), |row| names[row.variant].clone());
    let heading = |name: String| match deviations {
        Deviations::No | Deviations::Short => broken(&name),
        _ => name,
    };
    columns.push((heading(names[0].clone()), Align::Right, baseline));
    columns.push((heading(own), Align::Right, variant));
    columns.extend(judged(comparison, rows, deviations));
    let headings = columns.iter().map(|(heading, align, _)| (heading.as_str(), *align));
    let mut table = Table::new(headings);
    for row in 0..rows.len() {
        table.row(columns.iter().map(|(_, _, cells)| cells[row].clone()).collect());
    }
    table
}

/// A name in lines, so that it is no wider than the numbers below it.
fn broken(name: &str) -> String {
    const LINE: usize = 9;
    let mut lines = vec![String::new()];
    for part in name.split_inclusive(['-', '_', '.', ' ', '/']) {
        let last = lines.last_mut().expect("there is a line from the start");
        if last.is_empty() || last.chars().count() + part.chars().count() <= LINE {
            last.push_str(part);
        } else {
            lines.push(part.to_string());
        }
    }
    lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join("\n")
}

fn place_columns(rows: &[VerdictRow]) -> Vec<Column> {
    let number = |n: u32| if n == 0 { "-".to_string() } else { n.to_string() };
    let mut columns = Vec::new();
    if rows.iter().any(|row| row.cell.key.cpus > 0) {
        let cpus = rows.iter().map(|row| number(row.cell.key.cpus)).collect();
        columns.push(("CPUs".to_string(), Align::Right, cpus));
    }
    let places = || rows.iter().map(|row| &row.cell.key);
    if places().any(|place| place.tasks != place.cpus && place.tasks > 0) {
        let tasks = places().map(|place| number(place.tasks)).collect();
        columns.push(("tasks".to_string(), Align::Right, tasks));
    }
    columns
}

/// The values of the baseline and of the variants.
fn sides(rows: &[VerdictRow], deviations: Deviations, style: Style) -> (Vec<String>, Vec<String>) {
    let side = |which: fn(&VerdictRow) -> usize, with_deviation: bool| {
        let one = |row: &VerdictRow| {
            let spread = row.metric.and_then(|m| m.sides.get(which(row))?.as_ref());
            match (deviations, spread) {
                (Deviations::Short, Some(spread)) => (short(spread.mean), String::new()),
                _ => value(spread),
            }
        };
        let values: Vec<(String, String)> = rows.iter().map(one).collect();
        if with_deviation {
            aligned(&values, style)
        } else {
            values.into_iter().map(|(mean, _)| mean).collect()
        }
    };
    let both = matches!(deviations, Deviations::Both);
    let baseline = side(|_| 0, both || matches!(deviations, Deviations::Baseline));
    (baseline, side(|row| row.variant, both))
}

/// Change, interval, n and verdict.
fn judged(comparison: &Comparison, rows: &[VerdictRow], deviations: Deviations) -> Vec<Column> {
    let cells = |text: &dyn Fn(&MetricComparison, &Contrast) -> String| {
        let one = |row: &VerdictRow| match (row.metric, row.contrast()) {
            (Some(metric), Some(contrast)) => text(metric, contrast),
            _ => "-".to_string(),
        };
        rows.iter().map(one).collect::<Vec<String>>()
    };
    let confidence = percent(comparison.confidence);
    let interval_heading = match comparison.design {
        Design::Separate => format!("{confidence} interval\nof sampling"),
        _ => format!("{confidence} interval"),
    };
    let said = |metric: &MetricComparison, contrast: &Contrast| {
        let said = verdict(metric, contrast, comparison.smallest_effect);
        match deviations {
            Deviations::Short if contrast.verdict == Verdict::NotInterleaved => {
                "no verdict".to_string()
            }
            Deviations::Short => said.replace(", >= ", " >=").replace(" %", "%"),
            _ => said,
        }
    };
    let drift = cells(&|_, contrast| match contrast.drift {
        Some(drift) => format!("{} of {}", drift.as_far, drift.pairs),
        None => "-".to_string(),
    });
    let mut columns = vec![
        ("change".to_string(), Align::Right, cells(&|m, c| change(c, &m.unit))),
        (interval_heading, Align::Left, cells(&|_, c| interval(c))),
        ("n".to_string(), Align::Right, cells(&|_, c| c.n.to_string())),
    ];
    // The sentence below the table has the sum of these.
    let has_room = matches!(deviations, Deviations::Both | Deviations::Baseline);
    if has_room && drift.iter().any(|cell| cell != "-") {
        columns.push(("drift\nas far".to_string(), Align::Right, drift));
    }
    columns.push(("verdict".to_string(), Align::Left, cells(&said)));
    columns
}
