//! The survey: everything that a comparison says beside its single verdicts. Which variants
//! and places there are, how curves lie to each other, how far equal things differed, what was
//! left out, and what bounds all of it.

use std::collections::{BTreeMap, BTreeSet};

use records::{Outcome, Point, Run, Source, Until, Variant, Word};

use crate::columns::{boot_of, finite};
use crate::compare::{ALPHA, Arm, Cell, Rules};
use crate::comparison::{
    Band, CellComparison, Compared, Comparison, CurveComparison, Design, Discard, Discards,
    NoiseFloor, Place, RunValues, VarianceShare, Verdict,
};
use crate::components::{Component, components};
use crate::{Spread, fisher};

/// Puts a comparison together.
pub(crate) fn whole(arms: &[Arm], design: Design, rules: &Rules, cells: &[Cell]) -> Comparison {
    let discards = discards(cells, arms.len());
    let mut said: Vec<CellComparison> = cells.iter().map(|cell| of_cell(cell, rules)).collect();
    if discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        withdraw(&mut said);
    }
    Comparison {
        variants: arms.iter().map(compared).collect(),
        primary: rules.primary.clone(),
        smallest_effect: rules.smallest_effect,
        confidence: 1.0 - ALPHA,
        curves: curves(cells, &said, rules),
        noise_floor: noise_floor(cells, rules),
        variance: variance(cells, rules),
        doubts: doubts(arms, &design, cells, &discards),
        design,
        cells: said,
        discards,
    }
}

fn compared(arm: &Arm) -> Compared {
    let record = &arm.record.record;
    let variant = record.variants.iter().find(|variant| variant.name == arm.variant);
    let host = [&record.host.hostname, &record.host.kernel_release];
    let host: Vec<&str> = host.into_iter().filter_map(|part| part.as_deref()).collect();
    Compared {
        name: arm.name.to_string(),
        about: variant.map(about).unwrap_or_default(),
        record: record.id.clone(),
        host: host.join(", "),
    }
}

/// What a variant does differently, in words.
fn about(variant: &Variant) -> String {
    let words = |prefix: &str, words: &BTreeMap<String, Word>| -> Vec<String> {
        words.iter().map(|(name, word)| format!("{prefix}{name}={}", word.0)).collect()
    };
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let mut parts: Vec<String> = Vec::new();
    parts.extend(variant.workload.iter().cloned());
    parts.extend(words("", &variant.parameters));
    parts.extend(variant.form.map(|form| form.name().to_string()));
    parts.extend(variant.placement.map(|placement| placement.to_string()));
    parts.extend(variant.dir.iter().map(path));
    parts.extend(words("", &variant.environment));
    parts.extend(words("sysctl ", &variant.sysctl));
    parts.extend((!variant.under.is_empty()).then(|| format!("under {}", variant.under.join(" "))));
    parts.extend(variant.binary.iter().map(|binary| format!("binary {}", path(binary))));
    parts.join(", ")
}

fn of_cell(cell: &Cell, rules: &Rules) -> CellComparison {
    let arms = 0..cell.points.len();
    let failed = |arm: usize| {
        let (record, index) = cell.points[arm];
        let of_point = record.runs_of(index);
        of_point.filter(|run| !run.finished()).count()
    };
    CellComparison {
        place: place(cell),
        metrics: cell.metrics(rules),
        passes: arms.clone().map(|arm| passes(cell, arm)).collect(),
        failed: arms.map(failed).collect(),
    }
}

/// What all points of a cell have in common.
fn place(cell: &Cell) -> Place {
    let points: Vec<&Point> = (0..cell.points.len()).map(|arm| cell.point(arm)).collect();
    let first = points[0];
    let common = |text: &dyn Fn(&Point) -> String| {
        let texts: BTreeSet<String> = points.iter().map(|point| text(point)).collect();
        if texts.len() == 1 { text(first) } else { String::new() }
    };
    let mut workloads: Vec<&str> = Vec::new();
    for point in &points {
        if !workloads.contains(&point.workload.as_str()) {
            workloads.push(&point.workload);
        }
    }
    let shared = |(name, value): &(&String, &String)| {
        points.iter().all(|point| point.parameters.get(*name) == Some(*value))
    };
    let parameters = first.parameters.iter().filter(shared);
    Place {
        workload: workloads.join(" / "),
        parameters: parameters.map(|(name, value)| (name.clone(), value.clone())).collect(),
        // A command is a process anyway.
        form: common(&|point| match point.command {
            Some(_) => String::new(),
            None => point.form.name().to_string(),
        }),
        placement: common(&|point| point.placement.to_string()),
        cpus: first.cpus,
        tasks: first.tasks,
        pass: first.pass,
        dir: common(&|point| point.dir.display().to_string()),
        length: common(&|point| length(point.until)),
    }
}

fn length(until: Until) -> String {
    match until {
        Until::Seconds(s) => format!("{s} s"),
        Until::OperationsPerTask(n) => format!("{n} operations per task"),
        Until::End => "to its end".to_string(),
    }
}

