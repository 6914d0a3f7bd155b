//! The survey: everything that a comparison says beside its single verdicts. Which variants
//! and places there are, how curves lie to each other, how far equal things differed, what was
//! left out, and what bounds all of it.

use std::collections::{BTreeMap, BTreeSet};

use records::{Directory, Guest, Outcome, Point, Record, Run, Scalar, Until, Variant};

use crate::columns::{boot_of, finite};
use crate::compare::{ALPHA, Arm, Cell, Rules, explore};
use crate::comparison::{
    Band, CellComparison, Compared, Comparison, CurveComparison, Design, Discard, Discards, Method,
    NoiseFloor, Place, RunValues, VarianceShare, Verdict,
};
use crate::components::{Component, components};
use crate::judge::RANKS_MIN;
use crate::{Spread, fisher};

/// Puts a comparison together. `raw` are the cells with each run by itself, where several in a boot
/// were made one; `left_out` are points of the baseline without partners.
pub(crate) fn whole(
    arms: &[Arm],
    design: Design,
    rules: &Rules,
    cells: &[Cell],
    raw: &[Cell],
    left_out: Vec<String>,
) -> Comparison {
    let mut said: Vec<CellComparison> = cells.iter().map(|cell| of_cell(cell, rules)).collect();
    explore(&mut said);
    let mut comparison = Comparison {
        variants: arms.iter().map(compared).collect(),
        primary: rules.primary.clone(),
        shown: rules.asked.clone(),
        smallest_effect: rules.smallest_effect,
        confidence: 1.0 - ALPHA,
        curves: curves(cells, &said, rules),
        noise_floor: noise_floor(cells, rules),
        variance: variance(raw, rules),
        discards: discards(cells, arms.len()),
        doubts: Vec::new(),
        design,
        cells: said,
    };
    comparison.doubts = doubts(arms, cells, &comparison, &left_out);
    if comparison.discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        withdraw(&mut comparison);
    }
    comparison
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
    let words = |prefix: &str, words: &BTreeMap<String, Scalar>| -> Vec<String> {
        words.iter().map(|(name, word)| format!("{prefix}{name}={}", word.0)).collect()
    };
    let path = |path: &std::path::PathBuf| path.display().to_string();
    let mut parts: Vec<String> = Vec::new();
    parts.extend(variant.workload.iter().cloned());
    parts.extend(words("", &variant.parameters));
    parts.extend(variant.form.map(|form| form.name().to_string()));
    parts.extend(variant.placement.map(|placement| placement.to_string()));
    parts.extend(variant.dir.iter().map(path));
    parts.extend(variant.file_system.iter().map(|made| made.to_string()));
    parts.extend(words("", &variant.environment));
    parts.extend(words("sysctl ", &variant.sysctl));
    parts.extend((!variant.under.is_empty()).then(|| format!("under {}", variant.under.join(" "))));
    parts.extend(variant.binary.iter().map(|binary| format!("binary {}", path(binary))));
    parts.extend(variant.guest.iter().flat_map(Guest::words));
    parts.join(", ")
}

