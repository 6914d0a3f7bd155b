//! A table with its caption, marks of its verdicts, and how to read it.

use text::table::Align;

use crate::html::Markup;
use crate::html::interval::{interval, reach};
use crate::page::{PLACES, PageTable, RowMark, Wide};

/// The table of a section with this title; one that is not open is folded.
pub fn table(markup: &mut Markup, title: &str, block: &PageTable) {
    let label = if block.caption.is_empty() { title } else { &block.caption };
    if let Wide::ByTask(steps) = &block.wide {
        let columns = PageTable::plain(&block.caption, steps.wide(), block.reading);
        return content(markup, label, &columns);
    }
    if block.is_open {
        return content(markup, label, block);
    }
    markup.element("details", &[("class", "folded")], |markup| {
        markup.leaf("summary", &[], label);
        content(markup, label, block);
    });
}

fn content(markup: &mut Markup, label: &str, block: &PageTable) {
    let region = [("class", "scroll"), ("role", "group"), ("tabindex", "0")];
    let labelled = [&region[..], &[("aria-label", label)]].concat();
    let reach = reach(&block.marks);
    markup.element("div", &labelled, |markup| {
        markup.element("table", &[], |markup| {
            if !block.caption.is_empty() {
                markup.element("caption", &[], |markup| {
                    // Of a table that is wider than a phone, the caption is not.
                    markup.element("span", &[], |markup| markup.sentence(&block.caption));
                });
            }
            markup.element("thead", &[], |markup| head(markup, block, reach.is_some()));
            markup.element("tbody", &[], |markup| {
                for (index, cells) in block.table.rows().iter().enumerate() {
                    row(markup, block, cells, block.marks.get(index), reach);
                }
            });
        });
    });
    how_to_read(markup, block.reading);
}

/// A cell with more letters is a sentence, which may be broken into lines.
const PROSE_MIN: usize = 60;

/// Columns in the order of a page: where, the verdict, its drawing, then the numbers. On a phone only the first
/// ones are in sight.
fn order(block: &PageTable) -> (Vec<usize>, Vec<usize>) {
    let columns = block.table.columns();
    if block.marks.is_empty() {
        return ((0..columns.len()).collect(), Vec::new());
    }
    let places = columns.iter().take_while(|(name, _)| PLACES.contains(&name.as_str())).count();
    let (verdicts, others): (Vec<usize>, Vec<usize>) =
        (places..columns.len()).partition(|index| columns[*index].0 == "verdict");
    ((0..places).chain(verdicts).collect(), others)
}

fn head(markup: &mut Markup, block: &PageTable, has_drawing: bool) {
    let (first, others) = order(block);
    let column = |markup: &mut Markup, index: usize| {
        let (heading, align) = &block.table.columns()[index];
        // A word that was broken for a terminal is whole again.
        let heading = heading.replace("-\n", "").replace('\n', " ");
        // A heading may be empty, which readers of screens would announce as nothing.
        let name = if heading.trim().is_empty() { "note" } else { heading.trim() };
        markup.leaf("th", &[("scope", "col"), ("class", class(*align))], name);
    };
    markup.element("tr", &[], |markup| {
        first.iter().for_each(|index| column(markup, *index));
        if has_drawing {
            markup.leaf("th", &[("scope", "col"), ("class", "left")], "drawn");
        }
        others.iter().for_each(|index| column(markup, *index));
    });
}

fn row(
    markup: &mut Markup,
    block: &PageTable,
    cells: &[String],
    mark: Option<&RowMark>,
    reach: Option<f64>,
) {
    let cell_number = mark.map(|mark| mark.cell.to_string()).unwrap_or_default();
    let attributes = mark.map(|mark| {
        [
            ("class", mark.tone.name()),
            ("data-cell", cell_number.as_str()),
            ("data-variant", mark.variant.as_str()),
            ("data-verdict", mark.verdict.as_str()),
        ]
    });
    let attributes = attributes.as_ref().map_or(&[][..], |attributes| &attributes[..]);
    let (first, others) = order(block);
    let column = |markup: &mut Markup, index: usize| {
        let (heading, align) = &block.table.columns()[index];
        let is_verdict = mark.is_some() && heading == "verdict";
        let class = match align {
            _ if is_verdict => "left said",
            Align::Left if cells[index].chars().count() > PROSE_MIN => "left prose",
            align => class(*align),
        };
        markup.leaf("td", &[("class", class)], cells[index].trim_end());
    };
    markup.element("tr", attributes, |markup| {
        first.iter().for_each(|index| column(markup, *index));
        if let Some(reach) = reach {
            let draw = |markup: &mut Markup| {
                if let Some(mark) = mark {
                    interval(markup, mark, reach);
                }
            };
            markup.element("td", &[("class", "left drawn")], draw);
        }
        others.iter().for_each(|index| column(markup, *index));
    });
}

/// Sentences for those who see such a table for the first time; later tables refer to them.
pub fn how_to_read(markup: &mut Markup, sentences: &'static [&'static str]) {
    let Some(begin) = sentences.first() else { return };
    let (number, is_first) = markup.explanation(begin);
    let id = format!("reading-{}", number + 1);
    if !is_first {
        return markup.element("p", &[("class", "reading")], |markup| {
            markup.leaf("a", &[("href", &format!("#{id}"))], "How to read this");
        });
    }
    markup.element("details", &[("class", "reading")], |markup| {
        markup.leaf("summary", &[], "How to read this");
        // A browser opens what a link leads into.
        markup.element("ul", &[("id", &id)], |markup| {
            for sentence in sentences {
                markup.leaf("li", &[], sentence);
            }
        });
    });
}

fn class(align: Align) -> &'static str {
    match align {
        Align::Left => "left",
        Align::Right => "right",
    }
}
