//! When to stop: which points of a cell still need a run, decided while an experiment runs.

use records::{Record, Run};

use super::blocks::{Block, blocks};
use super::columns::{Column, MetricColumns, finite, scaled, unit_and_direction};
use super::emulated::hidden_by_emulation;
use super::repeats;
use super::rules::{ALPHA, Rules};
use crate::judge::MISSES;

/// The largest number of blocks, if `cap` of them are to count: blocks that are left out are run
/// again, up to a third more.
pub fn blocks_at_most(cap: u32) -> u32 {
    cap.saturating_add(cap.div_ceil(3))
}

/// Blocks after which a comparison that goes on until decided is given up, if the host disturbed each of them: whoever
/// measures beside a build learns that in a fifth of the time.
const ALL_DISTURBED: usize = 12;

/// The points of a cell that are to run in block `block`, given the runs of the blocks before.
/// `points` has one point for each variant, the baseline's first.
///
/// All points run until enough blocks count for each pair, or until all pairs are decided, or until it shows that the host
/// lets no block count. A variant whose runs have all failed is given up; a baseline takes its whole cell with it.
///
/// A record may hold some blocks alone. Then as many must count as it was asked for below the planned number, and
/// the blocks beyond are spares for those that the host disturbs.
pub fn points_to_run(record: &Record, points: &[usize], runs: &[&Run], block: u32) -> Vec<usize> {
    open_points(record, points, runs, block, MISSES[0])
}

/// The points that are to run in block `block` of a gate, for each of its cells. Where `may_reexamine`, cells that were set
/// aside as harmless run again once no other is open, the most suspicious first.
pub fn gate_points_to_run(
    record: &Record,
    cells: &[Vec<usize>],
    runs: &[Vec<&Run>],
    block: u32,
    may_reexamine: bool,
) -> Vec<Vec<usize>> {
    let misses = if may_reexamine { &MISSES[..] } else { &MISSES[..1] };
    let open = |miss: &f64| -> Vec<Vec<usize>> {
        let cells = cells.iter().zip(runs);
        cells.map(|(points, runs)| open_points(record, points, runs, block, *miss)).collect()
    };
    let is_any = |open: &Vec<Vec<usize>>| open.iter().any(|points| !points.is_empty());
    misses.iter().map(open).find(is_any).unwrap_or_else(|| vec![Vec::new(); cells.len()])
}

/// [`points_to_run`], where a gate's cell is harmless at this probability of a miss.
fn open_points(
    record: &Record,
    points: &[usize],
    runs: &[&Run],
    block: u32,
    miss: f64,
) -> Vec<usize> {
    let cap = record.experiment.blocks();
    let runs = repeats::merged_runs(runs.iter().copied());
    let blocks = blocks(record, points, &runs);
    let rules = Rules::for_record(record);
    let metric = record.deciding_or(&record.points[points[0]], &rules.primary);
    let is_measured = |block: &Block, arm: usize| {
        block.runs[arm].is_some_and(|run| finite(run, &metric).is_some())
    };
    let is_hopeless = |arm: usize| blocks.len() >= 3 && !blocks.iter().any(|b| is_measured(b, arm));
    let alive: Vec<usize> = (0..points.len()).filter(|arm| !is_hopeless(*arm)).collect();
    let limit = if record.blocks.is_some() { u32::MAX } else { blocks_at_most(cap) };
    // A cell of a gate may have been set aside in some of the blocks.
    let own_blocks = if rules.spares_harmless { blocks.len() as u32 } else { block };
    if own_blocks >= limit || alive.first() != Some(&0) || alive.len() < 2 {
        return Vec::new();
    }
    let in_steps = record.experiment.compare.in_steps;
    // By their place among those alive.
    let pairs = |place: usize| -> Vec<(&Run, &Run)> {
        let partner = if in_steps { alive[place - 1] } else { 0 };
        blocks.iter().filter_map(|block| block.pair(partner, alive[place])).collect()
    };
    let wanted = record
        .blocks
        .as_ref()
        .map_or(cap as usize, |blocks| blocks.iter().filter(|block| **block < cap).count());
    let is_enough = (1..alive.len()).all(|place| pairs(place).len() >= wanted);
    let is_decided = || {
        let value = |run: &Run| finite(run, &metric);
        let side = |arm: &usize| blocks.iter().map(|b| b.runs[*arm].and_then(value)).collect();
        let sides: Vec<Vec<Option<f64>>> = alive.iter().map(side).collect();
        let (unit, better) = unit_and_direction(record, &metric);
        let columns = MetricColumns::new(&sides, &unit, |side, scale| {
            let difference =
                |(a, b): (&Run, &Run)| Some(scaled(value(b)?, scale) - scaled(value(a)?, scale));
            Column::Paired(pairs(side).into_iter().filter_map(difference).collect())
        });
        let judged = if in_steps {
            columns.judged_at(&rules, ALPHA / (alive.len() - 1) as f64)
        } else {
            columns.judged(&rules)
        };
        let mut harmless = vec![false; judged.len()];
        if rules.spares_harmless {
            harmless = columns.harmless_at(miss, &rules, better);
        }
        judged.iter().zip(harmless).all(|(judgement, harmless)| judgement.stop || harmless)
    };
    let is_hidden = || {
        let is_hidden = is_hidden(record, points[0], &runs, &metric);
        !blocks.is_empty() && !rules.judge_emulated && is_hidden
    };
    // A gate has its own budget, and part of a record one host of many.
    let may_give_up = !rules.spares_harmless && record.blocks.is_none();
    let is_given_up = || {
        let all_disturbed = || blocks.iter().all(|block| !block.reasons.is_empty());
        may_give_up && blocks.len() >= ALL_DISTURBED && all_disturbed()
    };
    if is_enough || (rules.sequential() && (is_decided() || is_hidden() || is_given_up())) {
        return Vec::new();
    }
    alive.into_iter().map(|arm| points[arm]).collect()
}

/// Whether no further block would help: a time in emulated guests has no verdict.
fn is_hidden(record: &Record, point: usize, runs: &[Run], metric: &str) -> bool {
    let runs: Vec<&Run> = runs.iter().collect();
    let until = record.points[point].until;
    record.emulated() && hidden_by_emulation(record, metric, until, &runs).is_some()
}
