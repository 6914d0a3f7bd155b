//! The ledger of one load over CPU counts: which row grows, and how fast.

use analysis::ledger::{Explained, Ledger, Row};
use records::Opened;

use super::numbers::Unit;
use super::{shortened, title};
use crate::reports::Style;
use crate::reports::table::{Align, Table};

/// Rows below this share everywhere are left to their parents.
const SHOWN_SHARE: f64 = 0.02;

/// The points of one load by their CPU counts, fewest first.
pub fn text(opened: &Opened, points: &[&Explained], style: Style) -> String {
    let cpus = |explained: &&Explained| opened.record.points[explained.point].cpus;
    let mut points: Vec<(u32, &Ledger)> = points
        .iter()
        .filter_map(|explained| Some((cpus(explained), explained.ledger.as_ref()?)))
        .collect();
    points.sort_by_key(|(cpus, _)| *cpus);
    let Some((_, last)) = points.last() else {
        return "no look saw where the time goes\n".to_string();
    };
    let title = points_title(opened, points.len());
    let unit = Unit::of(last.ns_per_operation(&last.root).mean);
    let mut columns = vec![(format!("time per operation, {}", unit.name), Align::Left)];
    columns.extend(points.iter().map(|(cpus, _)| (format!("{cpus} CPUs"), Align::Right)));
    columns.push(("grows as\nCPUs to the".to_string(), Align::Right));
    let mut table = Table::new(columns);
    let mut path = Vec::new();
    add(&mut table, &points, &mut path, &unit);
    let (text, _) = table.within(style.width.max(100));
    style.bold(&title) + "\n" + &text
}

fn points_title(opened: &Opened, points: usize) -> String {
    let title = opened.record.points.last().map(title).unwrap_or_default();
    let load = title.split(',').next().unwrap_or_default();
    format!("{load} over {points} CPU counts")
}

fn add(table: &mut Table, points: &[(u32, &Ledger)], path: &mut Vec<String>, unit: &Unit) {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let rows: Vec<Option<&Row>> = points.iter().map(|(_, ledger)| ledger.find(&names)).collect();
    let value = |(row, (_, ledger)): (&Option<&Row>, &(u32, &Ledger))| {
        row.map_or(0.0, |row| ledger.ns_per_operation(row).mean)
    };
    let values: Vec<f64> = rows.iter().zip(points).map(value).collect();
    let total = |ledger: &Ledger| ledger.ns_per_operation(&ledger.root).mean;
    let is_large =
        |(value, (_, ledger)): (&f64, &(u32, &Ledger))| *value >= SHOWN_SHARE * total(ledger);
    if !path.is_empty() && !values.iter().zip(points).any(is_large) {
        return;
    }
    let name = path.last().map_or("all: CPUs x time", String::as_str);
    let mut cells = vec![shortened(&format!("{}{name}", "  ".repeat(path.len())))];
    cells.extend(values.iter().map(|value| unit.text(*value)));
    let growth = exponent(points, &values);
    cells.push(growth.map_or_else(String::new, |power| format!("{power:+.2}")));
    table.row(cells);
    let mut children: Vec<String> = Vec::new();
    // The order of the largest count, then what only smaller ones have.
    for row in rows.iter().rev().flatten().flat_map(|row| &row.rows) {
        if !children.contains(&row.name) {
            children.push(row.name.clone());
        }
    }
    for child in children {
        path.push(child);
        add(table, points, path, unit);
        path.pop();
    }
}

/// The power of the CPU count that a row follows between the first and the last count.
fn exponent(points: &[(u32, &Ledger)], values: &[f64]) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let (was, is) = (*values.first()?, *values.last()?);
    (was > 0.0 && is > 0.0 && last.0 > first.0)
        .then(|| (is / was).ln() / (f64::from(last.0) / f64::from(first.0)).ln())
}
