//! The verdicts as GitHub tables, and the sentences as lists: for issues, pull requests
//! and pages.

use analysis::Comparison;
use text::Style;
use text::markdown::{code, escaped};

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
        text += &format!("\n### {}\n\n", escaped(&heading(&load[0].1.key)));
        if let Some(metric) = load.iter().find_map(|(_, cell)| primary(cell)) {
            text +=
                &format!("{}, mean ± standard deviation of runs\n\n", escaped(&described(metric)));
        }
        if load.iter().all(|(_, cell)| primary(cell).is_none()) {
            text += &format!("{}\n\n", escaped(&without_values(comparison, &load)));
        }
        text += &table(comparison, &rows(comparison, &load), Deviations::Both, STYLE).markdown();
        text += &list(&of_cells(comparison, &places, &indexes(&load)));
        if let Some(also) = also_changed(comparison, &indexes(&load)) {
            text += &format!("\n{}\n\n{}", escaped(&also.title), also.table.markdown());
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
        "" => format!("  - {}\n", escaped(&value)),
        "variants" => format!("- variants\n  - {}\n", escaped(&value)),
        "rerun" => format!("- rerun: {}\n", code(&value)),
        _ => format!("- {label}: {}\n", escaped(&value)),
    };
    lines(comparison, again).into_iter().map(line).collect()
}

/// Sentences, one an item, after an empty line.
fn list(sentences: &[String]) -> String {
    let items: String =
        sentences.iter().map(|sentence| format!("- {}\n", escaped(sentence))).collect();
    if items.is_empty() { items } else { format!("\n{items}") }
}
