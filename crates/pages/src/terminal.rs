//! A page on a terminal: the answer, what it rests on, and how to have it again, within the terminal's width.

use reports::{CurvePanel, PROBABILITY, PanelLine};
use text::Style;
use text::plot::{Plot, SYMBOLS, Series, plot};
use text::prose::{reflowed, wrapped};
use text::table::Table;

use crate::columns::columns;
use crate::fitted::fitted;
use crate::ledger::ledger_text;
use crate::page::{Block, Page, PageKind, PageTable, Section};

/// The label of commands.
const RERUN: &str = "rerun";
/// Columns for the labels of facts, at least.
const LABEL: usize = 12;

/// The whole text: parts with an empty line between them.
pub fn terminal(page: &Page, style: Style) -> String {
    let sections: Vec<&Section> = page.sections.iter().filter(|one| !one.is_summary).collect();
    let has_titles = page.kind.has_title_on_a_terminal() || sections.len() > 1;
    let mut parts = vec![answer(page, style)];
    // What the page is about stands above the answer already.
    let has_title = |one: &Section| has_titles && one.title != page.title;
    let text = |one: &Section| section(one, has_title(one), &page.answers, style);
    parts.extend(sections.into_iter().map(text));
    for (title, sentences) in page.warnings.iter().filter(|(_, sentences)| !sentences.is_empty()) {
        parts.push(heading(title, style) + &list(sentences, style));
    }
    parts.push(page.method.iter().map(|one| sentence(one, style)).collect());
    let facts = page.facts.iter().map(|(label, value)| (label.as_str(), value.as_str()));
    let again = page.again.iter().map(|command| (RERUN, command.as_str()));
    let facts: Vec<(&str, &str)> = facts.chain(again).collect();
    let widest = facts.iter().map(|(label, _)| label.chars().count() + 2).max();
    let column = LABEL.max(widest.unwrap_or_default());
    parts.push(facts.into_iter().map(|fact| labelled(fact, column, style)).collect());
    parts.retain(|part| !part.is_empty());
    parts.join(if page.kind == PageKind::List { "" } else { "\n" })
}

/// The title, the sentences that answer, and the verdicts counted.
fn answer(page: &Page, style: Style) -> String {
    let mut text = String::new();
    if page.kind.has_title_on_a_terminal() {
        text += &heading(&format!("{}: {}", page.kind.name(), page.brief_title()), style);
    }
    for (index, answer) in page.answers.iter().enumerate() {
        text += &if index == 0 { heading(answer, style) } else { sentence(answer, style) };
    }
    // One answer has them already.
    if page.answers.len() > 1 && !page.counts.is_empty() {
        let counts: Vec<String> =
            page.counts.iter().map(|count| format!("{} {}", count.n, count.word)).collect();
        text += &sentence(&format!("verdicts: {}", counts.join(", ")), style);
    }
    text
}

fn heading(title: &str, style: Style) -> String {
    style.bold(sentence(title, style).trim_end()) + "\n"
}

fn sentence(text: &str, style: Style) -> String {
    wrapped(&style.spelled(text), style.width, 2)
}

/// A label with what stands behind it. A command stays in one line, however long: it is copied.
fn labelled((label, value): (&str, &str), column: usize, style: Style) -> String {
    if label == RERUN {
        return style.spelled(&format!("{label:<column$}{value}\n"));
    }
    wrapped(&style.spelled(&format!("{label:<column$}{value}")), style.width, column)
}

fn section(section: &Section, has_title: bool, answers: &[String], style: Style) -> String {
    let mut text = String::new();
    let mut before: Option<&Block> = None;
    for block in &section.blocks {
        let own = self::block(block, answers, style);
        if own.is_empty() {
            continue;
        }
        // Sentences belong to what stands above them, all else stands apart.
        let is_apart = !matches!(block, Block::Text(_)) || matches!(before, Some(Block::Curves(_)));
        if before.replace(block).is_some() && is_apart {
            text.push('\n');
        }
        text += &own;
    }
    // A manual opens by itself.
    let is_manual = matches!(section.blocks[..], [Block::Manual(_)]);
    let has_title = has_title && !is_manual && !section.title.is_empty() && !text.is_empty();
    if has_title { heading(&section.title, style) + &text } else { text }
}

/// A block without the sentences that stand above as answers.
fn block(block: &Block, answers: &[String], style: Style) -> String {
    match block {
        Block::Text(sentences) => {
            let new = sentences.iter().filter(|one| !answers.contains(one));
            new.map(|one| sentence(one, style)).collect()
        }
        Block::Curves(panel) => curves(panel, style),
        Block::Matrix(matrix) => fitted(&PageTable::of_matrix(matrix), style),
        Block::Table(table) => fitted(table, style),
        Block::Ledger(tree) => ledger_text(tree, style, usize::MAX),
        Block::Flame(graph) => table(&graph.functions, style),
        Block::Manual(text) => reflowed(text, style.width),
        Block::Folded(title, sentences) if !sentences.is_empty() => {
            format!("{title}:\n{}", list(sentences, style))
        }
        Block::Folded(..) => String::new(),
    }
}

fn list(sentences: &[String], style: Style) -> String {
    sentences.iter().map(|one| sentence(&format!("- {one}"), style)).collect()
}

/// Curves over counts, as many in a drawing as there are symbols. Others are for finer drawings; tables have their values.
fn curves(panel: &CurvePanel, style: Style) -> String {
    if panel.metric == PROBABILITY {
        return columns(panel, style);
    }
    if !panel.counts {
        return String::new();
    }
    let series = |line: &PanelLine| Series {
        name: line.name.clone(),
        points: line.points.iter().map(|point| (point.cpus, point.spread.mean)).collect(),
        idle: line.points.iter().filter_map(|point| Some((point.cpus, point.idle?))).collect(),
    };
    let titles = [panel.quantity(), panel.title.clone()];
    let titles: Vec<String> = titles.into_iter().filter(|title| !title.is_empty()).collect();
    let title = titles.join(", ");
    let drawings = panel.lines.chunks(SYMBOLS).map(|lines| {
        let series = lines.iter().map(series).collect();
        let over = panel.over.clone();
        plot(&Plot { title: title.clone(), series, ideal: panel.ideal, over }, style)
    });
    drawings.filter(|drawn| !drawn.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The columns that fit, and the names of those that do not.
fn table(table: &Table, style: Style) -> String {
    let (text, lost) = table.map(|cell| style.spelled(cell)).within(style.width);
    if lost.is_empty() {
        return text;
    }
    text + &wrapped(&format!("(columns that do not fit: {})", lost.join(", ")), style.width, 1)
}
