//! The verdicts as GitHub tables, and the sentences as lists: for issues, pull requests
//! and pages.

use analysis::Comparison;
use text::Style;

use crate::compare::change::{primary, without_values};
use crate::compare::exploratory::also_changed;
use crate::compare::head::lines;
use crate::compare::notes::{closing, indexes, of_cells};
use crate::compare::places::{Places, heading, loads};
use crate::compare::verdicts::{Deviations, described, rows, table};
use text::WIDTH_MAX;

/// Pages have no width and know all symbols.
const STYLE: Style = Style { width: WIDTH_MAX, terminal: true, color: false };

/// The whole report.
pub fn markdown(comparison: &Comparison, again: &str) -> String {
    let mut text = head(comparison, again);
    let places = Places::new(comparison);
    for load in loads(comparison) {
        text += &format!("\n### {}\n\n", heading(&load[0].1.key));
        if let Some(metric) = load.iter().find_map(|(_, cell)| primary(cell)) {
            text += &format!("{}, mean ± standard deviation of runs\n\n", described(metric));
        }
        if load.iter().all(|(_, cell)| primary(cell).is_none()) {
            text += &format!("{}\n\n", without_values(comparison, &load));
        }
        text += &table(comparison, &rows(comparison, &load), Deviations::Both, STYLE).markdown();
        text += &list(&of_cells(comparison, &places, &indexes(&load)));
        if let Some(also) = also_changed(comparison, &indexes(&load)) {
            text += &format!("\n{}\n\n{}", also.title, also.table.markdown());
        }
    }
    text += &list(&closing(comparison));
    if !comparison.doubts.is_empty() {
        text += &format!("\n**Doubts**\n{}", list(&comparison.doubts));
    }
    text
}

fn head(comparison: &Comparison, again: &str) -> String {
    let line = |(label, value): (&str, String)| match label {
        "" => format!("  - {value}\n"),
        "variants" => format!("- variants\n  - {value}\n"),
        "rerun" => format!("- rerun: `{value}`\n"),
        _ => format!("- {label}: {value}\n"),
    };
    lines(comparison, again).into_iter().map(line).collect()
}

/// Sentences, one an item, after an empty line.
fn list(sentences: &[String]) -> String {
    let items: String = sentences.iter().map(|sentence| format!("- {sentence}\n")).collect();
    if items.is_empty() { items } else { format!("\n{items}") }
}
