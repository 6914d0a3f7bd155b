//! The survey: everything that a comparison says besides its single verdicts. Which variants
//! and cells there are, how far equal runs differed, which blocks were left out, and where the
//! variance comes from.

use std::collections::{BTreeMap, BTreeSet};

use host::in_parallel;
use records::{Guest, Outcome, Point, Run, Scalar, Until, Variant};

use super::arm::Arm;
use super::bands::curves;
use super::cell::{ComparedCell, Role};
use super::columns::{boot_of, finite, node_of};
use super::nodes;
use super::rules::{ALPHA, Rules};
use super::verdicts::adjust_exploratory;
use super::warnings::warnings;
use crate::comparison::{
    CellComparison, CellKey, ComparedVariant, Comparison, Design, DiscardedBlock, Discards,
    MetricComparison, NoiseFloor, RunValues, VarianceShare, Verdict,
};
use crate::components::{Component, components};
use crate::{Spread, fisher};

/// Puts a comparison together. `raw` are the same cells before repeated runs of a boot were
/// merged; `left_out` are points of the baseline without partners.
pub(super) fn assemble(
    arms: &[Arm],
    rules: &Rules,
    cells: &[ComparedCell],
    raw: &[ComparedCell],
    left_out: Vec<String>,
) -> Comparison {
    let metrics = metrics(cells, rules);
    let compared = cells.iter().zip(metrics).map(|(cell, metrics)| cell_comparison(cell, metrics));
    let mut compared: Vec<CellComparison> = compared.collect();
    adjust_exploratory(&mut compared);
    let mut comparison = Comparison {
        variants: arms.iter().map(compared_variant).collect(),
        primary: cells.first().map_or(rules.primary.clone(), |cell| cell.primary(rules)),
        shown: rules.asked.clone(),
        smallest_effect: rules.smallest_effect,
        confidence: 1.0 - rules.alpha,
        curves: curves(cells, &compared, rules),
        noise_floor: noise_floor(cells, rules),
        variance: variance(raw, rules),
        nodes: None,
        discards: discards(cells, arms.len()),
        warnings: Vec::new(),
        design: rules.design,
        cells: compared,
    };
    nodes::learn(&mut comparison, cells, rules);
    comparison.warnings = warnings(arms, cells, &comparison, &left_out);
    if rules.design == Design::Separate {
        // A band says from where on curves diverge, which would be a verdict.
        comparison.curves.clear();
    }
    if comparison.discards.imbalance_p.is_some_and(|p| p < ALPHA) {
        withdraw(&mut comparison);
    }
    comparison
}

