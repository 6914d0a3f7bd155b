//! Curves: the points of a record that differ only in their CPU count, together. Of commands and of imported results, also
//! points that differ only in their tasks or in a parameter with several numbers.

use std::collections::{BTreeMap, BTreeSet};

use records::{Form, Opened, Pass, Point, Record, Run, scanned};

use crate::{Axis, Spread};

/// One workload over a range of CPU counts, or of another number. Everything but that, and the tasks that follow
/// CPUs, is the same in all cells.
#[derive(Debug)]
pub struct Curve<'a> {
    /// One of its points, for what all of them have in common.
    pub point: &'a Point,
    /// Tasks for each CPU, if this ratio is the same in all cells.
    pub tasks_per_cpu: Option<f64>,
    /// What the curve runs over.
    pub axis: Axis,
    /// The parameter that it runs over, if it runs over one.
    pub parameter: Option<String>,
    /// The cells by their place on the axis, ascending.
    pub cells: Vec<CurveCell<'a>>,
}

/// One point of a curve with its runs.
#[derive(Debug)]
pub struct CurveCell<'a> {
    pub point: &'a Point,
    /// The place on the axis; 0 if it is unknown.
    pub at: u32,
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
    /// The rate for each CPU (or other unit of the axis) in `cell`, divided by that in the curve's first cell: 1 is
    /// linear scaling.
    pub fn efficiency(&self, cell: &CurveCell, metric: &str) -> Option<f64> {
        let first = self.cells.first()?;
        // An imported point may have an unknown number of CPUs, 0.
        let at = |cell: &CurveCell| Some(cell.at as f64).filter(|at| *at > 0.0);
        let per_cpu = |cell: &CurveCell| Some(cell.spread(metric)?.mean / at(cell)?);
        let base = per_cpu(first).filter(|rate| *rate > 0.0)?;
        Some(per_cpu(cell)? / base)
    }

    /// The parameters that all cells share.
    pub fn fixed_parameters(&self) -> BTreeMap<String, String> {
        let mut parameters = self.point.parameters.clone();
        let is_shared = |name: &String, value: &mut String| {
            self.cells.iter().all(|cell| cell.point.parameters.get(name) == Some(value))
        };
        parameters.retain(is_shared);
        if let Some(name) = &self.parameter {
            parameters.remove(name);
        }
        parameters
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
    let by_tasks = groups.into_values().flat_map(|group| by_tasks(points, group));
    let (flat, mut curves): (Vec<Line>, Vec<Line>) =
        by_tasks.map(Line::over_cpus).partition(|line| line.may_have_another_axis(record));
    curves.extend(over_parameters(points, flat));
    curves.sort_by_key(|line| line.points[0]);
    if record.record.experiment.adaptive.is_some() {
        // A search leaves most CPU counts out.
        let was_run = |at: &usize| record.runs_of(*at).next().is_some();
        curves.iter_mut().for_each(|line| line.points.retain(was_run));
        curves.retain(|line| !line.points.is_empty());
    }
    curves.iter().map(|line| line.curve(record)).collect()
}

/// The points of a curve, and what it runs over.
struct Line {
    points: Vec<usize>,
    over: Over,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Over {
    Cpus,
    Tasks,
    Parameter(String),
}

impl Over {
    /// The place of a point.
    fn at(&self, point: &Point) -> Option<u32> {
        match self {
            Over::Cpus => Some(point.cpus),
            Over::Tasks => Some(point.tasks).filter(|tasks| *tasks > 0),
            Over::Parameter(name) => whole(point.parameters.get(name)?),
        }
    }

    /// Fewer numbers are settings to compare, no axis.
    fn numbers_min(&self) -> usize {
        match self {
            Over::Cpus | Over::Tasks => scanned::numbers_min("tasks"),
            Over::Parameter(name) => scanned::numbers_min(name),
        }
    }

    fn axis(&self, record: &Record, point: &Point) -> Axis {
        match self {
            Over::Cpus => Axis::default(),
            Over::Tasks if point.workload.starts_with("pgbench.") => Axis::new("clients"),
            Over::Tasks => match record.known_form(point) {
                "" => Axis::new("tasks"),
                form => Axis::new(form),
            },
            Over::Parameter(name) => Axis::new(name),
        }
    }
}

/// A whole number above 0, as parameters have it: 16, 16.0.
fn whole(text: &str) -> Option<u32> {
    let number = text.trim().parse::<f64>().ok()?;
    let is_whole = number.fract() == 0.0 && (1.0..=f64::from(u32::MAX)).contains(&number);
    is_whole.then_some(number as u32)
}

impl Line {
    fn over_cpus(points: Vec<usize>) -> Line {
        Line { points, over: Over::Cpus }
    }

