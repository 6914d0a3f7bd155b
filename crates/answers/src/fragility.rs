//! Whether a verdict survives small changes of the load: what a record of such changes says.

use std::collections::BTreeMap;

use laws::{Change, Fragility, Situation, fragility};
use records::{Better, Opened, Point, Run, known_metric};
use schemars::JsonSchema;
use serde::Serialize;
use text::quantity::{duration_ns, short};

use crate::RATE;

/// Whether a verdict survives small changes of the load.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FragileAnswer {
    /// What the record of changed loads says.
    pub fragile: FragileReport,
}

/// What a record of changed loads says.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FragileReport {
    /// Name of the workload or command.
    pub workload: String,
    /// Names of the baseline and of the other side.
    pub variants: [String; 2],
    /// Number of CPUs of the verdict.
    pub cpus: u32,
    /// Number of tasks of the verdict.
    pub tasks: u32,
    /// Name of the metric that is judged.
    pub metric: String,
    /// The smallest difference that counts, as a share.
    pub smallest_effect: f64,
    /// Whether blocks are boots of a virtual machine.
    pub in_guests: bool,
    /// The verdict as it is, and at each changed load.
    pub fragility: Fragility,
}

/// What the record of `knee compare fragile` says.
///
/// # Errors
/// Says what the record lacks.
pub fn fragile(opened: &Opened) -> Result<FragileReport, String> {
    let record = &opened.record;
    let [a, b] = &record.variants[..] else {
        return Err(format!("{} has {} variants, not two", record.id, record.variants.len()));
    };
    if !record.experiment.perturbed {
        return Err(format!(
            "{} has no changed loads: knee compare fragile measures them around its verdict",
            record.id
        ));
    }
    let mut cells: BTreeMap<u32, [Option<usize>; 2]> = BTreeMap::new();
    for (index, point) in record.points.iter().enumerate() {
        let side = usize::from(point.variant == b.name);
        cells.entry(point.cell.unwrap_or(0)).or_default()[side] = Some(index);
    }
    let both: Vec<[usize; 2]> = cells.into_values().filter_map(|[a, b]| Some([a?, b?])).collect();
    let [here, around @ ..] = &both[..] else { return Err(format!("{} is empty", record.id)) };
    let at = &record.points[here[0]];
    let metric = record.deciding(at);
    let better = known_metric(&metric).map_or(Better::Higher, |metric| metric.better);
    let operation_ns = operation_ns(opened, here[0], at);
    let situation = |cell: &[usize; 2]| {
        let point = &record.points[cell[0]];
        Situation {
            name: changed(at, point, operation_ns),
            change: change(at, point),
            load: load(at, point),
            pairs: pairs(opened, cell, &metric, better),
        }
    };
    let smallest_effect = record.experiment.compare.smallest_effect;
    let around: Vec<Situation> = around.iter().map(situation).collect();
    Ok(FragileReport {
        workload: at.workload.clone(),
        variants: [a.name.clone(), b.name.clone()],
        cpus: at.cpus,
        tasks: at.tasks,
        in_guests: record.guest(&a.name).is_some() && record.guest(&b.name).is_some(),
        fragility: fragility(&situation(here), &around, smallest_effect)?,
        metric,
        smallest_effect,
    })
}

/// The time of one operation of one task, by the runs at a point.
fn operation_ns(opened: &Opened, index: usize, point: &Point) -> Option<f64> {
    let rates: Vec<f64> = opened.runs_of(index).filter_map(|run| run.value(RATE)).collect();
    let rate = analysis::Spread::from_values(&rates)?.median;
    Some(1e9 * f64::from(point.tasks.min(point.cpus)) / rate).filter(|ns| ns.is_finite())
}

/// Values of both sides in each block that has both, so that more is better.
fn pairs(opened: &Opened, cell: &[usize; 2], metric: &str, better: Better) -> Vec<(f64, f64)> {
    let by_block = |index: usize| -> BTreeMap<u32, Vec<f64>> {
        let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let runs = opened.runs_of(index).filter(|run: &&Run| !run.placebo);
        for (block, value) in runs.filter_map(|run| Some((run.block, run.value(metric)?))) {
            blocks.entry(block).or_default().push(value);
        }
        blocks
    };
    let [a, b] = cell.map(by_block);
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let of_block = |(block, a): (&u32, &Vec<f64>)| {
        let (a, b) = (mean(a), mean(b.get(block)?));
        Some(if better == Better::Lower { (1.0 / a, 1.0 / b) } else { (a, b) })
    };
    a.iter().filter_map(of_block).collect()
}

/// The logarithm of the tasks over those at the operating point, if nothing else differs.
fn load(at: &Point, point: &Point) -> Option<f64> {
    let is_same = at.parameters == point.parameters && at.placement == point.placement;
    is_same.then(|| (f64::from(point.tasks) / f64::from(at.tasks)).ln())
}

/// The kind of a point's change.
fn change(at: &Point, point: &Point) -> Change {
    let differs = |name: &str| at.parameters.get(name) != point.parameters.get(name);
    if point.placement != at.placement {
        return Change::Placement;
    }
    match point.tasks {
        tasks if tasks != at.tasks => Change::Tasks,
        _ if differs("hold_ns") => Change::Inside,
        _ if differs("idle_ns") => Change::Outside,
        _ => Change::Tasks,
    }
}

/// How a point's load differs: "one task more", "12 ns more inside (1 %)".
fn changed(at: &Point, point: &Point, operation_ns: Option<f64>) -> String {
    if point.placement != at.placement {
        return format!("placement {}", point.placement);
    }
    if point.tasks != at.tasks {
        return if point.tasks > at.tasks { "one task more" } else { "one task less" }.to_string();
    }
    let mean = |text: &String| text.split('~').next().and_then(|mean| mean.parse::<f64>().ok());
    for (name, place) in [("hold_ns", "inside"), ("idle_ns", "outside")] {
        let values =
            [at, point].map(|point| point.parameters.get(name).and_then(mean).unwrap_or(0.0));
        let more = values[1] - values[0];
        if more != 0.0 {
            let share = operation_ns.map(|ns| format!(" ({} %)", short(100.0 * more / ns)));
            return format!("{} more {place}{}", duration_ns(more), share.unwrap_or_default());
        }
    }
    "as it is".to_string()
}