fn compared_variant(arm: &Arm) -> ComparedVariant {
    let record = &arm.record.record;
    let variant = record.variants.iter().find(|variant| variant.name == arm.variant);
    let host = [&record.host.hostname, &record.host.kernel_release];
    let host: Vec<&str> = host.into_iter().filter_map(|part| part.as_deref()).collect();
    ComparedVariant {
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
    parts.extend(variant.daemon.iter().map(|daemon| format!("daemon {}", daemon.run.text())));
    parts.extend((!variant.under.is_empty()).then(|| format!("under {}", variant.under.join(" "))));
    parts.extend(variant.binary.iter().map(|binary| format!("binary {}", path(binary))));
    parts.extend(variant.guest.iter().flat_map(Guest::words));
    parts.join(", ")
}

/// Metrics that are read in one walk over the runs of a cell: a record may have more runs than the CPU's cache holds.
const READ_AT_ONCE: usize = 4;

/// The comparisons of all metrics of each cell. Metrics are judged beside each other: a record may have one cell.
fn metrics(cells: &[ComparedCell], rules: &Rules) -> Vec<Vec<MetricComparison>> {
    let names: Vec<Vec<(String, Role)>> = cells.iter().map(|cell| cell.metrics(rules)).collect();
    let parts: Vec<(usize, &[(String, Role)])> = names
        .iter()
        .enumerate()
        .flat_map(|(cell, names)| names.chunks(READ_AT_ONCE).map(move |part| (cell, part)))
        .collect();
    let judged = in_parallel(parts.len(), |index| {
        let (cell, part) = parts[index];
        cells[cell].compared(part, rules)
    });
    let mut metrics: Vec<Vec<MetricComparison>> = vec![Vec::new(); cells.len()];
    for ((cell, _), judged) in parts.iter().zip(judged) {
        metrics[*cell].extend(judged);
    }
    metrics
}

/// A cell with its metrics, less the verdicts that failed runs forbid.
fn cell_comparison(cell: &ComparedCell, mut metrics: Vec<MetricComparison>) -> CellComparison {
    let arms = 0..cell.points.len();
    let count_failed = |arm: usize| {
        let (record, index) = cell.points[arm];
        record.runs_of(index).filter(|run| !run.finished()).count()
    };
    let failed: Vec<usize> = arms.clone().map(count_failed).collect();
    let runs: Vec<usize> = arms.clone().map(|arm| failed[arm] + cell.sides[arm].len()).collect();
    for metric in &mut metrics {
        for (contrast, arm) in metric.contrasts.iter_mut().zip(1..) {
            let imbalance = fisher::imbalance(&[failed[0], failed[arm]], &[runs[0], runs[arm]]);
            if imbalance.is_some_and(|p| p < ALPHA) && contrast.interval.is_some() {
                let why = "runs of one variant failed more often, and those that finished may be \
                           the lucky ones";
                contrast.verdict = Verdict::CannotTell { more: None, why: why.to_string() };
                contrast.p = None;
            }
        }
    }
    CellComparison {
        key: key(cell),
        metrics,
        passes: arms.map(|arm| passes(cell, arm)).collect(),
        failed,
    }
}

/// What all points of a cell have in common.
fn key(cell: &ComparedCell) -> CellKey {
    let points: Vec<&Point> = (0..cell.points.len()).map(|arm| cell.point(arm)).collect();
    let first = points[0];
    let record = &cell.points[0].0.record;
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
    let is_shared = |(name, value): &(&String, &String)| {
        points.iter().all(|point| point.parameters.get(*name) == Some(*value))
    };
    let parameters = first.parameters.iter().filter(is_shared);
    CellKey {
        workload: workloads.join(" / "),
        parameters: parameters.map(|(name, value)| (name.clone(), value.clone())).collect(),
        // A command is always a process.
        form: common(&|point| match point.command {
            Some(_) => String::new(),
            None => record.known_form(point).to_string(),
        }),
        placement: common(&|point| point.placement.to_string()),
        cpus: first.cpus,
        tasks: first.tasks,
        pass: first.pass,
        dir: common(&|point| point.dir.display().to_string()),
        // How long another tool's run was is not known.
        length: match record.source {
            Some(_) => String::new(),
            None => common(&|point| length(point.until)),
        },
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
fn passes(cell: &ComparedCell, arm: usize) -> Vec<RunValues> {
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
fn discards(cells: &[ComparedCell], arms: usize) -> Discards {
    let mut discards = Discards { by_variant: vec![0; arms], ..Discards::default() };
    let mut runs = vec![0; arms];
    for (index, cell) in cells.iter().enumerate() {
        for block in cell.blocks.iter().flatten() {
            discards.blocks += 1;
            for (arm, runs) in runs.iter_mut().enumerate() {
                *runs += usize::from(block.runs[arm].is_some());
                let is_own =
                    |(disturbed, run, _): &(usize, &Run, String)| *disturbed == arm && !run.placebo;
                discards.by_variant[arm] += usize::from(block.reasons.iter().any(is_own));
            }
            if let Some((_, run, reason)) = block.reasons.first() {
                discards.discarded.push(DiscardedBlock {
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

/// Takes all verdicts back: the host disturbed one variant more than the others.
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
fn noise_floor(cells: &[ComparedCell], rules: &Rules) -> Option<NoiseFloor> {
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
    let spread = Spread::from_values(&changes)?;
    Some(NoiseFloor {
        pairs: spread.n,
        median: spread.median,
        largest: spread.max,
        beyond: changes.iter().filter(|change| **change > rules.smallest_effect).count(),
    })
}

/// How the variance of the deciding metric is divided among nodes, boots and runs. Empty without
/// several nodes or boots.
fn variance(cells: &[ComparedCell], rules: &Rules) -> Vec<VarianceShare> {
    let values = nested_values(cells, rules);
    let units =
        |unit: fn(&NestedValue) -> &String| values.iter().map(unit).collect::<BTreeSet<_>>().len();
    let (nodes, boots) = (units(|value| &value.node), units(|value| &value.boot));
    if nodes <= 1 && boots <= 1 {
        return Vec::new();
    }
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let mut number = |unit: &str, point: u32| {
        let next = numbers.len() as u32;
        *numbers.entry(format!("{point} {unit}")).or_insert(next)
    };
    let paths: Vec<([u32; 3], f64)> = values
        .iter()
        .map(|value| {
            let node = number(&format!("node {}", value.node), value.point);
            let boot = number(&format!("boot {} {}", value.node, value.boot), value.point);
            ([value.point, node, boot], value.log)
        })
        .collect();
    let nested = |levels: &[usize]| {
        let path = |path: &[u32; 3]| levels.iter().map(|level| path[*level]).collect();
        components(&paths.iter().map(|(all, log)| (path(all), *log)).collect::<Vec<_>>())
    };
    // The outermost level is the points, which differ by what they measure. Only the variance
    // within them counts. With one boot for each node, the two are one level.
    let both = (nodes > 1)
        .then(|| nested(&[0, 1, 2]))
        .flatten()
        .map(|c| (&["node", "boot", "run"][..], c));
    let nodes_alone =
        || (nodes > 1).then(|| nested(&[0, 1])).flatten().map(|c| (&["node", "run"][..], c));
    let boots_alone = || nested(&[0, 2]).map(|c| (&["boot", "run"][..], c));
    let Some((levels, components)) = both.or_else(nodes_alone).or_else(boots_alone) else {
        return Vec::new();
    };
    let within = &components[1..];
    let total: f64 = within.iter().map(|component| component.variance).sum();
    let share = |(level, component): (&&str, &Component)| VarianceShare {
        level: level.to_string(),
        units: match *level {
            "node" => nodes,
            "boot" => boots,
            _ => component.units,
        },
        deviation: component.variance.sqrt(),
        share: if total > 0.0 { component.variance / total } else { 0.0 },
    };
    levels.iter().zip(within).map(share).collect()
}

/// A value with the units that it was measured in.
struct NestedValue {
    point: u32,
    node: String,
    boot: String,
    log: f64,
}

fn nested_values(cells: &[ComparedCell], rules: &Rules) -> Vec<NestedValue> {
    let mut values = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let metric = cell.primary(rules);
        for (arm, side) in cell.sides.iter().enumerate() {
            let record = cell.points[arm].0;
            let log = |run: &Run| finite(run, &metric).filter(|v| *v > 0.0).map(f64::ln);
            let measured = side.iter().filter_map(|run| Some((*run, log(run)?)));
            values.extend(measured.map(|(run, log)| NestedValue {
                point: (number * cell.points.len() + arm) as u32,
                node: node_of(record, run).unwrap_or_default().to_string(),
                boot: boot_of(record, run),
                log,
            }));
        }
    }
    values
}