/// All finished runs of an arm, in order of execution.
fn passes(cell: &Cell, arm: usize) -> Vec<RunValues> {
    let (record, index) = cell.points[arm];
    let discarded: BTreeSet<u32> = cell
        .blocks
        .iter()
        .flatten()
        .filter(|block| block.reason.is_some())
        .map(|block| block.number)
        .collect();
    let values = |run: &Run| match &run.outcome {
        Outcome::Finished { metrics, .. } if !run.placebo => Some(RunValues {
            run: run.run,
            block: run.block,
            discarded: discarded.contains(&run.block),
            metrics: metrics.clone(),
        }),
        _ => None,
    };
    record.runs_of(index).filter_map(values).collect()
}

/// Blocks that were left out, and whether one variant had more of the reasons.
fn discards(cells: &[Cell], arms: usize) -> Discards {
    let mut discards = Discards { by_variant: vec![0; arms], ..Discards::default() };
    for (index, cell) in cells.iter().enumerate() {
        for block in cell.blocks.iter().flatten() {
            discards.blocks += 1;
            if let Some((arm, run, reason)) = &block.reason {
                discards.by_variant[*arm] += 1;
                discards.discarded.push(Discard {
                    cell: index,
                    block: block.number,
                    run: run.run,
                    reason: reason.clone(),
                });
            }
        }
    }
    let of = vec![discards.blocks; arms];
    discards.imbalance_p = fisher::imbalance(&discards.by_variant, &of);
    discards
}

/// Takes back all verdicts: the host disturbed one variant more than the others.
fn withdraw(cells: &mut [CellComparison]) {
    let metrics = cells.iter_mut().flat_map(|cell| &mut cell.metrics);
    for contrast in metrics.flat_map(|metric| &mut metric.contrasts) {
        let why = "one variant was disturbed more often than the others".to_string();
        contrast.verdict = Verdict::CannotTell { more: None, why };
    }
}

/// How far two runs of one point in one block were apart, in the deciding metric.
fn noise_floor(cells: &[Cell], rules: &Rules) -> Option<NoiseFloor> {
    let mut changes: Vec<f64> = Vec::new();
    for cell in cells {
        for block in cell.blocks.iter().flatten().filter(|block| block.reason.is_none()) {
            let Some((arm, twin)) = block.placebo else { continue };
            let metric = cell.primary(rules);
            let value = |run: &Run| finite(run, &metric).filter(|value| *value > 0.0);
            let pair = block.runs[arm].and_then(|run| Some((value(run)?, value(twin)?)));
            changes.extend(pair.map(|(a, b)| (b / a - 1.0).abs()));
        }
    }
    let spread = Spread::of(&changes)?;
    Some(NoiseFloor {
        pairs: spread.n,
        median: spread.median,
        largest: spread.max,
        beyond: changes.iter().filter(|change| **change > rules.smallest_effect).count(),
    })
}

/// Cells that differ only in their CPUs, with bands that hold for all of them together.
fn curves(cells: &[Cell], said: &[CellComparison], rules: &Rules) -> Vec<CurveComparison> {
    let mut lanes: Vec<Vec<usize>> = Vec::new();
    for (index, cell) in said.iter().enumerate() {
        let lane = lanes.iter_mut().find(|lane| same_lane(&said[lane[0]].place, &cell.place));
        match lane {
            Some(lane) => lane.push(index),
            None => lanes.push(vec![index]),
        }
    }
    lanes.retain(|lane| lane.len() > 1);
    let curve = |mut lane: Vec<usize>| {
        lane.sort_by_key(|index| said[*index].place.cpus);
        let cpus: Vec<u32> = lane.iter().map(|index| said[*index].place.cpus).collect();
        let bands = bands(&lane.iter().map(|index| &cells[*index]).collect::<Vec<_>>(), rules);
        let better = said[lane[0]].metrics[0].better;
        let bands = bands.into_iter().map(|intervals| band(intervals, &cpus, better)).collect();
        CurveComparison { cells: lane, bands }
    };
    lanes.into_iter().map(curve).collect()
}

/// Whether two places are on one curve: as many tasks for each CPU, or as many at all.
fn same_lane(a: &Place, b: &Place) -> bool {
    let ratio = |place: &Place| place.tasks as f64 / place.cpus as f64;
    let rest = |place: &Place| {
        let Place { workload, parameters, form, placement, pass, dir, length, .. } = place.clone();
        (workload, parameters, form, placement, pass, dir, length)
    };
    a.cpus > 0
        && a.cpus != b.cpus
        && rest(a) == rest(b)
        && (ratio(a) == ratio(b) || a.tasks == b.tasks)
}

type Intervals = Vec<Option<(f64, f64)>>;

