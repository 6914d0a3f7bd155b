//! Reports: what a record says, as text for people or as data for other programs. Pure
//! functions from a record to text; nothing here reads files, prints, or keeps results.

mod boot;
mod cells;
mod checked;
mod compare;
mod csv;
mod curve_table;
mod doubts;
mod header;
mod json;
mod ledger;
mod loads;
mod plan;
mod plot;
mod prose;
mod quantity;
pub mod recording;
mod replayed;
mod scaling;
mod selfcheck;
mod selfcheck_host;
mod simulated;
mod table;
mod will_it_scale;

use std::io::{self, IsTerminal};

use records::{METRICS, Metric};

pub use boot::boot;
pub use checked::{checked, failed_check, memory, mutants};
pub use compare::{Layout, comparison};
pub use csv::{csv, csv_header};
pub use doubts::of_runs as doubts_of_runs;
pub use header::{header, quoted};
pub use json::{summary, whole};
pub use ledger::{Side, difference, explained, growth, ipis, locks, per, title};
pub use plan::plan;
pub use prose::{counted, wrapped};
pub use replayed::replayed;
pub use scaling::{Detail, detailed, scaling};
pub use selfcheck::selfcheck;
pub use selfcheck_host::selfcheck_host;
pub use simulated::{agreements, simulated};
pub use will_it_scale::{WillItScale, will_it_scale};

#[cfg(test)]
mod tests;

/// Wider lines are hard to read and break in mails.
const WIDTH_MAX: usize = 100;
/// Narrower than this, tables would be useless.
const WIDTH_MIN: usize = 40;

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
    /// For whatever standard output is.
    pub fn of_stdout() -> Style {
        let terminal = io::stdout().is_terminal();
        let columns = terminal.then(terminal_columns).flatten().unwrap_or(WIDTH_MAX);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style { width: columns.clamp(WIDTH_MIN, WIDTH_MAX), terminal: terminal && !plain }
    }

    /// For a mail, a file or a pipe.
    #[cfg(test)]
    pub const PLAIN: Style = Style { width: 100, terminal: false };

    /// Plus or minus.
    fn plus_minus(self) -> &'static str {
        if self.terminal { "±" } else { "+-" }
    }

    /// A title stands out where that is possible.
    pub fn bold(self, text: &str) -> String {
        if self.terminal { format!("\x1b[1m{text}\x1b[0m") } else { text.to_string() }
    }
}

/// Columns of the terminal that standard output is.
fn terminal_columns() -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the call fills one live winsize.
    let asked = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size) };
    (asked == 0 && size.ws_col > 0).then_some(size.ws_col as usize)
}

/// What is said about a run's metric of this name; counters have none.
fn known_metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.matches(name))
}
