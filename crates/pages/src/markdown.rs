//! A page as Markdown for a tracker: what the answer rests on is folded, so that a comment stays short.

use explanations::ledger::{LedgerNode, LedgerTree};
use host::terminal::one_line;
use text::markdown::{cell, escaped};

use crate::manual;
use crate::page::{Block, LEDGER_DEPTH_MAX, Page, PageFile, PageTable, Section, brief};

/// The whole text.
pub fn markdown(page: &Page) -> String {
    let mut text = format!("## {}: {}\n\n", page.kind.name(), escaped(&page.brief_title()));
    for answer in &page.answers {
        text += &format!("**{}**\n\n", escaped(&brief(answer)));
    }
    if !page.counts.is_empty() {
        let counts: Vec<String> =
            page.counts.iter().map(|count| format!("{} {}", count.n, count.word)).collect();
        text += &format!("{}\n\n", counts.join(" · "));
    }
    text += &page.sections.iter().map(section).collect::<String>();
    for (title, sentences) in &page.warnings {
        text += &format!("**{}**\n\n{}\n", escaped(title), list(sentences));
    }
    text += &folded("Method", &list(&page.method));
    let fact = |(label, value): &(String, String)| match label.as_str() {
        "" => format!("  - {}\n", escaped(value)),
        label => format!("- {}: {}\n", escaped(label), escaped(value)),
    };
    text += &folded(page.facts_title(), &page.facts.iter().map(fact).collect::<String>());
    let commands: String = page.again.iter().map(|c| format!("    {}\n", one_line(c))).collect();
    text += &folded("Do it again", &commands);
    let file = |file: &PageFile| {
        let lines: String = file.text.lines().map(|l| format!("    {}\n", one_line(l))).collect();
        folded(&format!("{}, for {}", file.name, file.command), &lines)
    };
    text + &page.files.iter().map(file).collect::<String>()
}

fn section(section: &Section) -> String {
    let text: String = section.blocks.iter().map(block).collect();
    if section.is_open {
        return format!("### {}\n\n{text}", escaped(&section.title));
    }
    folded(&section.title, &text)
}

fn folded(title: &str, text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    format!("<details><summary>{}</summary>\n\n{text}\n</details>\n\n", escaped(title))
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(sentences) => {
            let text = list(sentences);
            if text.is_empty() { text } else { text + "\n" }
        }
        // Trackers show no inline drawings: the numbers stand in the table.
        Block::Curves(_) => String::new(),
        Block::Flame(graph) => {
            folded("Functions by their own CPU time", &graph.functions.markdown())
        }
        Block::Manual(text) => manual::markdown(text),
        Block::Folded(title, sentences) => folded(title, &list(sentences)),
        Block::Matrix(matrix) => table_text(&PageTable::of_matrix(matrix)),
        Block::Table(table) => table_text(table),
        Block::Ledger(tree) => ledger(tree),
    }
}

fn table_text(block: &PageTable) -> String {
    let caption = match block.caption.as_str() {
        "" => String::new(),
        caption => format!("{}\n\n", escaped(caption)),
    };
    let text = format!("{caption}{}\n", block.table.markdown());
    if block.is_open { text } else { folded(&block.caption, &block.table.markdown()) }
}

fn ledger(tree: &LedgerTree) -> String {
    let columns: Vec<&String> = tree.columns.iter().chain(&tree.details).collect();
    let mut text = format!("| {} |", cell(&tree.heading));
    columns.iter().for_each(|column| text += &format!(" {} |", cell(column)));
    text += &format!("\n| :--- |{}\n", " ---: |".repeat(columns.len()));
    node(&mut text, &tree.root, 0);
    text + "\n"
}

fn node(text: &mut String, row: &LedgerNode, depth: usize) {
    // A tracker drops leading blanks of a cell, but not these.
    *text += &format!("| {}{} |", "\u{2003}".repeat(depth), cell(&row.name));
    row.values.iter().chain(&row.details).for_each(|value| *text += &format!(" {} |", cell(value)));
    text.push('\n');
    if depth < LEDGER_DEPTH_MAX {
        let shown = row.rows.iter().filter(|_| !row.is_folded);
        shown.for_each(|part| node(text, part, depth + 1));
    }
}

fn list(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("- {}\n", escaped(sentence))).collect()
}
