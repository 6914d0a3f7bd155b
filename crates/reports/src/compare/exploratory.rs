//! Metrics beside the primary one that changed too: a short list, those first that chance
//! explains least. Nobody decided beforehand to look at them, so they are hints.

use analysis::{Comparison, Contrast, MetricComparison};
use text::table::{Align, Table};

use crate::compare::change::{change, interval, percent, probability};
use crate::compare::head::names;
use crate::compare::places::size;

/// More than these are counted and not listed.
const LISTED: usize = 10;

/// False discoveries among what is listed, and the threshold of the adjusted p.
const RATE: f64 = 0.05;

/// What changed beside the primary metric.
pub struct AlsoChanged {
    /// What the table lists.
    pub title: String,
    /// A row for each cell, variant and metric that changed.
    pub table: Table,
}

/// What says once more, where rates decide, that the rate changed.
const RATE_RESTATED: [&str; 4] =
    ["operations", "steady_operations_per_s", "task_operations_max", "task_operations_min"];

fn restates(comparison: &Comparison, metric: &MetricComparison) -> bool {
    let name = metric.metric.as_str();
    // Effects are counted for each operation.
    comparison.primary == "operations_per_s"
        && (RATE_RESTATED.contains(&name) || name.starts_with("effect."))
}

/// Cell, variant, metric and contrast.
type TestedContrast<'a> = (usize, usize, &'a MetricComparison, &'a Contrast);

/// The other metrics that changed in these cells of one load; nothing if none did.
pub fn also_changed(comparison: &Comparison, cells: &[usize]) -> Option<AlsoChanged> {
    let tested: Vec<TestedContrast> =
        others(comparison, cells).filter(|found| found.3.p.is_some()).collect();
    let p = |found: &TestedContrast| found.3.p.unwrap_or(1.0);
    let changed = tested.iter().filter(|found| p(found) < RATE);
    let mut found: Vec<TestedContrast> =
        changed.filter(|found| !restates(comparison, found.2)).copied().collect();
    found.sort_by(|a, b| p(a).total_cmp(&p(b)));
    let shown = &found[..found.len().min(LISTED)];
    let more = match found.len() - shown.len() {
        0 => String::new(),
        more => format!("; {more} with larger p not listed"),
    };
    let title = format!(
        "also changed (exploratory, Benjamini-Hochberg q = {RATE}): {} of {} tested{more}",
        found.len(),
        tested.len()
    );
    (!found.is_empty())
        .then(|| AlsoChanged { title, table: table(comparison, shown, cells.len() > 1) })
}

/// All contrasts of metrics that do not decide in these cells.
fn others<'a>(
    comparison: &'a Comparison,
    cells: &'a [usize],
) -> impl Iterator<Item = TestedContrast<'a>> {
    let cells = cells.iter().map(|i| (*i, &comparison.cells[*i]));
    // The first one decides.
    let others = cells.flat_map(|(i, cell)| cell.metrics.iter().skip(1).map(move |m| (i, m)));
    others.flat_map(|(i, metric)| {
        let contrasts = metric.contrasts.iter().enumerate();
        contrasts.map(move |(variant, contrast)| (i, variant + 1, metric, contrast))
    })
}

fn table(comparison: &Comparison, found: &[TestedContrast], several_cells: bool) -> Table {
    let several = several_cells || comparison.variants.len() > 2;
    let columns = [
        ("change".to_string(), Align::Right),
        (format!("{} interval", percent(comparison.confidence)), Align::Left),
        ("n".to_string(), Align::Right),
        ("adj. p".to_string(), Align::Right),
        ("metric".to_string(), Align::Left),
        (if several { "where" } else { "" }.to_string(), Align::Left),
    ];
    let mut table = Table::new(columns);
    for found in found {
        let (_, _, metric, contrast) = found;
        table.row(vec![
            change(contrast, &metric.unit),
            interval(contrast),
            contrast.n.to_string(),
            contrast.p.map(probability).unwrap_or_default(),
            metric.metric.clone(),
            place(comparison, found, several_cells),
        ]);
    }
    table
}

/// The variant and the CPUs of a row, if there are several.
fn place(
    comparison: &Comparison,
    (cell, variant, ..): &TestedContrast,
    several_cells: bool,
) -> String {
    let name = (comparison.variants.len() > 2).then(|| names(comparison)[*variant].clone());
    let size = several_cells.then(|| size(&comparison.cells[*cell].key).join(", "));
    [name, size].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
