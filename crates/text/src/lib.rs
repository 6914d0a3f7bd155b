//! What a terminal or a mail shows: tables, plots, sentences and quantities, within a width. Nothing here knows
//! what they are about.

pub mod line_plot;
pub mod markdown;
pub mod plot;
pub mod prose;
pub mod quantity;
pub mod table;

use host::terminal::{self, stdout_columns};

/// Wider lines are hard to read and break in mails.
pub const WIDTH_MAX: usize = 100;
/// Narrower than this, tables would be useless.
const WIDTH_MIN: usize = 40;

/// How a report looks.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns to stay within.
    pub width: usize,
    /// A terminal shows symbols; anything else gets plain ASCII, which also survives mail.
    pub terminal: bool,
    /// Whether titles are bold and curves coloured.
    pub color: bool,
}

impl Style {
    /// The style for standard output: terminal, pipe or file.
    pub fn for_stdout() -> Style {
        let (terminal, color) = (terminal::is_capable(), terminal::has_color());
        Style { width: stdout_width(), terminal, color }
    }

    /// For a mail, a file or a pipe.
    pub const PLAIN: Style = Style { width: 100, terminal: false, color: false };

    /// Plus or minus.
    pub fn plus_minus(self) -> &'static str {
        if self.terminal { "±" } else { "+-" }
    }

    /// A text in the letters that the reader has: all of them on a terminal, else symbols of ours in ASCII.
    pub fn spelled(self, text: &str) -> String {
        if self.terminal {
            return text.to_string();
        }
        text.replace('±', "+-").replace('→', "->").replace(['“', '”'], "\"")
    }

    /// A title stands out where that is possible.
    pub fn bold(self, text: &str) -> String {
        if self.color { terminal::painted(text, 1) } else { text.to_string() }
    }
}

/// The columns for results: those that the user asked for, else those of the terminal up to
/// [`WIDTH_MAX`].
pub fn stdout_width() -> usize {
    match terminal::requested_columns() {
        Some(columns) => columns.max(WIDTH_MIN),
        None => stdout_columns().unwrap_or(WIDTH_MAX).clamp(WIDTH_MIN, WIDTH_MAX),
    }
}
