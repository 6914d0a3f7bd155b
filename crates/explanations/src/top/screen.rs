//! A page as the lines of a screen of some size: title, sentence, the rows that fit, and what was not seen.

use text::prose::wrapped;
use text::table::{Align, Table};

use super::{Block, Place, ScreenPage};

/// How a line stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emphasis {
    Plain,
    Bold,
    /// The chosen row.
    Chosen,
    Dim,
}

/// A line of the screen, no wider than the screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenLine {
    pub text: String,
    pub emphasis: Emphasis,
}

/// What a screen has besides its page.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    pub columns: usize,
    pub rows: usize,
    /// The last line: what was not seen, what the keys are.
    pub footer: &'a str,
    /// The chosen row of the page.
    pub chosen: usize,
}

/// Marks the chosen row, also where there are no colours.
const CHOSEN: &str = "> ";
const INDENT: usize = CHOSEN.len();
/// With more lines, an empty one lies between blocks.
const ROOMY: usize = 12;
/// Rows of a block that are shown in any case.
const ROWS_MIN: usize = 2;

/// The lines of a screen: exactly as many as it has rows.
pub fn lines(page: &ScreenPage, frame: &Frame) -> Vec<ScreenLine> {
    let mut lines = vec![line(&page.title, Emphasis::Bold, frame)];
    lines.extend(said(page, frame));
    let room = frame.rows.saturating_sub(lines.len() + 1);
    let body = body(page, frame, room);
    let chosen = body.iter().position(|line| line.emphasis == Emphasis::Chosen).unwrap_or(0);
    // One line below the chosen row shows that there is more.
    let first = (chosen + 2).min(body.len()).saturating_sub(room);
    lines.extend(body.into_iter().skip(first).take(room));
    lines.truncate(frame.rows.saturating_sub(1));
    while lines.len() + 1 < frame.rows {
        lines.push(line("", Emphasis::Plain, frame));
    }
    lines.push(line(frame.footer, Emphasis::Dim, frame));
    lines
}

/// A page as text with all its rows, in lines of so many columns where its tables allow.
pub fn text(page: &ScreenPage, columns: usize) -> String {
    let mut text = format!("{}\n{}", page.title, wrapped(&page.said, columns, 2));
    for block in page.blocks.iter().filter(|block| !block.leads_to.is_empty()) {
        text += &format!("\n{}", block.table.within(columns).0);
    }
    text
}

fn line(text: &str, emphasis: Emphasis, frame: &Frame) -> ScreenLine {
    ScreenLine { text: clipped(text, frame.columns), emphasis }
}

/// The first letters of a text, with a mark if there are more.
pub fn clipped(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_string();
    }
    let first: String = text.chars().take(columns.saturating_sub(1)).collect();
    format!("{first}…")
}

/// The sentence in a few lines: the more, the higher the screen.
fn said(page: &ScreenPage, frame: &Frame) -> Vec<ScreenLine> {
    let most = (frame.rows / 5).clamp(1, 5);
    let text = wrapped(&page.said, frame.columns, 0);
    let all: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    let mut shown: Vec<String> = all.iter().take(most).map(ToString::to_string).collect();
    if all.len() > most
        && let Some(last) = shown.last_mut()
    {
        *last = clipped(&format!("{last} …"), frame.columns);
    }
    shown.iter().map(|text| line(text, Emphasis::Plain, frame)).collect()
}

/// The blocks, each with its heading.
fn body(page: &ScreenPage, frame: &Frame, room: usize) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    let mut number = 0;
    for block in &page.blocks {
        if !lines.is_empty() && room > ROOMY {
            lines.push(line("", Emphasis::Plain, frame));
        }
        let (text, _) = block.table.within(frame.columns.saturating_sub(INDENT));
        let all: Vec<&str> = text.lines().collect();
        let headings = all.len() - block.leads_to.len();
        let indented = |text: &str| format!("{:INDENT$}{text}", "");
        for heading in &all[..headings] {
            lines.push(line(&indented(heading), Emphasis::Bold, frame));
        }
        for row in &all[headings..] {
            let is_chosen = number == frame.chosen;
            let emphasis = if is_chosen { Emphasis::Chosen } else { Emphasis::Plain };
            let text = if is_chosen { format!("{CHOSEN}{row}") } else { indented(row) };
            lines.push(line(&text, emphasis, frame));
            number += 1;
        }
    }
    lines
}

impl ScreenPage {
    /// The page with its blocks shortened so that they fit into a screen together: where rows are left out, the last one
    /// leads to the whole block.
    pub fn shortened(mut self, frame: &Frame) -> ScreenPage {
        let above = 1 + said(&self, frame).len() + 1;
        let blocks = self.blocks.len().max(1);
        // A heading and an empty line for each.
        let room = frame.rows.saturating_sub(above + 2 * blocks);
        let lengths: Vec<usize> = self.blocks.iter().map(|block| block.leads_to.len()).collect();
        for (index, share) in divided(room, &lengths).into_iter().enumerate() {
            self.blocks[index].shorten(share, index);
        }
        self
    }
}

/// Divides rows among blocks: what one does not need, others get.
fn divided(room: usize, lengths: &[usize]) -> Vec<usize> {
    let mut shares: Vec<usize> = lengths.iter().map(|length| (*length).min(ROWS_MIN)).collect();
    let mut left = room.saturating_sub(shares.iter().sum());
    while left > 0 && shares.iter().zip(lengths).any(|(share, length)| share < length) {
        for (share, length) in shares.iter_mut().zip(lengths) {
            if *share < *length && left > 0 {
                *share += 1;
                left -= 1;
            }
        }
    }
    shares
}

impl Block {
    fn shorten(&mut self, rows: usize, index: usize) {
        let all = self.leads_to.len();
        if rows >= all {
            return;
        }
        let kept = rows.saturating_sub(1);
        let mut table = Table::new(self.table.columns().iter().cloned());
        for row in &self.table.rows()[..kept] {
            table.row(row.clone());
        }
        let mut more = vec![String::new(); table.columns().len()];
        let first = table.columns().iter().position(|(_, align)| *align == Align::Left);
        more[first.unwrap_or(0)] = format!("… {} more", all - kept);
        table.row(more);
        self.table = table;
        self.leads_to.truncate(kept);
        self.leads_to.push(Some(Place::Block(index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_one_block_does_not_need_are_for_others() {
        assert_eq!(divided(10, &[3, 9, 1]), [3, 6, 1]);
        assert_eq!(divided(0, &[3, 9, 1]), [2, 2, 1]);
        assert_eq!(divided(50, &[3, 9, 1]), [3, 9, 1]);
    }

    #[test]
    fn a_long_text_ends_with_a_mark() {
        assert_eq!(clipped("äbc", 3), "äbc");
        assert_eq!(clipped("äbcd", 3), "äb…");
        assert_eq!(clipped("abc", 0), "…");
    }
}
