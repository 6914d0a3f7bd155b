//! Curves over CPU counts, with bands: intervals of the change at each CPU count that hold for
//! the whole curve together.

use records::Better;

use super::cell::ComparedCell;
use super::columns::{change, unit_and_direction};
use super::rules::Rules;
use crate::comparison::{Band, CellComparison, CellKey, CurveComparison, Method};
use crate::judge::RANKS_MIN;

/// The curves of a comparison: cells that differ only in their CPUs. `compared` are the
/// comparisons of `cells`.
pub(super) fn curves(
    cells: &[ComparedCell],
    compared: &[CellComparison],
    rules: &Rules,
) -> Vec<CurveComparison> {
    let mut curves: Vec<Vec<usize>> = Vec::new();
    for (index, cell) in compared.iter().enumerate() {
        match curves.iter_mut().find(|curve| on_one_curve(&compared[curve[0]].key, &cell.key)) {
            Some(curve) => curve.push(index),
            None => curves.push(vec![index]),
        }
    }
    curves.retain(|curve| curve.len() > 1);
    let comparison = |mut curve: Vec<usize>| {
        curve.sort_by_key(|index| compared[*index].key.cpus);
        let cpus: Vec<u32> = curve.iter().map(|index| compared[*index].key.cpus).collect();
        let better = compared[curve[0]].metrics[0].better;
        let curve_cells: Vec<&ComparedCell> = curve.iter().map(|index| &cells[*index]).collect();
        let intervals = intervals(&curve_cells, rules).into_iter();
        let bands = intervals.map(|intervals| band(intervals, &cpus, better)).collect();
        CurveComparison { cells: curve, bands }
    };
    curves.into_iter().map(comparison).collect()
}

/// Whether two cells are on one curve: as many tasks for each CPU, or as many tasks in all.
fn on_one_curve(a: &CellKey, b: &CellKey) -> bool {
    let tasks_per_cpu = |key: &CellKey| key.tasks as f64 / key.cpus as f64;
    let without_size = |key: &CellKey| CellKey { cpus: 0, tasks: 0, ..key.clone() };
    a.cpus > 0
        && a.cpus != b.cpus
        && without_size(a) == without_size(b)
        && (tasks_per_cpu(a) == tasks_per_cpu(b) || a.tasks == b.tasks)
}

/// The interval of the change at each cell of a curve; absent where there are too few units.
type Intervals = Vec<Option<(f64, f64)>>;

/// For each variant but the first, the intervals of its change. Each is at a level such that
/// all intervals of one variant hold together (Bonferroni).
fn intervals(cells: &[&ComparedCell], rules: &Rules) -> Vec<Intervals> {
    let variants = cells[0].points.len() - 1;
    let mut intervals = vec![Vec::new(); variants];
    for cell in cells {
        let metric = cell.primary(rules);
        if cell.hidden(&metric, rules).is_some() {
            intervals.iter_mut().for_each(|intervals| intervals.push(None));
            continue;
        }
        let (unit, _) = unit_and_direction(&cell.points[0].0.record, &metric);
        let columns = cell.columns(&metric, &unit, rules);
        let judgements = columns.judged_at(rules, rules.alpha / cells.len() as f64);
        for (intervals, judgement) in intervals.iter_mut().zip(judgements) {
            // Where ranks cannot reach this level, Student's interval would stand in unnamed.
            let stands_in = judgement.method == Method::Student && judgement.n >= RANKS_MIN;
            let interval = judgement.interval.filter(|_| !stands_in);
            let changes =
                interval.map(|(a, b)| (change(a, columns.scale), change(b, columns.scale)));
            intervals.push(changes);
        }
    }
    intervals
}

/// From which CPU count on a band shows a difference, and in which direction.
fn band(intervals: Intervals, cpus: &[u32], better: Better) -> Band {
    let is_higher = |interval: &Option<(f64, f64)>| match interval {
        Some((low, _)) if *low > 0.0 => Some(true),
        Some((_, high)) if *high < 0.0 => Some(false),
        _ => None,
    };
    let directions: Vec<Option<bool>> = intervals.iter().map(is_higher).collect();
    let last = directions.last().copied().flatten();
    let from = directions.iter().rposition(|direction| *direction != last);
    let from = from.map_or(0, |index| index + 1);
    let mut ahead: Vec<(u32, u32, Option<bool>)> = Vec::new();
    // Nobody is ahead in a metric that is neither good nor bad, nor without a whole band.
    let has_winner = better != Better::Neither && intervals.iter().all(Option::is_some);
    for (direction, cpus) in directions.iter().zip(cpus).filter(|_| has_winner) {
        let is_better = direction.map(|higher| higher == (better != Better::Lower));
        match ahead.last_mut() {
            Some((_, until, same)) if *same == is_better => *until = *cpus,
            _ => ahead.push((*cpus, *cpus, is_better)),
        }
    }
    Band { parts_from: last.map(|_| cpus[from]), intervals, ahead }
}