fn of_cell(cell: &Cell, rules: &Rules) -> CellComparison {
    let arms = 0..cell.points.len();
    let failed = |arm: usize| {
        let (record, index) = cell.points[arm];
        let of_point = record.runs_of(index);
        of_point.filter(|run| !run.finished()).count()
    };
    let failed: Vec<usize> = arms.clone().map(failed).collect();
    let mut metrics = cell.metrics(rules);
    for metric in &mut metrics {
        for (arm, contrast) in metric.contrasts.iter_mut().enumerate() {
            let of = |arm: usize| failed[arm] + cell.sides[arm].len();
            let uneven = fisher::imbalance(&[failed[0], failed[arm + 1]], &[of(0), of(arm + 1)]);
            if uneven.is_some_and(|p| p < ALPHA) && contrast.interval.is_some() {
                let why =
                    "runs of one failed more often, and those that are left may be the lucky \
                           ones"
                        .to_string();
                contrast.verdict = Verdict::CannotTell { more: None, why };
                contrast.p = None;
            }
        }
    }
    CellComparison {
        place: place(cell),
        metrics,
        passes: arms.map(|arm| passes(cell, arm)).collect(),
        failed,
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
        .filter(|block| !block.reasons.is_empty())
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

/// Blocks that were left out, and whether the runs of one variant were disturbed more often.
fn discards(cells: &[Cell], arms: usize) -> Discards {
    let mut discards = Discards { by_variant: vec![0; arms], ..Discards::default() };
    let mut runs = vec![0; arms];
    for (index, cell) in cells.iter().enumerate() {
        for block in cell.blocks.iter().flatten() {
            discards.blocks += 1;
            for (arm, runs) in runs.iter_mut().enumerate() {
                *runs += usize::from(block.runs[arm].is_some());
                let own =
                    block.reasons.iter().filter(|(place, run, _)| *place == arm && !run.placebo);
                discards.by_variant[arm] += usize::from(own.count() > 0);
            }
            if let Some((_, run, reason)) = block.reasons.first() {
                discards.discarded.push(Discard {
                    cell: index,
                    block: block.number,
                    run: run.run,
                    reason: reason.clone(),
                });
            }
        }
    }
    discards.imbalance_p = fisher::imbalance(&discards.by_variant, &runs);
    discards
}

/// Takes back all that was found: the host disturbed one variant more than the others.
fn withdraw(comparison: &mut Comparison) {
    let metrics = comparison.cells.iter_mut().flat_map(|cell| &mut cell.metrics);
    for contrast in metrics.flat_map(|metric| &mut metric.contrasts) {
        let why = "one variant was disturbed more often than the others".to_string();
        contrast.verdict = Verdict::CannotTell { more: None, why };
        contrast.p = None;
    }
    comparison.curves.clear();
}

/// How far two runs of one point in one block were apart, in the deciding metric.
fn noise_floor(cells: &[Cell], rules: &Rules) -> Option<NoiseFloor> {
    let mut changes: Vec<f64> = Vec::new();
    for cell in cells {
        for block in cell.blocks.iter().flatten().filter(|block| block.reasons.is_empty()) {
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
            // Where ranks cannot reach this level, Student's interval would stand in unnamed.
            let stands_in = judgement.method == Method::Student && judgement.n >= RANKS_MIN;
            let interval = judgement.interval.filter(|_| !stands_in);
            band.push(interval.map(|(low, high)| (changed(low), changed(high))));
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
    // Of what is neither good nor bad nobody is ahead, nor where there is no band.
    let shown = better != records::Better::Neither && intervals.iter().all(Option::is_some);
    for (sign, cpus) in signs.iter().zip(cpus).filter(|_| shown) {
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
    let mut names: BTreeSet<String> = BTreeSet::new();
    let mut values: Vec<(Vec<u32>, f64)> = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let metric = cell.primary(rules);
        for (arm, side) in cell.sides.iter().enumerate() {
            let record = cell.points[arm].0;
            let log = |run: &Run| finite(run, &metric).filter(|v| *v > 0.0).map(f64::ln);
            for (run, log) in side.iter().filter_map(|run| Some((*run, log(run)?))) {
                names.insert(boot_of(record, run));
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
        units: if level == "boot" { names.len() } else { component.units },
        deviation: component.variance.sqrt(),
        share: if total > 0.0 { component.variance / total } else { 0.0 },
    };
    ["boot", "run"].into_iter().zip(within).map(share).collect()
}

/// What bounds the verdicts as a whole.
fn doubts(
    arms: &[Arm],
    cells: &[Cell],
    comparison: &Comparison,
    left_out: &[String],
) -> Vec<String> {
    let mut doubts = Vec::new();
    if comparison.design == Design::Separate {
        doubts.push(
            "the variants were not measured in turn: whatever else changed between them counts as \
             a difference too (`knee run --variant` measures them in turn)"
                .to_string(),
        );
        doubts.extend(differences(arms));
        doubts.extend(disturbed(arms, cells));
    }
    if !left_out.is_empty() {
        doubts.push(format!("not in all of them, and left out: {}", left_out.join("; ")));
    }
    let mut said: Vec<String> = Vec::new();
    for record in arms.iter().map(|arm| &arm.record.record) {
        let lacks = record.source.iter().flat_map(|source| source.lacks.clone());
        let warnings = record.warnings.iter().map(|warning| match warning.advice.as_str() {
            "" => warning.text.clone(),
            advice => format!("{}: {advice}", warning.text),
        });
        said.extend(lacks.chain(warnings));
    }
    for sentence in said {
        if !doubts.contains(&sentence) {
            doubts.push(sentence);
        }
    }
    let discards = &comparison.discards;
    if discards.discarded.len() as f64 > 0.3 * discards.blocks as f64 {
        doubts.push(
            "more than 30 % of the blocks were disturbed: this host is not fit to measure on just \
             now (`knee doctor`)"
                .to_string(),
        );
    }
    if discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        doubts.push(
            "one variant was disturbed more often than chance allows: no verdict stands"
                .to_string(),
        );
    }
    if cells.is_empty() {
        doubts.push("no cell has a point of every variant".to_string());
    }
    doubts
}

/// What else than the variants is not the same in several records.
fn differences(arms: &[Arm]) -> Vec<String> {
    let records = || arms.iter().map(|arm| &arm.record.record);
    let differing = |what: &str, of: &dyn Fn(&Record) -> Option<String>| {
        let values: BTreeSet<String> = records().filter_map(of).collect();
        (values.len() > 1).then(|| {
            let values = values.into_iter().collect::<Vec<_>>().join(" and ");
            format!("{what} differ ({values}): what is compared is all that differs")
        })
    };
    let mounts = |record: &Record| {
        let mount = |d: &Directory| {
            let options = d.mount_options.as_deref().unwrap_or_default();
            format!("{} {} {options}", d.path.display(), d.file_system.as_deref().unwrap_or("-"))
        };
        Some(record.directories.iter().map(mount).collect::<Vec<_>>().join(", "))
    };
    let mut found: Vec<String> = [
        differing("the hosts", &|r| r.host.hostname.clone()),
        differing("the CPU models", &|r| r.host.cpu_model.clone()),
        differing("the kernels", &|r| r.host.kernel_release.clone()),
        differing("the kernels' builds", &|r| r.host.kernel_version.clone()),
        differing("the kernels' command lines", &|r| r.host.kernel_command_line.clone()),
        differing("the directories", &mounts),
    ]
    .into_iter()
    .flatten()
    .collect();
    let names: BTreeSet<&String> = records().flat_map(|record| record.host.knobs.keys()).collect();
    for name in names {
        found.extend(differing(&format!("the settings of {name}"), &|r| {
            r.host.knobs.get(name).cloned()
        }));
    }
    let boots: BTreeSet<&str> =
        records().flat_map(|r| r.sessions.iter().map(|s| s.boot_id.as_str())).collect();
    if boots.len() > 1 && found.is_empty() {
        found.push(
            "they are of different boots, and what differs from boot to boot counts as a \
             difference too"
                .to_string(),
        );
    }
    found
}

/// Runs that were left out where there are no blocks.
fn disturbed(arms: &[Arm], cells: &[Cell]) -> Vec<String> {
    let of_arm = |(number, arm): (usize, &Arm)| {
        let left_out = || cells.iter().flat_map(move |cell| &cell.disturbed[number]);
        let (_, why) = left_out().next()?;
        let kept: usize = cells.iter().map(|cell| cell.sides[number].len()).sum();
        let n = left_out().count();
        Some(format!(
            "{n} of {} runs of `{}` were disturbed and left out (the first: {why})",
            n + kept,
            arm.name
        ))
    };
    arms.iter().enumerate().filter_map(of_arm).collect()
}
