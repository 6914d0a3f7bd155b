//! A table as lines of text within a width: a terminal and a mail share it.

use text::Style;
use text::prose::wrapped;
use text::table::{Align, Narrower, Table};

use crate::page::{PLACES, PageTable, Wide};

/// Columns in which a sentence can be read.
const PROSE_MIN: usize = 24;

/// The table with its caption, in lines of at most the style's width where its cells allow that.
pub fn fitted(of: &PageTable, style: Style) -> String {
    let width = style.width;
    let table = spelled(&of.table, style);
    let captioned = |rows: &str| match of.caption.as_str() {
        "" => rows.to_string(),
        caption => wrapped(&style.spelled(caption), width, 2) + rows,
    };
    if let Wide::ByTask(steps) = &of.wide
        && let Some(columns) = steps.within(width)
    {
        return captioned(&spelled(&columns, style).text());
    }
    let text = table.text();
    if fits(&text, width) {
        return captioned(&text);
    }
    if matches!(of.wide, Wide::Prose)
        && let Some(text) = table.hanging(width, PROSE_MIN)
    {
        return captioned(&text);
    }
    match &of.wide {
        Wide::Narrower(forms) => {
            let mut texts = forms.iter().map(|form| narrower(form, style));
            let last = forms.last().map(|form| narrower(form, style));
            texts.find(|text| fits(text, width)).or(last).unwrap_or_else(|| captioned(&text))
        }
        _ if has_sentences(&table, width) => captioned(&rows_as_list(&table, width)),
        Wide::FirstColumns => captioned(&first_columns(&table, width)),
        Wide::Stacked | Wide::Prose | Wide::ByTask(_) => captioned(&stacked(&table, width)),
    }
}

/// The cells in the letters that the reader has. "+-" is wider than "±", so that a cell without deviation, which ends
/// in blanks to stand evenly below those with one, gets one more.
fn spelled(table: &Table, style: Style) -> Table {
    table.map(|cell| {
        let is_padded = cell.ends_with(' ') && !cell.contains('±') && !style.terminal;
        style.spelled(cell) + if is_padded { " " } else { "" }
    })
}

fn fits(text: &str, width: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= width)
}

fn narrower(form: &Narrower, style: Style) -> String {
    let text = |table: &Table| spelled(table, style).text();
    let tables: Vec<String> = form.tables.iter().map(text).collect();
    let left_out = match form.left_out {
        "" => String::new(),
        left_out => wrapped(&format!("({left_out})"), style.width, 1),
    };
    wrapped(&style.spelled(&form.caption), style.width, 2) + &tables.join("\n") + &left_out
}

/// The columns that fit, and the names of those that do not.
fn first_columns(table: &Table, width: usize) -> String {
    let (text, lost) = table.within(width);
    text + &wrapped(&format!("(not shown here: {})", lost.join(", ")), width, 1)
}

/// The whole table: columns that do not fit stand below.
fn stacked(table: &Table, width: usize) -> String {
    let is_place = |(heading, _): &&(String, Align)| PLACES.contains(&heading.as_str());
    let places = table.columns().iter().take_while(is_place).count().max(1);
    let tables: Vec<String> = table.stacked(width, places).iter().map(Table::text).collect();
    tables.join("\n")
}

fn has_sentences(table: &Table, width: usize) -> bool {
    table.rows().iter().flatten().any(|cell| cell.chars().count() > width)
}

/// Rows with sentences in them.
fn rows_as_list(table: &Table, width: usize) -> String {
    let row = |cells: &Vec<String>| {
        let cells: Vec<&str> =
            cells.iter().map(|cell| cell.trim()).filter(|cell| !cell.is_empty()).collect();
        wrapped(&format!("- {}", cells.join("; ")), width, 2)
    };
    table.rows().iter().map(row).collect()
}
