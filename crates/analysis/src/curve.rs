//! Curves: the points of a record that differ only in their CPU count, together.

use std::collections::BTreeMap;

use records::{Form, Opened, Pass, Point, Run};

use crate::Spread;

/// One workload over a range of CPU counts. Everything but the CPUs, and the tasks that follow
/// them, is the same in all cells.
#[derive(Debug)]
pub struct Curve<'a> {
    /// One of its points, for what all of them have in common.
    pub point: &'a Point,
    /// Tasks for each CPU, if this ratio is the same in all cells.
    pub tasks_per_cpu: Option<f64>,
    /// The cells by number of CPUs, ascending.
    pub cells: Vec<CurveCell<'a>>,
}

/// One point of a curve with its runs.
#[derive(Debug)]
pub struct CurveCell<'a> {
    pub point: &'a Point,
    /// The finished runs, in order of execution.
    pub runs: Vec<&'a Run>,
    /// The number of runs that failed.
    pub failed: usize,
}

impl CurveCell<'_> {
    /// The values of a metric, one for each run that has it.
    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.value(metric)).collect()
    }

    /// Mean and spread of a metric over runs.
    pub fn spread(&self, metric: &str) -> Option<Spread> {
        Spread::from_values(&self.values(metric))
    }
}

impl Curve<'_> {
    /// The rate for each CPU in `cell`, divided by that in the curve's first cell: 1 is linear
    /// scaling.
    pub fn efficiency(&self, cell: &CurveCell, metric: &str) -> Option<f64> {
        let first = self.cells.first()?;
        // An imported point may have an unknown number of CPUs, 0.
        let cpus = |cell: &CurveCell| Some(cell.point.cpus as f64).filter(|cpus| *cpus > 0.0);
        let per_cpu = |cell: &CurveCell| Some(cell.spread(metric)?.mean / cpus(cell)?);
        let base = per_cpu(first).filter(|rate| *rate > 0.0)?;
        Some(per_cpu(cell)? / base)
    }

    /// The cell with the highest mean of a metric.
    pub fn peak(&self, metric: &str) -> Option<&CurveCell<'_>> {
        let mean = |cell: &&CurveCell| cell.spread(metric).map_or(f64::NEG_INFINITY, |s| s.mean);
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
    let mut curves: Vec<Vec<usize>> =
        groups.into_values().flat_map(|group| by_tasks(points, group)).collect();
    curves.sort_by_key(|indexes| indexes[0]);
    if record.record.experiment.adaptive.is_some() {
        // A search leaves most CPU counts out.
        let was_run = |at: &usize| record.runs_of(*at).next().is_some();
        curves.iter_mut().for_each(|indexes| indexes.retain(was_run));
        curves.retain(|indexes| !indexes.is_empty());
    }
    curves.iter().map(|indexes| curve(record, indexes)).collect()
}

/// Divides a group's points by their tasks: by the number of tasks or by tasks for each CPU,
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
    let mut cells: Vec<CurveCell> = points
        .iter()
        .map(|&index| {
            // A placebo run would count its point twice.
            let runs = || record.runs_of(index).filter(|run| !run.placebo);
            CurveCell {
                point: &record.record.points[index],
                runs: runs().filter(|r| r.finished()).collect(),
                failed: runs().filter(|r| !r.finished()).count(),
            }
        })
        .collect();
    cells.sort_by_key(|cell| cell.point.cpus);
    let ratio = |cell: &CurveCell| cell.point.tasks as f64 / cell.point.cpus as f64;
    let first = ratio(&cells[0]);
    let is_constant = first.is_finite() && cells.iter().all(|cell| ratio(cell) == first);
    let tasks_per_cpu = is_constant.then_some(first);
    Curve { point: &record.record.points[points[0]], tasks_per_cpu, cells }
}
