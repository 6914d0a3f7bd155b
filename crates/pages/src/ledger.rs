//! The page of ledgers: where the time of an operation goes, what changed, and what grows with CPUs.

use explanations::ledger::LedgerPart;

use crate::page::{Block, Page, PageKind, PageTable, Section};
use crate::reading;

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

fn section(part: LedgerPart, is_open: bool) -> Section {
    let mut blocks = Vec::new();
    if !is_open && !part.answer.is_empty() {
        blocks.push(Block::Text(vec![part.answer]));
    }
    blocks.push(Block::Text(part.causes));
    blocks.extend(part.tree.map(Block::Ledger));
    if let Some(table) = part.table {
        let table = PageTable::plain("All columns of the ledger", table, reading::LEDGER);
        blocks.push(Block::Table(PageTable { is_open: false, ..table }));
    }
    blocks.extend(part.flame.map(Block::Flame));
    blocks.push(Block::Folded("How far to trust this", part.notes));
    Section { title: part.title, load: None, is_open, is_summary: false, blocks }
}
