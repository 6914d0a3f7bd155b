//! A map of heat: numbers of pairs of names, darker where they are larger.

use crate::html::Markup;
use crate::html::table::how_to_read;
use crate::page::{Matrix, MatrixCell};

/// The least number of each class `heat1`, `heat2`, … of page.css.
const LEVELS: [f64; 5] = [1.0 / 32.0, 0.5, 2.0, 5.0, 10.0];

/// The matrix of a section with this title.
pub fn matrix(markup: &mut Markup, title: &str, block: &Matrix) {
    let region = [("class", "scroll"), ("role", "group"), ("tabindex", "0"), ("aria-label", title)];
    markup.element("div", &region, |markup| {
        markup.element("table", &[("class", "matrix")], |markup| {
            markup.element("thead", &[], |markup| {
                markup.element("tr", &[], |markup| {
                    markup.leaf("th", &[("scope", "col"), ("class", "left")], "operation");
                    for (number, name) in block.names.iter().enumerate() {
                        let attributes = [("scope", "col"), ("title", name.as_str())];
                        markup.leaf("th", &attributes, &(number + 1).to_string());
                    }
                });
            });
            markup.element("tbody", &[], |markup| {
                for (number, (name, cells)) in block.names.iter().zip(&block.cells).enumerate() {
                    markup.element("tr", &[], |markup| {
                        let heading = format!("{} {name}", number + 1);
                        markup.leaf("th", &[("scope", "row"), ("class", "left")], &heading);
                        cells.iter().for_each(|one| cell(markup, one));
                    });
                }
            });
        });
    });
    how_to_read(markup, block.reading);
}

fn cell(markup: &mut Markup, cell: &MatrixCell) {
    let value = cell.value.unwrap_or_default();
    let level = LEVELS.iter().filter(|least| value >= **least).count();
    let class = format!("heat{level}");
    markup.leaf("td", &[("class", &class), ("title", &cell.about)], &cell.text);
}
