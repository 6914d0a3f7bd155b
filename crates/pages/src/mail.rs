//! A page as a mail: plain text of at most 72 columns, to be pasted into a mail to a kernel list as it is.

use host::terminal::shown;
use reports::{LedgerNode, LedgerTree};
use text::prose::wrapped;
use text::table::Table;

use crate::page::{Block, Page, PageTable};

/// What a mail to a kernel list may have at most.
const WIDTH: usize = 72;
/// Columns of a ledger's names.
const NAME: usize = 40;
/// Ledger rows below this depth are left out of mails.
const DEPTH_MAX: usize = 4;

/// The whole text.
pub fn mail(page: &Page) -> String {
    let mut text = String::new();
    for answer in &page.answers {
        text += &sentence(answer, 0);
    }
    if !page.counts.is_empty() {
        let counts: Vec<String> =
            page.counts.iter().map(|count| format!("{} {}", count.n, count.word)).collect();
        text += &sentence(&format!("Verdicts: {}", counts.join(", ")), 0);
    }
    for section in &page.sections {
        // What changed stands in the answer, and again in the tables of loads.
        if section.blocks.iter().any(is_summary) && page.sections.len() > 1 {
            continue;
        }
        text += &format!("\n{}", sentence(&section.title, 2));
        text += &section.blocks.iter().map(block).collect::<String>();
    }
    for (title, sentences) in &page.doubts {
        text += &format!("\n{title}\n{}", list(sentences));
    }
    if !page.method.is_empty() {
        text += &format!("\nMethod\n{}", list(&page.method));
    }
    if !page.facts.is_empty() {
        text += &format!("\n{}\n", page.facts_title());
        for (label, value) in &page.facts {
            text += &ascii(&wrapped(&format!("  {label:<11} {value}"), WIDTH, 14));
        }
    }
    if !page.again.is_empty() {
        text += "\nDo it again\n";
        for command in &page.again {
            text += &wrapped(&format!("  {command}"), WIDTH, 6);
        }
    }
    // What would control a terminal is longer once it is escaped.
    cut(&shown(&ascii(&text)))
}

/// Whether a block repeats rows of other sections: the largest changes of all loads.
fn is_summary(block: &Block) -> bool {
    matches!(block, Block::Table(table) if !table.marks.is_empty() && table.narrow.is_empty())
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(sentences) => list(sentences),
        // The numbers stand in the tables; a mail has no room for stacks.
        Block::Curves(_) | Block::Flame(_) => String::new(),
        Block::Folded(_, sentences) if sentences.is_empty() => String::new(),
        Block::Folded(title, sentences) => format!("{title}:\n{}", list(sentences)),
        Block::Table(table) => table_text(table),
        Block::Ledger(tree) => ledger(tree),
    }
}

fn table_text(block: &PageTable) -> String {
    if !block.is_open {
        return String::new();
    }
    if !block.narrow.is_empty() {
        return block.narrow.clone();
    }
    sentence(&block.caption, 2) + &fitting(&block.table)
}

/// The columns that fit, and the names of those that do not.
fn fitting(table: &Table) -> String {
    let (text, lost) = table.within(WIDTH);
    if lost.is_empty() {
        return text;
    }
    text + &sentence(&format!("(not shown here: {})", lost.join(", ")), 1)
}

fn ledger(tree: &LedgerTree) -> String {
    let mut lines = format!("{:<NAME$}", tree.heading);
    let room = (WIDTH - NAME) / (tree.columns.len() + 1).max(1);
    for column in tree.columns.iter().chain(tree.details.first()) {
        lines += &format!("{:>room$}", shortened(column, room - 1));
    }
    lines = format!("{}\n", lines.trim_end());
    node(&mut lines, &tree.root, room, 0);
    lines
}

fn node(lines: &mut String, row: &LedgerNode, room: usize, depth: usize) {
    let name = format!("{}{}", "  ".repeat(depth), row.name);
    let mut line = format!("{:<NAME$}", shortened(&name, NAME - 1));
    for value in row.values.iter().chain(row.details.first()) {
        line += &format!("{value:>room$}");
    }
    *lines += line.trim_end();
    lines.push('\n');
    if depth < DEPTH_MAX {
        row.rows.iter().for_each(|part| node(lines, part, room, depth + 1));
    }
}

fn shortened(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_string();
    }
    letters[..most.saturating_sub(2)].iter().chain(&['.', '.']).collect()
}

fn list(sentences: &[String]) -> String {
    sentences.iter().map(|one| wrapped(&format!("- {one}"), WIDTH, 2)).collect()
}

fn sentence(text: &str, indent: usize) -> String {
    wrapped(text, WIDTH, indent)
}

/// Symbols of ours as plain letters; names keep theirs.
fn ascii(text: &str) -> String {
    text.replace('±', "+-").replace('→', "->").replace(['“', '”'], "\"")
}

/// Words without a space may be longer than a line: their lines are broken, so that no mail program breaks
/// the lines around them.
fn cut(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        let letters: Vec<char> = line.chars().collect();
        for part in letters.chunks(WIDTH) {
            lines.extend(part);
            lines.push('\n');
        }
        if letters.is_empty() {
            lines.push('\n');
        }
    }
    lines
}
