//! The page of ledgers: where the time of an operation goes, what changed, and what grows with CPUs.

use std::mem;

use explanations::ledger::{LedgerNode, LedgerPart, LedgerTree};
use text::Style;
use text::prose::wrapped;
use text::table::{Align, Table};

use crate::page::{Block, Page, PageKind, PageTable, Section};

/// The page of ledgers, the first of which has the answer, for below what was measured.
pub fn ledgers(title: &str, parts: Vec<LedgerPart>) -> Page {
    let answers: Vec<String> =
        parts.iter().take(1).map(|part| part.answer.clone()).filter(|a| !a.is_empty()).collect();
    let sections = parts.into_iter().enumerate().map(|(index, part)| section(part, index == 0));
    let mut page = Page::new(title, PageKind::Explanation);
    page.answers = answers;
    page.sections = sections.collect();
    page
}

/// The page of an explanation. That of one ledger has its title; that of several answers for each at the top.
pub fn explanation(title: String, mut parts: Vec<LedgerPart>) -> Page {
    if let [one] = &parts[..] {
        let title = one.title.clone();
        return ledgers(&title, parts);
    }
    let answered = parts.iter_mut().filter(|part| !part.answer.is_empty());
    let answers = answered.map(|part| format!("{}: {}", part.title, mem::take(&mut part.answer)));
    let answers = answers.collect();
    Page { answers, ..ledgers(&title, parts) }
}

fn section(part: LedgerPart, is_open: bool) -> Section {
    let mut blocks = Vec::new();
    if !is_open && !part.answer.is_empty() {
        blocks.push(Block::Text(vec![part.answer]));
    }
    blocks.push(Block::Text(part.causes));
    blocks.extend(part.tree.map(Block::Ledger));
    let tables = part.tables.into_iter();
    blocks.extend(
        tables.map(|(caption, table)| Block::Table(PageTable::plain(&caption, table, &[]))),
    );
    blocks.extend(part.flame.map(Block::Flame));
    blocks.push(Block::Folded("How far to trust this", part.notes));
    Section { title: part.title, load: None, is_open, is_summary: false, blocks }
}

/// The most letters of names, and fewer where all columns fit then.
const NAMES: [usize; 3] = [46, 41, 36];

/// A ledger as lines of at most the style's width: rows down to a depth, indented, and the columns that fit.
pub fn ledger_text(tree: &LedgerTree, style: Style, depth_max: usize) -> String {
    let mut rows = Vec::new();
    add(&mut rows, &tree.root, 0, depth_max);
    let texts = NAMES.map(|letters| table(tree, &rows, letters, style).within(style.width));
    let whole = texts.iter().find(|(_, lost)| lost.is_empty());
    let (text, lost) = whole.unwrap_or(&texts[0]);
    if lost.is_empty() {
        return text.clone();
    }
    let lost = format!("(columns that do not fit: {})", lost.join(", "));
    format!("{text}{}", wrapped(&lost, style.width, 1))
}

/// The cells of a row and of those below it.
fn add(rows: &mut Vec<Vec<String>>, row: &LedgerNode, depth: usize, depth_max: usize) {
    let name = format!("{}{}", "  ".repeat(depth), row.name);
    rows.push([&name].into_iter().chain(&row.values).chain(&row.details).cloned().collect());
    if depth < depth_max && !row.is_folded {
        row.rows.iter().for_each(|part| add(rows, part, depth + 1, depth_max));
    }
}

fn table(tree: &LedgerTree, rows: &[Vec<String>], letters: usize, style: Style) -> Table {
    let is_word = |cell: &str| cell.starts_with(char::is_alphabetic);
    let values = tree.columns.iter().chain(&tree.details).enumerate().map(|(index, heading)| {
        let is_words = rows.iter().any(|row| is_word(&row[index + 1]));
        (broken(heading), if is_words { Align::Left } else { Align::Right })
    });
    let mut table = Table::new([(tree.heading.clone(), Align::Left)].into_iter().chain(values));
    for row in rows {
        let name = shortened(&row[0], letters);
        table.row([name].into_iter().chain(row[1..].iter().cloned()).collect());
    }
    table.map(|cell| style.spelled(cell))
}

/// A long heading in two lines of about the same length, since the numbers below it are short.
fn broken(heading: &str) -> String {
    const SHORT: usize = 7;
    let length = |part: &str| part.chars().count();
    if length(heading) <= SHORT {
        return heading.to_string();
    }
    let halves = heading.match_indices(' ').map(|(at, _)| (&heading[..at], &heading[at + 1..]));
    let even = halves.min_by_key(|(first, second)| length(first).max(length(second)));
    even.map_or_else(|| heading.to_string(), |(first, second)| format!("{first}\n{second}"))
}

/// A name that leaves room for the numbers: its middle goes.
fn shortened(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_string();
    }
    let (head, tail) = (most / 2 + 4, most / 2 - 6);
    let joined = |letters: &[char]| letters.iter().collect::<String>();
    format!("{}..{}", joined(&letters[..head]), joined(&letters[letters.len() - tail..]))
}
