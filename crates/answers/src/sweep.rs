//! The curves of a record as inputs of laws.

use std::collections::BTreeMap;

use analysis::{Curve, CurveCell};
use laws::{Hysteresis, Sweep, UpAndDown};
use records::{PointOrder, Record, known_metric};
use text::quantity::seconds_in;

use crate::RATE;

/// The metric by which a curve is looked at: the one that is asked for, or the one that decides where no run has the rate
/// that is looked at by default.
pub fn curve_metric(record: &Record, curve: &Curve, asked: &str) -> String {
    let has = |name: &str| curve.cells.iter().any(|cell| !cell.values(name).is_empty());
    let deciding = record.deciding(curve.point);
    let stands_in = asked == RATE && !has(asked) && has(&deciding);
    if stands_in { deciding } else { asked.to_string() }
}

/// The name of the rates of a sweep by this metric: "tps", "1 / wall_s".
pub fn rate_name(record: &Record, metric: &str) -> String {
    match unit_of(record, metric).and_then(seconds_in) {
        Some(_) => format!("1 / {metric}"),
        None => metric.to_string(),
    }
}

fn unit_of<'a>(record: &'a Record, metric: &str) -> Option<&'a str> {
    let described = record.metrics.get(metric).map(|described| described.unit.as_str());
    described.or_else(|| known_metric(metric).map(|known| known.unit))
}

/// The sweep of a curve's metric in operations per second, if the curve has enough CPU counts. A time of a run is taken
/// as runs per second.
///
/// # Errors
/// Says what the curve lacks, or that the metric is no rate.
pub fn sweep(record: &Record, curve: &Curve, metric: &str) -> Result<Sweep, String> {
    let metric = &curve_metric(record, curve, metric)[..];
    let unit = unit_of(record, metric);
    if let Some(seconds) = unit.and_then(seconds_in) {
        let rate = |time: f64| if time > 0.0 { 1.0 / (time * seconds) } else { 0.0 };
        let rates = |cell: &CurveCell| cell.values(metric).into_iter().map(rate).collect();
        let runs = curve.cells.iter().map(|cell| (cell.at, rates(cell)));
        return Sweep::without_zeros(&curve.axis, runs.collect::<Vec<_>>());
    }
    let per_s = unit.map_or(Some(1.0), rate_per_s).ok_or_else(|| {
        let unit = unit.filter(|unit| *unit != "1").unwrap_or("a plain number");
        format!("{metric} is no rate ({unit}): a law of scaling takes one, such as {RATE}")
    })?;
    let values = |cell: &CurveCell| -> Vec<f64> {
        cell.values(metric).into_iter().map(|rate| rate * per_s).collect()
    };
    let runs: Vec<_> = curve.cells.iter().map(|cell| (cell.at, values(cell))).collect();
    if runs.iter().all(|(_, rates)| rates.is_empty()) {
        return Err(format!("no run here has {metric}{}", other_rates(record)));
    }
    let sweep = Sweep::without_zeros(&curve.axis, runs)?;
    Ok(if record.experiment.adaptive.is_some() { sweep.searched() } else { sweep })
}

/// What a rate of 1 in this unit is per second; `None` if the unit is of no rate.
fn rate_per_s(unit: &str) -> Option<f64> {
    let (_, time) = unit.rsplit_once('/')?;
    Some(1.0 / seconds_in(time)?)
}

/// The rates that an imported record has, as advice.
fn other_rates(record: &Record) -> String {
    let rates = record.metrics.iter().filter(|(_, metric)| rate_per_s(&metric.unit).is_some());
    let names: Vec<&str> = rates.map(|(name, _)| name.as_str()).take(5).collect();
    match names.len() {
        0 => String::new(),
        _ => format!("; --metric takes its rates: {}", names.join(", ")),
    }
}

/// The hysteresis of a curve. `None` unless its record sweeps up and down, at least twice each way.
pub fn hysteresis(record: &Record, curve: &Curve, metric: &str) -> Option<Hysteresis> {
    if record.experiment.compare.order != PointOrder::UpDown {
        return None;
    }
    let mut sweeps: BTreeMap<u32, Vec<(u32, f64)>> = BTreeMap::new();
    for cell in &curve.cells {
        for run in &cell.runs {
            let Some(rate) = run.value(metric) else { continue };
            sweeps.entry(run.block).or_default().push((cell.at, rate));
        }
    }
    let pair = |(block, up): (&u32, &Vec<(u32, f64)>)| {
        let down = sweeps.get(&(block + 1)).filter(|_| block.is_multiple_of(2))?;
        Some(UpAndDown { up: up.clone(), down: down.clone() })
    };
    laws::hysteresis(&sweeps.iter().filter_map(pair).collect::<Vec<_>>())
}