/// For each variant but the first, an interval of its change at each cell. Their levels are
/// such that all of one variant hold together (Bonferroni).
fn bands(cells: &[&Cell], rules: &Rules) -> Vec<Intervals> {
    let arms = cells[0].points.len() - 1;
    let mut bands = vec![Vec::new(); arms];
    for cell in cells {
        let metric = cell.primary(rules);
        let unit = crate::compare::unit(&cell.points[0].0.record, &metric).0;
        let lined_up = cell.lined_up(&metric, &unit, rules);
        let judged = lined_up.judged_at(rules, ALPHA / cells.len() as f64);
        for (band, judgement) in bands.iter_mut().zip(judged) {
            let changed = |d| crate::columns::change(d, lined_up.scale);
            band.push(judgement.interval.map(|(low, high)| (changed(low), changed(high))));
        }
    }
    bands
}

/// Where a band shows a difference.
fn band(intervals: Intervals, cpus: &[u32], better: records::Better) -> Band {
    let sign = |interval: &Option<(f64, f64)>| match interval {
        Some((low, _)) if *low > 0.0 => Some(true),
        Some((_, high)) if *high < 0.0 => Some(false),
        _ => None,
    };
    let signs: Vec<Option<bool>> = intervals.iter().map(sign).collect();
    let last = signs.last().copied().flatten();
    let from = signs.iter().rposition(|sign| *sign != last).map_or(0, |index| index + 1);
    let higher_is_better = better != records::Better::Lower;
    let mut ahead: Vec<(u32, u32, Option<bool>)> = Vec::new();
    for (sign, cpus) in signs.iter().zip(cpus) {
        let is_better = sign.map(|higher| higher == higher_is_better);
        match ahead.last_mut() {
            Some((_, until, same)) if *same == is_better => *until = *cpus,
            _ => ahead.push((*cpus, *cpus, is_better)),
        }
    }
    Band { parts_from: last.map(|_| cpus[from]), intervals, ahead }
}

/// How the variance of the deciding metric is split over boots and runs, where there were
/// several boots.
fn variance(cells: &[Cell], rules: &Rules) -> Vec<VarianceShare> {
    let mut boots: BTreeMap<String, u32> = BTreeMap::new();
    let mut values: Vec<(Vec<u32>, f64)> = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let metric = cell.primary(rules);
        for (arm, side) in cell.sides.iter().enumerate() {
            let record = cell.points[arm].0;
            let log = |run: &Run| finite(run, &metric).filter(|v| *v > 0.0).map(f64::ln);
            for (run, log) in side.iter().filter_map(|run| Some((*run, log(run)?))) {
                let boot = format!("{number} {arm} {}", boot_of(record, run));
                let next = boots.len() as u32;
                let boot = *boots.entry(boot).or_insert(next);
                values.push((vec![(number * cell.points.len() + arm) as u32, boot], log));
            }
        }
    }
    // Points differ by what is measured there; what varies is within them.
    let Some(components) = components(&values) else { return Vec::new() };
    let within = &components[1..];
    let total: f64 = within.iter().map(|component| component.variance).sum();
    let share = |(level, component): (&str, &Component)| VarianceShare {
        level: level.to_string(),
        units: component.units,
        deviation: component.variance.sqrt(),
        share: if total > 0.0 { component.variance / total } else { 0.0 },
    };
    ["boot", "run"].into_iter().zip(within).map(share).collect()
}

/// What bounds the verdicts as a whole.
fn doubts(arms: &[Arm], design: &Design, cells: &[Cell], discards: &Discards) -> Vec<String> {
    let mut doubts = Vec::new();
    if *design == Design::Separate {
        doubts.push(
            "the variants were not measured in turn: whatever else changed between them counts as \
             a difference too (`knee run --variant` measures them in turn)"
                .to_string(),
        );
    }
    let different = |what: &str, of: &dyn Fn(&Arm) -> Option<String>| {
        let values: BTreeSet<String> = arms.iter().filter_map(of).collect();
        (values.len() > 1).then(|| {
            let values = values.into_iter().collect::<Vec<_>>().join(" and ");
            format!("{what} differ ({values}): what is compared is all that differs")
        })
    };
    let host = |arm: &Arm| arm.record.record.host.clone();
    doubts.extend(different("the hosts", &|arm| host(arm).hostname));
    doubts.extend(different("the CPU models", &|arm| host(arm).cpu_model));
    doubts.extend(different("the kernels", &|arm| host(arm).kernel_release));
    let mut lacks: Vec<&String> = Vec::new();
    for lack in arms.iter().filter_map(|arm| source(arm)).flat_map(|source| &source.lacks) {
        if !lacks.contains(&lack) {
            lacks.push(lack);
        }
    }
    doubts.extend(lacks.into_iter().cloned());
    if discards.discarded.len() as f64 > 0.3 * discards.blocks as f64 {
        doubts.push(
            "more than 30 % of the blocks were disturbed: this host is not fit to measure on just \
             now (`knee doctor`)"
                .to_string(),
        );
    }
    if discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        doubts.push("one variant was disturbed more often than chance allows".to_string());
    }
    if cells.is_empty() {
        doubts.push("no cell has a point of every variant".to_string());
    }
    doubts
}

fn source<'a>(arm: &Arm<'a>) -> Option<&'a Source> {
    arm.record.record.source.as_ref()
}
