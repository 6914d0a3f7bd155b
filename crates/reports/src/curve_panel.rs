//! Curves to be drawn together, as values: each point with its spread, its single runs and the idle share,
//! and what laws say about each line. Pages draw them; they read no record themselves.

use analysis::{Axis, Comparison, Curve, CurveCell, RunValues, Spread};
use laws::{Forecast, ForecastPoint, Scaling, Sweep, scaling};
use records::Run;

use crate::LanePart;

/// The metric whose idle share explains it.
const RATE: &str = "operations_per_s";
const IDLE: &str = "idle_percent";
/// The line of a curve that was measured, beside what is forecast.
const MEASURED: &str = "measured";

/// What most curves run over.
pub const OVER_CPUS: &str = "CPUs";

/// The metric of drawings that share one among all places.
pub const PROBABILITY: &str = "probability";

/// Lines over CPU counts that one drawing holds.
pub struct CurvePanel {
    /// What tells the drawing from the others of its load; may be empty.
    pub title: String,
    /// The name of the metric.
    pub metric: String,
    pub unit: String,
    /// What the lines run over: [`OVER_CPUS`], or another quantity with its unit.
    pub over: String,
    /// Whether that is a number of CPUs, tasks, clients and the like, as curves of records run over.
    pub counts: bool,
    /// Value for each CPU that follows the linear ideal; absent where it has no meaning.
    pub ideal: Option<f64>,
    pub lines: Vec<PanelLine>,
}

/// One line of a drawing.
pub struct PanelLine {
    pub name: String,
    /// `processes` or `threads`; empty if unknown.
    pub form: String,
    /// Points by CPUs, ascending.
    pub points: Vec<PanelPoint>,
    /// What laws say; absent with too few CPU counts, and for metrics that do not follow CPUs.
    pub scaling: Option<Scaling>,
}

/// The runs at one CPU count.
pub struct PanelPoint {
    pub cpus: u32,
    pub tasks: u32,
    pub spread: Spread,
    /// How far values reach: a standard deviation on both sides; of simulations, all draws.
    pub band: Option<(f64, f64)>,
    /// Mean idle share of the CPUs in percent.
    pub idle: Option<f64>,
    pub runs: Vec<PanelRun>,
}

/// One run behind a point.
#[derive(Clone, Copy)]
pub struct PanelRun {
    /// Number of the run in its record.
    pub run: u32,
    pub block: u32,
    pub value: f64,
    /// Whether its block was left out of the comparison.
    pub discarded: bool,
}

/// Whether laws are fitted to the lines of a drawing, which takes half a second for a long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Laws {
    Fitted,
    LeftOut,
}

/// The lines of all variants in the cells of a lane.
pub fn for_lane(
    comparison: &Comparison,
    lane: &LanePart,
    names: &[String],
    laws: Laws,
) -> CurvePanel {
    let cells = || lane.cells.iter().map(|index| &comparison.cells[*index]);
    let deciding = || cells().filter_map(|cell| cell.metrics.first());
    let metric = deciding().next().map_or(comparison.primary.clone(), |m| m.metric.clone());
    let unit = deciding().next().map_or(String::new(), |metric| metric.unit.clone());
    let line = |(variant, name): (usize, &String)| {
        let point = |cell: &analysis::CellComparison| {
            let spread = (*cell.metrics.first()?.sides.get(variant)?)?;
            let idle = cell.metrics.iter().find(|other| other.metric == IDLE);
            let idle = idle.and_then(|idle| (*idle.sides.get(variant)?)?.mean.into());
            let passes = cell.passes.get(variant).map_or(&[][..], Vec::as_slice);
            let runs = passes.iter().filter_map(|run| panel_run(run, &metric));
            let (cpus, tasks) = (cell.key.cpus, cell.key.tasks);
            let idle = idle.filter(|_| metric == RATE);
            let band = around(&spread);
            Some(PanelPoint { cpus, tasks, spread, band, idle, runs: runs.collect() })
        };
        let form = cells().next().map_or(String::new(), |cell| cell.key.form.clone());
        let points = cells().filter(|cell| cell.key.cpus > 0).filter_map(point);
        PanelLine::new(
            name.clone(),
            form,
            points.collect(),
            lane.ideal.is_some() && laws == Laws::Fitted,
            &Axis::default(),
        )
    };
    let lines = names.iter().enumerate().map(line);
    CurvePanel {
        title: lane.title.clone(),
        metric: metric.clone(),
        unit,
        over: OVER_CPUS.to_string(),
        counts: true,
        ideal: lane.ideal,
        lines: lines.filter(|line| !line.points.is_empty()).collect(),
    }
}

fn panel_run(run: &RunValues, metric: &str) -> Option<PanelRun> {
    let value = run.metrics.get(metric)?;
    Some(PanelRun { run: run.run, block: run.block, value, discarded: run.discarded })
}

