//! Reports: what a record says, as text for people or as data for other programs. Pure
//! functions from a record to text; nothing here reads files, prints, or keeps results.

mod cells;
mod csv;
mod curve_table;
mod doubts;
mod header;
mod json;
mod plot;
mod prose;
mod quantity;
mod scaling;
mod table;
mod will_it_scale;

pub use csv::csv;
pub use json::{summary, whole};
pub use scaling::{Detail, detailed, scaling};
pub use table::{Align, Table};
pub use will_it_scale::{WillItScale, will_it_scale};

#[cfg(test)]
mod tests;

/// How a report looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns to stay within.
    pub width: usize,
    /// A terminal shows symbols and colours; anything else gets plain ASCII, which also
    /// survives mail.
    pub terminal: bool,
}

impl Style {
    /// For a mail, a file or a pipe.
    #[cfg(test)]
    const PLAIN: Style = Style { width: 100, terminal: false };

    /// Plus or minus.
    fn plus_minus(self) -> &'static str {
        if self.terminal { "±" } else { "+-" }
    }

    /// A title stands out where that is possible.
    fn bold(self, text: &str) -> String {
        if self.terminal { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
    }
}
