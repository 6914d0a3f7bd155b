//! Reports: what a record says, as text for people or as data for other programs. Pure
//! functions from a record to text; nothing here reads files, prints, or keeps results.

mod boot;
mod cells;
mod compare;
mod csv;
mod curve_table;
mod doubts;
mod effects;
mod header;
mod json;
mod ledger;
mod loads;
mod plan;
pub mod plot;
pub mod prose;
pub mod quantity;
pub mod recording;
mod scaling;
mod selfcheck;
mod selfcheck_host;
mod svg;
pub mod table;
mod will_it_scale;

use std::io::{self, IsTerminal};

use host::stderr::stdout_columns;
use records::{METRICS, Metric};

pub use crate::boot::boot;
pub use crate::compare::{Layout, comparison};
pub use crate::csv::{csv, csv_header};
pub use crate::doubts::doubts_of_runs;
pub use crate::effects::effects;
pub use crate::header::{header, quoted};
pub use crate::json::{summary, whole};
pub use crate::ledger::{difference, explained, growth, ipis, locks, title};
pub use crate::plan::{Plan, plan, plan_json};
pub use crate::prose::{counted, visible, wrapped};
pub use crate::scaling::{Detail, detailed, scaling};
pub use crate::selfcheck::selfcheck;
pub use crate::selfcheck_host::selfcheck_host;
pub use crate::svg::svg;
pub use crate::will_it_scale::{WillItScale, will_it_scale};
pub use ledger::{LedgerSide, unit_of_work};

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
    /// The style for standard output: terminal, pipe or file.
    pub fn for_stdout() -> Style {
        let terminal = io::stdout().is_terminal();
        let columns = terminal.then(stdout_columns).flatten().unwrap_or(WIDTH_MAX);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Style { width: columns.clamp(WIDTH_MIN, WIDTH_MAX), terminal: terminal && !plain }
    }

    /// For a mail, a file or a pipe.
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

/// The description of a metric; counters have none.
fn known_metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.matches(name))
}
