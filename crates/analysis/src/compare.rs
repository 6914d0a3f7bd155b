//! From the runs of several variants to a comparison. docs/methodology.md gives the reasons.
//! The modules below match the points of the variants, line their values up in columns, have
//! each column judged by `judge`, and word the verdicts.

mod arm;
mod bands;
mod blocks;
mod cell;
mod columns;
mod drift;
mod emulated;
mod matching;
mod nodes;
mod repeats;
mod rules;
mod sessions;
mod stopping;
mod survey;
mod taken;
mod verdicts;
mod warnings;

use records::{Opened, ReplicationUnit};

pub use arm::Arm;
pub use blocks::{deciding_part, disturbance, left_out};
pub use emulated::hidden_by_emulation;
pub use matching::match_points;
#[cfg(test)]
pub(crate) use nodes::{EFFECT_ALPHA, LEVEL_ALPHA};
pub use rules::{ALPHA, CompareOptions};
pub use sessions::join_sessions;
pub use stopping::{blocks_at_most, gate_points_to_run, points_to_run};

use crate::comparison::{Comparison, Design};
use arm::{in_guests, kernels};
use cell::ComparedCell;
use rules::Rules;

/// Compares arms, the first of them the baseline. Fails, with the reason, where the arms have
/// no point in common.
pub fn compare(arms: &[Arm], options: &CompareOptions) -> Result<Comparison, String> {
    let baseline = arms.first().ok_or("nothing to compare")?.record;
    let matched = matching::match_cells(arms, options.force)?;
    let in_blocks = are_in_blocks(arms);
    let cell = |points| ComparedCell::new(points, in_blocks);
    let cells: Vec<ComparedCell> = matched.cells.iter().cloned().map(cell).collect();
    let design = design(arms, &cells);
    let by_boot = design == Design::Boots || (!in_blocks && in_guests(arms));
    let rules =
        Rules { design, by_boot, ..Rules::for_record(&baseline.record).with_options(options) };
    let asked = |cell: &ComparedCell| [vec![cell.primary(&rules)], rules.asked.clone()].concat();
    for (cell, metric) in
        cells.iter().flat_map(|cell| asked(cell).into_iter().map(move |m| (cell, m)))
    {
        cell.units_agree(&metric)?;
    }
    let is_repeated = arms.iter().any(|arm| arm.record.runs.iter().any(|run| run.repeat > 0));
    let merged: Vec<Opened> =
        arms.iter().filter(|_| is_repeated).map(|arm| repeats::merged(arm.record)).collect();
    // Arms of one record share one merged record, since they share its blocks.
    let merged_record = |record: &Opened| {
        let first = arms.iter().position(|arm| std::ptr::eq(arm.record, record));
        &merged[first.unwrap_or_default()]
    };
    let merged_cell = |points: &Vec<(&Opened, usize)>| {
        let points = points.iter().map(|(record, index)| (merged_record(record), *index));
        ComparedCell::new(points.collect(), in_blocks)
    };
    let merged_cells: Vec<ComparedCell> =
        matched.cells.iter().filter(|_| is_repeated).map(merged_cell).collect();
    let judged = if is_repeated { &merged_cells } else { &cells };
    let mut comparison = survey::assemble(arms, &rules, judged, &cells, matched.left_out);
    if design == Design::Separate {
        let points: Vec<_> =
            cells.iter().map(|cell| (&cell.points[0].0.record, cell.points[0].1)).collect();
        drift::learn(&mut comparison, &points, &options.past);
    }
    Ok(comparison)
}

/// Whether each block of one record has a run of every arm.
fn are_in_blocks(arms: &[Arm]) -> bool {
    let baseline = arms[0].record;
    arms.iter().all(|arm| std::ptr::eq(arm.record, baseline))
        && baseline.record.source.as_ref().is_none_or(|source| source.blocks)
}

/// Whether the sessions of each arm alternate with those of the baseline, on one host.
fn alternate(arms: &[Arm], cells: &[ComparedCell]) -> bool {
    let host = |arm: &Arm| arm.record.record.host.hostname.clone();
    let on_one_host = arms.iter().all(|arm| host(arm).is_some() && host(arm) == host(&arms[0]));
    let is_imported = |arm: &Arm| arm.record.record.source.is_some();
    let in_turn = |arm: usize| {
        let pairs = |cell: &ComparedCell| sessions::pairs(&cell.sides[0], &cell.sides[arm]).len();
        cells.iter().any(|cell| pairs(cell) > 1)
    };
    on_one_host && !arms.iter().any(is_imported) && (1..arms.len()).all(in_turn)
}

/// How the runs of the arms were laid out.
fn design(arms: &[Arm], cells: &[ComparedCell]) -> Design {
    let source = |arm: &Arm| arm.record.record.source.as_ref().map(|source| source.unit);
    let are_boots = match arms.iter().filter_map(source).min() {
        Some(unit) => unit == ReplicationUnit::Boot,
        // Guests boot on one host, whose drift they share.
        None => kernels(arms).len() > 1 && !in_guests(arms),
    };
    if are_in_blocks(arms) {
        let sequential = arms[0].record.record.experiment.compare.until_decided;
        Design::Blocks { sequential }
    } else if alternate(arms, cells) {
        Design::Sessions
    } else if are_boots {
        Design::Boots
    } else {
        unpaired(arms, cells).unwrap_or(Design::Separate)
    }
}

/// The design of values without pairs, if each arm has some that show how the host drifts. The order
/// that says least stands for all.
fn unpaired(arms: &[Arm], cells: &[ComparedCell]) -> Option<Design> {
    let of_arm = |arm: usize| {
        let taken = cells.iter().filter_map(|cell| cell.taken(arm));
        taken.map(|taken| (taken.order(), taken.unit)).max()
    };
    let worst = (1..arms.len()).map(of_arm).collect::<Option<Vec<_>>>()?.into_iter().max();
    worst.map(|(order, unit)| Design::Unpaired { order, unit })
}

#[cfg(test)]
mod tests;
