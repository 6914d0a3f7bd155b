//! The live screen of running programs: an answer and where the reader looks in it, as lines of text. Pure functions.
//!
//!     answer, place ─ pages ─→ page: a sentence, blocks of rows that lead to other places ─ screen ─→ lines

mod pages;
mod screen;
mod walk;

pub use pages::{Seen, footer, page};
pub use screen::{Emphasis, Frame, ScreenLine, lines, text};
pub use walk::{Step, Walk};

use text::table::Table;

/// What a page of the screen is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The programs of the host.
    Programs,
    /// All processes of a name.
    Program(String),
    Process(u32),
    /// What holds the chosen programs back, with their threads, locks and CPU time.
    Overview,
    /// A block of the overview by itself, with all its rows: its index there.
    Block(usize),
    /// Threads of one name.
    Threads(String),
    /// A lock, by its name.
    Lock(String),
    /// A row of the ledger, by the names of the rows on the way to it.
    Time(Vec<String>),
    /// What the keys do, and how all is seen.
    Keys,
}

/// A page of the screen.
#[derive(Clone, Debug, Default)]
pub struct ScreenPage {
    /// What it is about, in a few words.
    pub title: String,
    /// What it says, in a sentence.
    pub said: String,
    pub blocks: Vec<Block>,
}

/// A table whose rows lead to other places.
#[derive(Clone, Debug)]
pub struct Block {
    pub table: Table,
    /// Where each row leads; `None` for a row without more.
    pub leads_to: Vec<Option<Place>>,
}

impl Block {
    /// A block of rows that lead nowhere.
    pub fn of(table: Table) -> Block {
        let leads_to = vec![None; table.rows().len()];
        Block { table, leads_to }
    }
}

impl ScreenPage {
    /// Where the rows of all blocks lead, one after the other.
    fn leads_to(&self) -> impl Iterator<Item = &Option<Place>> {
        self.blocks.iter().flat_map(|block| &block.leads_to)
    }
}

#[cfg(test)]
mod tests;