    /// Whether its points have one number of CPUs, and are of a command or imported: the user's own programs have
    /// axes that knee does not know.
    fn may_have_another_axis(&self, record: &Opened) -> bool {
        let points = || self.points.iter().map(|index| &record.record.points[*index]);
        let is_foreign = record.record.source.is_some() || points().all(|p| p.command.is_some());
        is_foreign && points().map(|point| point.cpus).collect::<BTreeSet<_>>().len() == 1
    }

    fn curve<'a>(&self, record: &'a Opened) -> Curve<'a> {
        let cell = |index: &usize| {
            // A placebo run would count its point twice.
            let runs = || record.runs_of(*index).filter(|run| !run.placebo);
            let point = &record.record.points[*index];
            CurveCell {
                point,
                at: self.over.at(point).unwrap_or(0),
                runs: runs().filter(|r| r.finished()).collect(),
                failed: runs().filter(|r| !r.finished()).count(),
            }
        };
        let mut cells: Vec<CurveCell> = self.points.iter().map(cell).collect();
        cells.sort_by_key(|cell| cell.at);
        let ratio = |cell: &CurveCell| cell.point.tasks as f64 / cell.point.cpus as f64;
        let first = ratio(&cells[0]);
        let is_constant = first.is_finite() && cells.iter().all(|cell| ratio(cell) == first);
        let tasks_per_cpu = is_constant.then_some(first);
        let point = &record.record.points[self.points[0]];
        let parameter = match &self.over {
            Over::Parameter(name) => Some(name.clone()),
            _ => None,
        };
        Curve {
            point,
            tasks_per_cpu,
            axis: self.over.axis(&record.record, point),
            parameter,
            cells,
        }
    }
}

/// Joins points that differ only in their tasks, or in one parameter, if that has enough numbers. Of several such
/// parameters, the one with the most numbers is the axis; the others tell curves apart.
fn over_parameters(points: &[Point], lines: Vec<Line>) -> Vec<Line> {
    let mut left: Vec<usize> = lines.iter().flat_map(|line| line.points.clone()).collect();
    let mut joined = Vec::new();
    while let Some((over, group)) = widest(points, &left) {
        left.retain(|index| !group.contains(index));
        joined.push(Line { points: group, over });
    }
    // What has no other axis stays as it was.
    for line in lines {
        let kept: Vec<usize> = line.points.into_iter().filter(|one| left.contains(one)).collect();
        joined.extend((!kept.is_empty()).then(|| Line::over_cpus(kept)));
    }
    joined
}

/// The most points that differ only in one number, and that number.
fn widest(points: &[Point], among: &[usize]) -> Option<(Over, Vec<usize>)> {
    let names: BTreeSet<&String> =
        among.iter().flat_map(|index| points[*index].parameters.keys()).collect();
    let parameters = names.into_iter().map(|name| Over::Parameter(name.clone()));
    let mut best: Option<(Over, Vec<usize>)> = None;
    for over in [Over::Tasks].into_iter().chain(parameters) {
        let mut groups: BTreeMap<_, BTreeMap<u32, usize>> = BTreeMap::new();
        for &index in among {
            if let Some(at) = over.at(&points[index]) {
                let without = without(&points[index], &over);
                groups
                    .entry((key(&without), without.tasks))
                    .or_default()
                    .entry(at)
                    .or_insert(index);
            }
        }
        for group in groups.into_values().filter(|group| group.len() >= over.numbers_min()) {
            if best.as_ref().is_none_or(|(_, most)| group.len() > most.len()) {
                best = Some((over.clone(), group.into_values().collect()));
            }
        }
    }
    best
}

/// A point without its place on an axis.
fn without(point: &Point, over: &Over) -> Point {
    let mut point = point.clone();
    match over {
        Over::Cpus => point.cpus = 0,
        Over::Tasks => {
            point.tasks = 0;
            // pgbench's own threads usually follow its clients.
            point.parameters.remove("threads");
        }
        Over::Parameter(name) => {
            point.parameters.remove(name);
        }
    }
    point
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
