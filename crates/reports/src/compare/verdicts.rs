//! The verdicts of a load as tables: a row for each CPU count and variant, as wide as all numbers need, and narrower.

use analysis::{CellComparison, Comparison, Contrast, Design, MetricComparison, Verdict};
use text::Style;
use text::quantity::short;
use text::table::{Align, Narrower, Table};

use crate::compare::change::{
    aligned, change, interval, percent, primary, value, verdict, without_values,
};
use crate::compare::head::names;

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

/// Variants of which each may get a table of its own, so that deviations have room.
const OWN_TABLES_MAX: usize = 4;

/// The rows of a load in narrower forms, the first that fits to be taken: those with deviations first, and of these
/// all variants in one table before a table for each.
pub fn narrower(
    comparison: &Comparison,
    load: &[(usize, &CellComparison)],
    style: Style,
) -> Vec<Narrower> {
    let rows = rows(comparison, load);
    let has_values = load.iter().any(|(_, cell)| primary(cell).is_some());
    let form = |deviations: Deviations, tables: Vec<Table>| Narrower {
        caption: if has_values {
            about(&rows, deviations, style)
        } else {
            without_values(comparison, load)
        },
        tables,
        left_out: left_out(deviations),
    };
    let one = |deviations| form(deviations, vec![table(comparison, &rows, deviations, style)]);
    let each = |deviations| form(deviations, each_variant(comparison, load, deviations, style));
    let [baseline, without] = [Deviations::Baseline, Deviations::No].map(one);
    let [both_each, baseline_each, without_each, short_each] = DEVIATIONS.map(each);
    // A table for each of many variants is longer than a reader follows.
    if comparison.variants.len() > OWN_TABLES_MAX {
        return vec![baseline, without, both_each, baseline_each, without_each, short_each];
    }
    vec![baseline, both_each, baseline_each, without, without_each, short_each]
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
    format!("{}, mean{deviation}", described(metric))
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

fn left_out(deviations: Deviations) -> &'static str {
    match deviations {
        Deviations::Both => "",
        Deviations::Baseline => {
            "no room for the other standard deviations; --layout mean-stddev shows them"
        }
        Deviations::No => "no room for standard deviations; --layout mean-stddev shows them",
        Deviations::Short => {
            "no room for standard deviations and all digits; --layout mean-stddev shows them"
        }
    }
}

/// A table for each variant but the baseline.
fn each_variant(
    comparison: &Comparison,
    load: &[(usize, &CellComparison)],
    deviations: Deviations,
    style: Style,
) -> Vec<Table> {
    let one = |variant: usize| {
        let rows: Vec<VerdictRow> =
            rows(comparison, load).into_iter().filter(|row| row.variant == variant).collect();
        table(comparison, &rows, deviations, style)
    };
    (1..comparison.variants.len()).map(one).collect()
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
