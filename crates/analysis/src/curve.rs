//! Curves: the points of a record that differ only in their CPU count, together.

use std::collections::BTreeMap;

use records::{Form, Opened, Pass, Point, Run};

use crate::Spread;

/// One workload as it scales: everything but the CPUs (and the tasks that follow them) is
/// the same in all its cells.
#[derive(Debug)]
pub struct Curve<'a> {
    /// A point of it, for what all have in common.
    pub point: &'a Point,
    /// Tasks for each CPU, where it is the same in all cells.
    pub tasks_per_cpu: Option<f64>,
    /// Its cells, by number of CPUs, ascending.
    pub cells: Vec<Cell<'a>>,
}

/// One point of a curve with its runs.
#[derive(Debug)]
pub struct Cell<'a> {
    /// The point.
    pub point: &'a Point,
    /// Its finished runs, in order of execution.
    pub runs: Vec<&'a Run>,
    /// How many of its runs failed.
    pub failed: usize,
}

impl Cell<'_> {
    /// The values of a metric, one a run that has it.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.value(metric)).collect()
    }

    /// Mean and spread of a metric over runs.
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        Spread::of(&self.values(metric))
    }
}

impl Curve<'_> {
    /// Rate for each CPU of this cell over that of the curve's first cell: 1 follows the
    /// linear ideal.
    pub fn efficiency(&self, cell: &Cell, metric: &str) -> Option<f64> {
        let first = self.cells.first()?;
        // What was imported may not tell its CPUs.
        let cpus = |cell: &Cell| Some(cell.point.cpus as f64).filter(|cpus| *cpus > 0.0);
        let per_cpu = |cell: &Cell| Some(cell.spread(metric)?.mean / cpus(cell)?);
        let base = per_cpu(first).filter(|rate| *rate > 0.0)?;
        Some(per_cpu(cell)? / base)
    }

    /// The cell with the highest mean of a metric.
    pub fn peak(&self, metric: &str) -> Option<&Cell<'_>> {
        let mean = |cell: &&Cell| cell.spread(metric).map_or(f64::NEG_INFINITY, |s| s.mean);
        self.cells.iter().max_by(|a, b| mean(a).total_cmp(&mean(b)))
    }
}

/// What the points of one curve share, as text.
fn key(point: &Point) -> (String, Pass, Form, String) {
    let Point { workload, semantics, parameters, placement, until, dir, variant, .. } = point;
    let (command, other) = (&point.command, &point.other);
    let dir = dir.display();
    let rest = format!(
        "{semantics} {parameters:?} {placement} {until:?} {dir} {variant:?} {command:?} {other:?}"
    );
    (workload.clone(), point.pass, point.form, rest)
}

/// The curves of a record, in the order of its points.
pub fn curves(record: &Opened) -> Vec<Curve<'_>> {
    let points = &record.record.points;
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        groups.entry(key(point)).or_default().push(index);
    }
    let mut lanes: Vec<Vec<usize>> =
        groups.into_values().flat_map(|group| by_tasks(points, group)).collect();
    lanes.sort_by_key(|lane| lane[0]);
    lanes.iter().map(|lane| curve(record, lane)).collect()
}

/// A group's points apart by their tasks: by the number itself or by tasks for each CPU,
/// whichever makes fewer curves.
fn by_tasks(points: &[Point], group: Vec<usize>) -> Vec<Vec<usize>> {
    let mut by_number: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut by_ratio: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
    for index in group {
        let Point { tasks, cpus, .. } = points[index];
        by_number.entry(tasks).or_default().push(index);
        // As a fraction in lowest terms, so that equal ratios are equal keys.
        let divisor = greatest_common_divisor(tasks, cpus).max(1);
        by_ratio.entry((tasks / divisor, cpus / divisor)).or_default().push(index);
    }
    if by_number.len() <= by_ratio.len() {
        by_number.into_values().collect()
    } else {
        by_ratio.into_values().collect()
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

fn curve<'a>(record: &'a Opened, points: &[usize]) -> Curve<'a> {
    let mut cells: Vec<Cell> = points
        .iter()
        .map(|&index| {
            // Placebo runs would count a point twice.
            let runs = || record.runs_of(index).filter(|run| !run.placebo);
            Cell {
                point: &record.record.points[index],
                runs: runs().filter(|r| r.finished()).collect(),
                failed: runs().filter(|r| !r.finished()).count(),
            }
        })
        .collect();
    cells.sort_by_key(|cell| cell.point.cpus);
    let ratio = |cell: &Cell| cell.point.tasks as f64 / cell.point.cpus as f64;
    let first = ratio(&cells[0]);
    let same = first.is_finite() && cells.iter().all(|c| ratio(c) == first);
    let tasks_per_cpu = same.then_some(first);
    Curve { point: &record.record.points[points[0]], tasks_per_cpu, cells }
}
