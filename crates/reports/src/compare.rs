//! Comparisons of variants, in the forms that their readers expect: each layout is a pure
//! function of a comparison. All of them show how many units there are, the interval of each
//! change and where it comes from, and what could not be decided.

mod answer;
mod change;
mod curves;
mod exploratory;
mod head;
mod lkp;
mod matrix;
mod mean_stddev;
mod nodes;
mod notes;
mod parts;
mod passes;
mod places;
mod verdicts;

use analysis::{Comparison, Verdict};
use text::Style;

pub use crate::compare::answer::VerdictCounts;
pub use crate::compare::parts::{ComparedRow, ComparisonParts, LanePart, LoadPart, parts};

use text::WIDTH_MAX;

#[cfg(test)]
mod tests;

/// Tables of fewer columns than this would lose what they must say.
const WIDTH_LEAST: usize = 72;

/// The form of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// The table of the LKP bot: %stddev and %change, one row a metric
    Lkp,
    /// Mean and standard deviation of task time, wall time and single calls
    MeanStddev,
    /// Options down, variants across
    Matrix,
    /// Each run in the order of execution, as fs_mark prints its passes
    Passes,
    /// The curves of all variants in one plot, with the linear ideal and the idle share
    Curves,
}

/// A comparison in a layout. `again` is the command that makes it again; may be empty.
pub fn comparison(comparison: &Comparison, layout: Layout, again: &str, style: Style) -> String {
    let style = Style { width: style.width.clamp(WIDTH_LEAST, WIDTH_MAX), ..style };
    match layout {
        Layout::Lkp => lkp::lkp(comparison, again, style),
        Layout::MeanStddev => mean_stddev::mean_stddev(comparison, again, style),
        Layout::Matrix => matrix::matrix(comparison, again, style),
        Layout::Passes => passes::passes(comparison, again, style),
        Layout::Curves => curves::curves(comparison, again, style),
    }
}

/// The verdicts of deciding metrics that `is_meant` picks: "getppid, processes, 1 s, 2 CPUs: `b` is
/// slower, >= 2 %: -5.1% [-5.9, -4.2]".
pub fn verdicts_in_words(
    comparison: &Comparison,
    is_meant: impl Fn(&Verdict) -> bool,
) -> Vec<String> {
    let mut words = Vec::new();
    for cell in &comparison.cells {
        let Some(metric) = change::primary(cell) else { continue };
        for (contrast, variant) in metric.contrasts.iter().zip(&comparison.variants[1..]) {
            if is_meant(&contrast.verdict) {
                let verdict = change::verdict(metric, contrast, comparison.smallest_effect);
                let change = contrast.change.map(|_| change::whole(contrast, &metric.unit));
                let change = change.map(|change| format!(": {change}")).unwrap_or_default();
                let place = places::whole(&cell.key);
                words.push(format!("{place}: `{}`: {verdict}{change}", variant.name));
            }
        }
    }
    words
}
