//! Reports: what a record says, as text for people or as data for other programs. Pure
//! functions from a record to text; nothing here reads files, prints, or keeps results.

mod bisection_answer;
mod boot;
mod cells;
mod compare;
mod csv;
mod curve_panel;
mod curve_table;
mod doses;
mod doubts;
mod effects;
mod fragile;
mod header;
mod hysteresis;
mod json;
mod ledger;
mod loads;
mod plan;
pub mod plot;
pub mod prose;
pub mod quantity;
pub mod recording;
mod scale;
mod scaling;
mod screening;
mod selfcheck;
mod selfcheck_bisect;
mod selfcheck_host;
mod selfcheck_scale;
mod svg;
pub mod table;
mod will_it_scale;

use host::terminal::{self, stdout_columns};
use records::{METRICS, Metric};

pub use crate::bisection_answer::{BisectionReport, CommitName, bisection_answer};
pub use crate::boot::boot;
pub use crate::compare::{
    ComparedRow, ComparisonParts, LanePart, Layout, LoadPart, VerdictCounts, comparison,
    parts as comparison_parts, verdicts_in_words,
};
pub use crate::csv::{csv, csv_header};
pub use crate::curve_panel::{
    CurvePanel, Laws, OVER_CPUS, PanelLine, PanelPoint, PanelRun, Reaching, for_lane as lane_panel,
    for_values as value_panel,
};
pub use crate::doses::{DoseReport, dosed_points, doses, doses_text};
pub use crate::doubts::{MissingSources, doubt_lists, doubts_of_runs};
pub use crate::effects::effects;
pub use crate::fragile::{FragileReport, fragile, fragile_text};
pub use crate::header::{facts, header, quoted};
pub use crate::hysteresis::{hysteresis, hysteresis_sentence};
pub use crate::json::{summary, whole};
pub use crate::ledger::{
    LedgerNode, LedgerPart, LedgerTree, NodeChange, difference, difference_part, explained,
    explained_part, growth, growth_part, growth_sentence, ipis, locks, title,
};
pub use crate::plan::{Plan, plan, plan_json};
pub use crate::prose::{counted, reflowed, wrapped};
pub use crate::scale::{forecast, scale, sweep};
pub use crate::scaling::{
    Detail, FormPart, RecordPart, detailed, record_parts, scaling, titled_curves,
};
pub use crate::screening::{ScreenedCell, ScreenedOption, screening};
pub use crate::selfcheck::selfcheck;
pub use crate::selfcheck_bisect::selfcheck_bisect;
pub use crate::selfcheck_host::selfcheck_host;
pub use crate::selfcheck_scale::selfcheck_scale;
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
    fn plus_minus(self) -> &'static str {
        if self.terminal { "±" } else { "+-" }
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

/// The description of a metric; counters have none.
fn known_metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.matches(name))
}
