//! A ledger as nested bars: each row can be folded, and its bar shows its share of the whole.

use reports::{LedgerNode, LedgerTree};

use crate::html::Markup;
use crate::html::table::how_to_read;
use crate::reading;

/// Rows below this depth are folded until the reader asks.
const OPEN_DEPTH: usize = 2;

/// The whole tree.
pub fn ledger(markup: &mut Markup, tree: &LedgerTree) {
    let most = tree.root.ns.iter().copied().fold(0.0, f64::max);
    markup.element("figure", &[("class", "ledger")], |markup| {
        markup.element("figcaption", &[], |markup| {
            markup.text(&tree.heading);
            if tree.columns.len() > 1 {
                markup.element("ul", &[("class", "sides")], |markup| {
                    for (index, column) in tree.columns.iter().enumerate() {
                        let class = format!("s{}", index % COLOURS);
                        markup.leaf("li", &[("class", &class)], column);
                    }
                });
            }
        });
        node(markup, tree, &tree.root, most, 0);
    });
    how_to_read(markup, reading::LEDGER);
}

/// How many colours sides have.
const COLOURS: usize = 7;

fn node(markup: &mut Markup, tree: &LedgerTree, row: &LedgerNode, most: f64, depth: usize) {
    if row.rows.is_empty() {
        return markup.element("div", &[("class", "row")], |markup| line(markup, tree, row, most));
    }
    let open = [("class", "row"), ("open", "")];
    let attributes = if depth < OPEN_DEPTH { &open[..] } else { &open[..1] };
    markup.element("details", attributes, |markup| {
        markup.element("summary", &[], |markup| line(markup, tree, row, most));
        for part in &row.rows {
            node(markup, tree, part, most, depth + 1);
        }
    });
}

/// Name, bars, values, and what else is known of the row.
fn line(markup: &mut Markup, tree: &LedgerTree, row: &LedgerNode, most: f64) {
    markup.leaf("span", &[("class", "name")], &row.name);
    let height = (8 * row.ns.len()).to_string();
    let attributes = [
        ("class", "bars"),
        ("width", "100%"),
        ("height", height.as_str()),
        ("aria-hidden", "true"),
    ];
    markup.element("svg", &attributes, |markup| {
        for (index, ns) in row.ns.iter().enumerate() {
            let share = if most > 0.0 { (100.0 * ns / most).clamp(0.0, 100.0) } else { 0.0 };
            let (class, y) = (format!("s{}", index % COLOURS), (8 * index + 1).to_string());
            let width = format!("{share:.2}%");
            let bar = [("class", class.as_str()), ("y", &y), ("width", &width), ("height", "6")];
            markup.empty("rect", &bar);
        }
    });
    markup.leaf("span", &[("class", "values")], &row.values.join(" → "));
    let details = tree.details.iter().zip(&row.details).filter(|(_, detail)| !detail.is_empty());
    let details: Vec<String> = details.map(|(name, detail)| format!("{name} {detail}")).collect();
    markup.leaf("span", &[("class", "detail")], &details.join(", "));
}