/// Curves of a record, each a line. `names` has theirs.
pub fn for_curves(
    title: String,
    curves: &[&Curve],
    names: &[String],
    metric: &str,
    unit: &str,
) -> CurvePanel {
    let is_rate = unit == "1/s";
    let axis = curves.first().map_or(Axis::default(), |curve| curve.axis.clone());
    let line = |(curve, name): (&&Curve, &String)| {
        let cells = curve.cells.iter().filter(|cell| cell.at > 0);
        let points = cells.filter_map(|cell| record_point(cell, metric));
        let form = curve.point.form.name().to_string();
        PanelLine::new(name.clone(), form, points.collect(), is_rate, &curve.axis)
    };
    let lines: Vec<PanelLine> = curves.iter().zip(names).map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let fewest = points().map(|point| point.cpus).min();
    let firsts = points().filter(|point| Some(point.cpus) == fewest);
    let ideal = firsts.map(|point| point.spread.mean / f64::from(point.cpus)).reduce(f64::max);
    CurvePanel {
        title,
        metric: metric.to_string(),
        unit: unit.to_string(),
        over: axis.name().to_string(),
        counts: true,
        ideal: ideal.filter(|rate| is_rate && *rate > 0.0),
        lines: lines.into_iter().filter(|line| !line.points.is_empty()).collect(),
    }
}

fn record_point(cell: &CurveCell, metric: &str) -> Option<PanelPoint> {
    let run = |run: &&Run| {
        let value = run.value(metric)?;
        Some(PanelRun { run: run.run, block: run.block, value, discarded: false })
    };
    let idle = cell.spread(IDLE).filter(|_| metric == RATE).map(|spread| spread.mean);
    let spread = cell.spread(metric)?;
    Some(PanelPoint {
        cpus: cell.at,
        tasks: cell.point.tasks,
        band: around(&spread),
        spread,
        idle,
        runs: cell.runs.iter().filter_map(run).collect(),
    })
}

fn around(spread: &Spread) -> Option<(f64, f64)> {
    let stddev = spread.stddev?;
    Some((spread.mean - stddev, spread.mean + stddev))
}

/// A value over CPUs, and how far it reaches.
pub type Reaching = (u32, f64, Option<(f64, f64)>);

/// Lines of values that are no means of runs, such as those of simulations.
pub fn for_values(metric: &str, over: &str, lines: Vec<(String, Vec<Reaching>)>) -> CurvePanel {
    let point = |(cpus, value, band): Reaching| {
        let spread = Spread::from_values(&[value])?;
        Some(PanelPoint { cpus, tasks: cpus, spread, band, idle: None, runs: Vec::new() })
    };
    let line = |(name, values): (String, Vec<Reaching>)| {
        let points = values.into_iter().filter_map(point).collect();
        PanelLine::new(name, String::new(), points, false, &Axis::default())
    };
    CurvePanel {
        title: String::new(),
        metric: metric.to_string(),
        unit: String::new(),
        over: over.to_string(),
        counts: over == OVER_CPUS,
        ideal: None,
        lines: lines.into_iter().map(line).collect(),
    }
}

/// A curve, with what laws say about it.
pub fn for_sweep(metric: &str, sweep: &Sweep, scaling: Option<&Scaling>) -> CurvePanel {
    let measured = sweep.points().iter().filter_map(|point| {
        let spread = Spread::from_values(&point.rates)?;
        let (cpus, band) = (point.cpus, around(&spread));
        Some(PanelPoint { cpus, tasks: cpus, spread, band, idle: None, runs: Vec::new() })
    });
    let points: Vec<PanelPoint> = measured.collect();
    let ideal = points.first().map(|first| first.spread.mean / f64::from(first.cpus));
    CurvePanel {
        title: String::new(),
        metric: metric.to_string(),
        unit: "1/s".to_string(),
        over: sweep.axis().name().to_string(),
        counts: true,
        ideal: ideal.filter(|rate| *rate > 0.0),
        lines: vec![PanelLine {
            name: MEASURED.to_string(),
            form: String::new(),
            points,
            scaling: scaling.cloned(),
        }],
    }
}

/// A curve and what it is forecast to be, each point with its interval.
pub fn for_forecast(metric: &str, sweep: &Sweep, forecast: &Forecast) -> CurvePanel {
    let point = |point: &ForecastPoint| (point.cpus, point.rate.value, point.rate.interval);
    let line = ("forecast".to_string(), forecast.points.iter().map(point).collect());
    let mut panel = for_sweep(metric, sweep, None);
    panel.lines.extend(for_values(metric, OVER_CPUS, vec![line]).lines);
    panel
}

impl PanelLine {
    fn new(
        name: String,
        form: String,
        points: Vec<PanelPoint>,
        has_laws: bool,
        axis: &Axis,
    ) -> PanelLine {
        let counted = |point: &PanelPoint| {
            let runs = point.runs.iter().filter(|run| !run.discarded);
            (point.cpus, runs.map(|run| run.value).collect())
        };
        let sweep = Sweep::over(axis, points.iter().map(counted)).ok().filter(|_| has_laws);
        PanelLine { name, form, points, scaling: sweep.map(|sweep| scaling(&sweep)) }
    }
}

impl CurvePanel {
    /// What is drawn, with its unit: "operations/s", "wall_s, s".
    pub fn quantity(&self) -> String {
        match (self.metric.as_str(), self.unit.as_str()) {
            (RATE, _) => "operations/s".to_string(),
            (metric, "" | "1") => metric.to_string(),
            (metric, unit) => format!("{metric}, {unit}"),
        }
    }

    /// Whether there is something to draw: values at two places.
    pub fn is_curve(&self) -> bool {
        let mut counts = self.lines.iter().flat_map(|line| &line.points).map(|point| point.cpus);
        let first = counts.next();
        counts.any(|cpus| Some(cpus) != first)
    }
}
