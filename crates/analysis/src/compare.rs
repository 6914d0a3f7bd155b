//! From the runs of several variants to a comparison. docs/methodology.md gives the reasons.
//! The modules below match the points of the variants, line their values up in columns, have
//! each column judged by `judge`, and word the verdicts.

mod arm;
mod bands;
mod blocks;
mod cell;
mod columns;
mod doubts;
mod matching;
mod repeats;
mod rules;
mod stopping;
mod survey;
mod verdicts;

use records::Opened;

pub use arm::Arm;
pub use blocks::deciding_part;
pub use matching::match_points;
pub use rules::{ALPHA, CompareOptions};
pub use stopping::points_to_run;

use crate::comparison::{Comparison, Design};
use arm::{in_guests, kernels};
use cell::ComparedCell;
use rules::Rules;

/// Compares arms, the first of them the baseline. Fails, with the reason, where the arms have
/// no point in common.
pub fn compare(arms: &[Arm], options: &CompareOptions) -> Result<Comparison, String> {
    let baseline = arms.first().ok_or("nothing to compare")?.record;
    let one_record = arms.iter().all(|arm| std::ptr::eq(arm.record, baseline));
    let in_blocks = one_record && baseline.record.source.as_ref().is_none_or(|s| s.blocks);
    let sequential = in_blocks && baseline.record.experiment.compare.until_decided;
    let by_boot = !one_record && (kernels(arms).len() > 1 || in_guests(arms));
    let design = if in_blocks { Design::Blocks { sequential } } else { Design::Separate };
    let rules =
        Rules { sequential, by_boot, ..Rules::for_record(&baseline.record).with_options(options) };
    let matched = matching::match_cells(arms, options.force)?;
    let cells: Vec<ComparedCell> =
        matched.cells.iter().map(|points| ComparedCell::new(points.clone(), in_blocks)).collect();
    if !arms.iter().any(|arm| arm.record.runs.iter().any(|run| run.repeat > 0)) {
        return Ok(survey::assemble(arms, design, &rules, &cells, &cells, matched.left_out));
    }
    let merged: Vec<Opened> = arms.iter().map(|arm| repeats::merged(arm.record)).collect();
    // Arms of one record share one merged record, since they share its blocks.
    let merged_record = |record: &Opened| {
        let first = arms.iter().position(|arm| std::ptr::eq(arm.record, record));
        &merged[first.unwrap_or_default()]
    };
    let merged_cell = |points: &Vec<(&Opened, usize)>| {
        let points = points.iter().map(|(record, index)| (merged_record(record), *index));
        ComparedCell::new(points.collect(), in_blocks)
    };
    let merged_cells: Vec<ComparedCell> = matched.cells.iter().map(merged_cell).collect();
    Ok(survey::assemble(arms, design, &rules, &merged_cells, &cells, matched.left_out))
}

#[cfg(test)]
mod tests;
