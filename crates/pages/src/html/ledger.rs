//! A ledger as nested bars: each row can be folded, and its bar shows its share of the whole. All bars begin at
//! one place, and each value stands in its column.

use explanations::ledger::{LedgerNode, LedgerTree};

use crate::html::Markup;
use crate::html::chart::COLOURS;
use crate::html::table::how_to_read;
use crate::reading;

/// Rows below this depth are folded until the reader asks.
const OPEN_DEPTH: usize = 2;
/// Deeper rows are indented no further.
const DEPTH_MAX: usize = 9;
/// With more columns, bars are thin.
const THICK_MAX: usize = 3;

/// The whole tree.
pub fn ledger(markup: &mut Markup, tree: &LedgerTree, id: &str) {
    let most = tree.root.ns.iter().copied().fold(0.0, f64::max);
    markup.element("figure", &[("class", "ledger"), ("data-ledger", id)], |markup| {
        markup.element("figcaption", &[], |markup| {
            markup.text(&tree.heading);
            if tree.columns.len() > 1 {
                markup.element("ul", &[("class", "sides")], |markup| {
                    for (index, column) in tree.columns.iter().enumerate() {
                        markup.leaf("li", &[("class", &format!("s{}", index % COLOURS))], column);
                    }
                });
            }
        });
        let label = format!("Ledger: {}", tree.heading);
        let region =
            [("class", "rows"), ("role", "group"), ("tabindex", "0"), ("aria-label", &*label)];
        markup.element("div", &region, |markup| {
            head(markup, tree);
            node(markup, tree, &tree.root, most, 0);
        });
        how_to_read(markup, reading::LEDGER);
    });
}

fn head(markup: &mut Markup, tree: &LedgerTree) {
    markup.element("div", &[("class", "line head")], |markup| {
        markup.leaf("span", &[("class", "name d0")], "");
        markup.leaf("span", &[("class", "bars")], "");
        for (index, column) in tree.columns.iter().enumerate() {
            let number = index.to_string();
            markup.leaf("span", &[("class", "value"), ("data-column", &number)], column);
        }
        for detail in &tree.details {
            markup.leaf("span", &[("class", "detail")], detail);
        }
    });
}

fn node(markup: &mut Markup, tree: &LedgerTree, row: &LedgerNode, most: f64, depth: usize) {
    if row.rows.is_empty() {
        return markup
            .element("div", &[("class", "line")], |markup| line(markup, tree, row, most, depth));
    }
    let open = [("class", "row"), ("open", "")];
    let attributes = if depth < OPEN_DEPTH && !row.is_folded { &open[..] } else { &open[..1] };
    markup.element("details", attributes, |markup| {
        markup.element("summary", &[("class", "line")], |markup| {
            line(markup, tree, row, most, depth);
        });
        for part in &row.rows {
            node(markup, tree, part, most, depth + 1);
        }
    });
}

/// Name, bars, values, and what else is known of the row.
fn line(markup: &mut Markup, tree: &LedgerTree, row: &LedgerNode, most: f64, depth: usize) {
    markup.leaf("span", &[("class", &format!("name d{}", depth.min(DEPTH_MAX)))], &row.name);
    bars(markup, &row.ns, most);
    for (index, value) in row.values.iter().enumerate() {
        let number = index.to_string();
        markup.leaf("span", &[("class", "value"), ("data-column", &number)], value);
    }
    for index in 0..tree.details.len() {
        let detail = row.details.get(index).map_or("", String::as_str);
        markup.leaf("span", &[("class", "detail")], detail);
    }
}

fn bars(markup: &mut Markup, values_ns: &[f64], most: f64) {
    let step = if values_ns.len() > THICK_MAX { 4 } else { 8 };
    let (height, thick) = ((step * values_ns.len()).to_string(), (step - 2).to_string());
    let attributes = [
        ("class", "bars"),
        ("width", "100%"),
        ("height", height.as_str()),
        ("aria-hidden", "true"),
    ];
    markup.element("svg", &attributes, |markup| {
        for (index, ns) in values_ns.iter().enumerate() {
            let share = if most > 0.0 { (100.0 * ns / most).clamp(0.0, 100.0) } else { 0.0 };
            let (class, y) = (format!("s{}", index % COLOURS), (step * index + 1).to_string());
            let (width, number) = (format!("{share:.2}%"), index.to_string());
            let bar = [("class", class.as_str()), ("data-column", &number), ("y", &y)];
            let size = [("width", width.as_str()), ("height", &thick)];
            markup.empty("rect", &[&bar[..], &size].concat());
        }
    });
}
