//! The blocks of a search for knees: each curve's counts that tell most, as far as the budget reaches. A pure function
//! of the record and the runs of earlier blocks, so the time that they took is read from when they started.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use host::topology;
use laws::{KneeSearch, TriedCount};
use records::{Adaptive, Outcome, Point, Record, Run, Until};

/// Seconds to start, verify and clean up a run, before any run has shown them.
const AROUND_S: f64 = 0.05;
/// The metric whose curves have the knees.
const RATE: &str = "operations_per_s";

/// The indices of the points of a block. Empty if all knees are known or the budget is spent.
pub fn points_to_run(record: &Record, before: &[&Run], block: u32) -> Vec<usize> {
    let Some(adaptive) = record.experiment.adaptive else { return Vec::new() };
    if block >= record.experiment.blocks() {
        return Vec::new();
    }
    let lengths = run_lengths_s(record, before);
    let mut left_s = adaptive.budget_s - lengths.values().sum::<f64>();
    let chosen = curves(record).into_iter().map(|curve| {
        let tried = tried(record, &curve, before, &lengths);
        let next = search(record, &curve, &adaptive).next(&tried);
        let point = |cpus: u32| {
            let at = curve.iter().copied().find(|at| record.points[*at].cpus == cpus)?;
            Some((at, length_s(&record.points[at], &tried)))
        };
        next.into_iter().filter_map(point).collect::<Vec<_>>()
    });
    let chosen: Vec<Vec<(usize, f64)>> = chosen.collect();
    let longest = chosen.iter().map(Vec::len).max().unwrap_or(0);
    // What tells most of each curve first: the budget may end within the block.
    let in_turn = (0..longest).flat_map(|rank| chosen.iter().filter_map(move |one| one.get(rank)));
    let affordable = in_turn.take_while(|(_, seconds)| {
        left_s -= seconds;
        left_s >= 0.0
    });
    affordable.map(|(at, _)| *at).collect()
}

/// Refuses a budget that is too short for two runs of the first counts, as far as the length of runs is known.
pub fn check_budget(record: &Record) -> Result<()> {
    let Some(adaptive) = record.experiment.adaptive else { return Ok(()) };
    let mut needed_s = 0.0;
    for curve in curves(record) {
        let first = search(record, &curve, &adaptive).first;
        let points = curve.iter().map(|at| &record.points[*at]);
        let points = points.filter(|point| first.contains(&point.cpus));
        needed_s += points.map(|point| 2.0 * length_s(point, &[])).sum::<f64>();
    }
    ensure!(
        needed_s <= adaptive.budget_s,
        "a budget of {} s is too short: two runs at each of the first CPU counts take about {needed_s:.0} s; \
         give --budget more, or shorten runs (--seconds)",
        adaptive.budget_s
    );
    Ok(())
}

/// The CPU counts of a record that are measured first, each once.
pub fn first_counts(record: &Record) -> Vec<u32> {
    let adaptive = record.experiment.adaptive.unwrap_or_default();
    let first =
        curves(record).into_iter().flat_map(|curve| search(record, &curve, &adaptive).first);
    first.collect::<BTreeSet<u32>>().into_iter().collect()
}

/// Points that differ in their CPUs alone, together.
fn curves(record: &Record) -> Vec<Vec<usize>> {
    let load = |point: &Point| Point { cpus: 0, cpu_list: Vec::new(), tasks: 0, ..point.clone() };
    let mut curves: Vec<(Point, Vec<usize>)> = Vec::new();
    for (index, point) in record.points.iter().enumerate() {
        let load = load(point);
        match curves.iter_mut().find(|(known, _)| *known == load) {
            Some((_, curve)) => curve.push(index),
            None => curves.push((load, vec![index])),
        }
    }
    curves.into_iter().map(|(_, curve)| curve).collect()
}

fn search(record: &Record, curve: &[usize], adaptive: &Adaptive) -> KneeSearch {
    let points = || curve.iter().map(|at| &record.points[*at]);
    let counts: BTreeSet<u32> = points().map(|point| point.cpus).collect();
    let largest = points().max_by_key(|point| point.cpus);
    let used = largest.map_or(&[][..], |point| &point.cpu_list[..]);
    let placement = largest.map_or_else(Default::default, |point| point.placement);
    let topology = record.topology.restricted_to(used);
    let first = topology::points("1..all", &topology, placement).unwrap_or_default();
    KneeSearch {
        first: first.into_iter().filter(|cpus| counts.contains(cpus)).collect(),
        counts: counts.into_iter().collect(),
        within: adaptive.knee_within,
    }
}

/// The runs of a curve by CPU count.
fn tried(
    record: &Record,
    curve: &[usize],
    before: &[&Run],
    lengths_s: &BTreeMap<u32, f64>,
) -> Vec<TriedCount> {
    let mut tried: Vec<TriedCount> = Vec::new();
    for at in curve {
        let runs: Vec<&&Run> = before.iter().filter(|run| run.point as usize == *at).collect();
        if runs.is_empty() {
            continue;
        }
        let seconds = runs.iter().filter_map(|run| lengths_s.get(&run.run));
        tried.push(TriedCount {
            cpus: record.points[*at].cpus,
            rates: runs.iter().filter_map(|run| run.value(RATE)).collect(),
            failed: runs.iter().filter(|run| matches!(run.outcome, Outcome::Failed { .. })).count(),
            seconds: seconds.sum::<f64>() / runs.len() as f64,
        });
    }
    tried
}

/// How long a run of a point takes: as long as at the nearest count that was tried.
fn length_s(point: &Point, tried: &[TriedCount]) -> f64 {
    let off = |one: &&TriedCount| (f64::from(one.cpus) / f64::from(point.cpus)).ln().abs();
    let nearest = tried.iter().min_by(|a, b| off(a).total_cmp(&off(b)));
    nearest.map_or_else(|| planned_s(point), |one| one.seconds)
}

fn planned_s(point: &Point) -> f64 {
    let run_s = match point.until {
        Until::Seconds(seconds) => seconds,
        Until::OperationsPerTask(_) | Until::End => 0.0,
    };
    run_s + AROUND_S
}

/// Seconds that these runs took, with what lay between them.
pub fn spent_s(record: &Record, runs: &[&Run]) -> f64 {
    run_lengths_s(record, runs).values().sum()
}

/// Seconds of each run, by its number: from its start to that of the next one. The last run of a session, of which that
/// is not known, takes as long as planned.
fn run_lengths_s(record: &Record, runs: &[&Run]) -> BTreeMap<u32, f64> {
    let starts: BTreeMap<u32, &Run> = runs.iter().map(|run| (run.run, *run)).collect();
    let sessions: BTreeSet<u32> = record.sessions.iter().map(|one| one.first_run).collect();
    let length = |run: &Run| {
        let next = run.run + 1;
        let next = starts.get(&next).filter(|_| !sessions.contains(&next));
        let seconds = next.map(|next| next.started.duration_since(run.started).as_secs_f64());
        let planned = || record.points.get(run.point as usize).map_or(AROUND_S, planned_s);
        seconds.unwrap_or_else(planned).max(0.0)
    };
    runs.iter().map(|run| (run.run, length(run))).collect()
}

#[cfg(test)]
mod tests;
