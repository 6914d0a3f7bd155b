//! What a record says of each load, as titles, tables and sentences.

mod parts;

use analysis::{Curve, CurveCell, Spread, curves};
use laws::Sweep;
use records::{Opened, Outcome, Pass, Point, RecordState, Warmup};
use text::prose::{counted, counted_or_unknown};
use text::quantity::duration_ns;
use text::table::Table;

use crate::curve_table::{self, RATE};
use crate::header::{different, length};
use crate::hysteresis::hysteresis_sentence;
use crate::loads::{operation, parameters, setting};
use crate::scale;
use crate::{cells, known_metric};

pub use crate::form_part::FormPart;
pub use crate::scaling::parts::{RecordPart, record_parts};

const NO_METRIC: &str = "no run has any of these metrics";

/// What to show beside or instead of the usual.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    /// These metrics instead of operations per second.
    pub metrics: Vec<String>,
    /// All metrics of time(1).
    pub time: bool,
    /// What the kernel counted for each operation.
    pub counters: bool,
}

/// The curves of a record with their titles.
pub fn titled_curves(record: &Opened) -> Vec<(String, Curve<'_>)> {
    let report = Report { record, detail: &Detail::default() };
    let title =
        |curve: &Curve| report.curve_name(curve) + &lane(curve) + &report.operation(curve.point);
    curves(record).into_iter().map(|curve| (title(&curve), curve)).collect()
}

struct Report<'a> {
    record: &'a Opened,
    detail: &'a Detail,
}

impl Report<'_> {
    /// All points of a command in one table: its parameters are what is of interest.
    fn command_part(&self, curves: &[&Curve]) -> FormPart {
        let point = curves[0].point;
        let varying = curve_table::varying(curves);
        let command = self.record.record.commands.get(&point.workload);
        let default = |name: &String| command.and_then(|command| command.parameters.get(name));
        let is_default = |name: &String, value: &String| {
            default(name).is_some_and(|many| matches!(&many.0[..], [one] if one.0 == *value))
        };
        let is_axis = |name: &String| curves.iter().any(|c| c.parameter.as_ref() == Some(name));
        let fixed = point.parameters.iter().filter(|(name, value)| {
            !varying.contains(name) && !is_axis(name) && !is_default(name, value)
        });
        let fixed = fixed.map(|(name, value)| setting(name, value));
        let load = [point.workload.clone()].into_iter().chain(fixed).collect::<Vec<_>>().join(" ");
        FormPart {
            title: format!("{load}: {}", point.command.as_deref().unwrap_or_default()),
            table: curve_table::commands(curves, &self.record.record),
            sentences: curves
                .iter()
                .filter(|curve| !curve.axis.is_cpus() || curve.cells.len() > 1)
                .flat_map(|curve| self.command_scaling(curve))
                .chain(self.single_runs(curves))
                .chain(failed(curves))
                .collect(),
        }
    }

    fn rate_part(&self, curves: &[&Curve]) -> FormPart {
        let peaks = curves.iter().filter_map(|curve| self.peak(curve, RATE));
        let peaks = peaks.chain(curves.iter().flat_map(|curve| self.knee(curve, RATE)));
        let below = peaks.chain(self.single_runs(curves)).chain(failed(curves));
        FormPart {
            title: self.title(&without_axis(curves[0])),
            table: curve_table::rates(curves, &self.record.record.deciding(curves[0].point)),
            sentences: below.chain(warmup(curves)).chain(work_lengths(curves)).collect(),
        }
    }

    fn metric_part(&self, curves: &[&Curve], metric: &str) -> FormPart {
        let rates = curves.iter().filter(|_| is_rate(metric));
        let peaks = rates.filter_map(|curve| self.peak(curve, metric));
        FormPart {
            title: self.title(&without_axis(curves[0])),
            table: curve_table::metric(curves, metric),
            sentences: peaks.chain(self.single_runs(curves)).chain(failed(curves)).collect(),
        }
    }

    fn latency_part(&self, curves: &[&Curve]) -> FormPart {
        let closed = "closed loop: coordinated omission applies (a task that waits does not \
                      issue the operations that would have waited too)";
        let below = timing_cost(curves).into_iter().chain([closed.to_string()]);
        FormPart {
            title: self.title(curves[0].point),
            table: curve_table::latencies(curves),
            sentences: below.chain(failed(curves)).collect(),
        }
    }

    /// The tables of time(1) and of the kernel's counters, if requested.
    fn details(&self, curves: &[&Curve]) -> Vec<FormPart> {
        let part = |what: &str, table: Table| FormPart {
            title: format!("{}: {what}", self.name(curves[0].point)),
            sentences: table.rows().is_empty().then(|| NO_METRIC.to_string()).into_iter().collect(),
            table,
        };
        let time = self.detail.time.then(|| part("resource usage of a run", cells::time(curves)));
        let counters =
            self.detail.counters.then(|| part("counters of the kernel", cells::counters(curves)));
        time.into_iter().chain(counters).collect()
    }

    /// "posix_lock_shared hold_ns=100, processes: what one operation is".
    fn title(&self, point: &Point) -> String {
        self.name(point) + &self.operation(point)
    }

    fn operation(&self, point: &Point) -> String {
        let operation = operation(&self.record.record, point);
        operation.map(|operation| format!(": {operation}")).unwrap_or_default()
    }

    /// The name of a curve, without the parameter that it runs over.
    fn curve_name(&self, curve: &Curve) -> String {
        self.name(&without_axis(curve))
    }

    /// What the deciding metric of a command says about scaling, if it is a rate.
    fn command_scaling(&self, curve: &Curve) -> Vec<String> {
        let metric = self.record.record.deciding(curve.point);
        let unit = self.record.record.metrics.get(&metric).map(|described| &described.unit);
        if unit.is_none_or(|unit| unit != "1/s") {
            return Vec::new();
        }
        let peak = self.peak(curve, &metric).into_iter();
        peak.chain(self.knee(curve, &metric)).collect()
    }

    /// "posix_lock_shared hold_ns=100, processes".
    fn name(&self, point: &Point) -> String {
        let mut name = load_name(point);
        let form = self.record.record.known_form(point);
        name +=
            &Some(form).filter(|form| !form.is_empty()).map_or(String::new(), |f| format!(", {f}"));
        if !point.variant.is_empty() {
            name += &format!(", {}", point.variant);
        }
        name += &self.apart(|point| point.placement.to_string(), point);
        name += &self.apart(|point| point.dir.display().to_string(), point);
        name + &self.apart(|point| length(point.until), point)
    }

    /// A point's value, where the record has points with another.
    fn apart(&self, value: fn(&Point) -> String, point: &Point) -> String {
        match different(&self.record.record, value).len() {
            0 | 1 => String::new(),
            _ => format!(", {}", value(point)),
        }
    }

    /// Where a curve is highest, and how that compares with the linear ideal.
    fn peak(&self, curve: &Curve, metric: &str) -> Option<String> {
        let (first, last) = (curve.cells.first()?, curve.cells.last()?);
        let (base, peak) = (first.spread(metric)?.mean, curve.peak(metric)?);
        if first.at == last.at || base <= 0.0 {
            return None;
        }
        let counted = |n: u32| curve.axis.counted(n);
        let compared = |cell: &CurveCell| {
            let ratio = cell.spread(metric)?.mean / base;
            let ideal = cell.at as f64 / first.at as f64;
            Some((ratio_text(ratio), ratio_text(ideal)))
        };
        let (ratio, ideal) = compared(peak)?;
        let lane = lane(curve);
        let start = format!("best at {}{lane}", counted(peak.at));
        let base_rate = format!("that of {}", counted(first.at));
        let most = counted(last.at);
        let Some((at_last, ideal_last)) = compared(last) else {
            return Some(format!(
                "{start}: {ratio} times {base_rate} (ideal {ideal}); {most} have no rate"
            ));
        };
        Some(if peak.at == last.at {
            format!("{start}, the most tried: {ratio} times {base_rate} (ideal {ideal})")
        } else if peak.at == first.at {
            format!("{start}: {most} reach {at_last} times that (ideal {ideal_last})")
        } else {
            format!(
                "{start}: {ratio} times {base_rate} (ideal {ideal}); {most} reach {at_last} times \
                 (ideal {ideal_last})"
            )
        })
    }

    /// What a curve with enough CPU counts says about its knee, and what sweeps up and down say.
    fn knee(&self, curve: &Curve, metric: &str) -> Vec<String> {
        let mut sentences = Vec::new();
        let sweep = answers::sweep(&self.record.record, curve, metric);
        if let Ok(sweep) = sweep.and_then(Sweep::for_laws) {
            let found = laws::scaling(&sweep);
            sentences.extend(scale::sentences(&found));
            sentences.extend(self.searched(curve, &found.knee));
        }
        let loops = answers::hysteresis(&self.record.record, curve, metric);
        sentences.extend(loops.as_ref().map(hysteresis_sentence));
        let lane = lane(curve);
        let lane = lane.trim_start();
        let told =
            |sentence| if lane.is_empty() { sentence } else { format!("{lane}: {sentence}") };
        sentences.into_iter().map(told).collect()
    }

    /// How a search for a knee ended.
    fn searched(&self, curve: &Curve, knee: &laws::Estimate) -> Option<String> {
        let record = &self.record.record;
        let adaptive = record.experiment.adaptive.filter(|_| record.state == RecordState::Whole)?;
        let counts = record.points.iter().map(|point| point.cpus).max().into_iter().collect();
        let within = adaptive.knee_within;
        let search = laws::KneeSearch { counts, first: Vec::new(), within };
        let runs: usize = curve.cells.iter().map(|cell| cell.runs.len()).sum();
        let begin = format!(
            "searched with {} at {}",
            counted(runs, "run"),
            counted(curve.cells.len(), "CPU count")
        );
        let percent = text::quantity::short(100.0 * within);
        Some(if search.is_known(knee) {
            format!("{begin}: the knee is known to {percent} % or to one CPU, as asked")
        } else {
            format!(
                "{begin}: the budget of {} s ended before the knee was known to {percent} %; give \
                 --budget more",
                adaptive.budget_s
            )
        })
    }

    fn single_runs(&self, curves: &[&Curve]) -> Option<String> {
        let mut runs = curves.iter().flat_map(|curve| &curve.cells).map(|cell| cell.runs.len());
        // A search measures some counts once, and repeats others.
        let single = self.record.record.experiment.adaptive.is_none() && runs.any(|n| n == 1);
        let remedy = match self.record.record.source {
            None => "--blocks 5 repeats each point",
            Some(_) => "import several runs of each variant",
        };
        single.then(|| format!("n = 1: no spread is known; {remedy}"))
    }
}

/// A point of a curve, without the parameter that the curve runs over.
fn without_axis(curve: &Curve) -> Point {
    Point { parameters: curve.fixed_parameters(), ..curve.point.clone() }
}

/// "lock_ticket hold_ns=200": the workload with its parameters.
pub fn load_name(point: &Point) -> String {
    let name = [vec![point.workload.clone()], parameters(point)].concat().join(" ");
    if point.pass == Pass::Rate { name } else { format!("{name}, each operation timed") }
}

/// Whether a metric could follow the CPUs.
fn is_rate(metric: &str) -> bool {
    known_metric(metric).is_some_and(|m| m.unit == "1/s")
}

/// Whether a run of these curves has the metric.
fn has(curves: &[&Curve], metric: &str) -> bool {
    let mut cells = curves.iter().flat_map(|curve| &curve.cells);
    cells.any(|cell| cell.spread(metric).is_some())
}

/// Says which tasks a curve has, where it is not one a CPU.
fn lane(curve: &Curve) -> String {
    if !curve.axis.is_cpus() {
        return String::new();
    }
    match curve.tasks_per_cpu {
        Some(1.0) => String::new(),
        Some(ratio) => format!(" with {ratio} tasks a CPU"),
        None => format!(" with {}", counted_or_unknown(curve.point.tasks, "task")),
    }
}

fn ratio_text(ratio: f64) -> String {
    match ratio {
        ..0.995 => format!("{ratio:.2}"),
        r if r >= 9.95 || r == r.round() => format!("{ratio:.0}"),
        _ => format!("{ratio:.1}"),
    }
}

fn failed(curves: &[&Curve]) -> Vec<String> {
    let cells = curves.iter().flat_map(|curve| &curve.cells).filter(|cell| cell.failed > 0);
    let note = |cell: &CurveCell| {
        let cpus = counted_or_unknown(cell.point.cpus, "CPU");
        let verb = if cell.failed == 1 { "does" } else { "do" };
        format!("{} on {cpus} failed and {verb} not count", counted(cell.failed, "run"))
    };
    cells.map(note).collect()
}

/// How many runs warmed up, for how long, and how the rate changed after it.
fn warmup(curves: &[&Curve]) -> Option<String> {
    let runs = || curves.iter().flat_map(|c| &c.cells).flat_map(|cell| &cell.runs);
    let mut lengths_s = Vec::new();
    let mut gains = Vec::new();
    for run in runs() {
        let Outcome::Finished { warmup: Some(found), .. } = &run.outcome else { continue };
        if let (Warmup::Until { seconds, steady_operations_per_s }, Some(rate)) =
            (found, run.value(RATE).filter(|rate| *rate > 0.0))
        {
            lengths_s.push(*seconds);
            gains.push(100.0 * (steady_operations_per_s / rate - 1.0));
        }
    }
    let (length, gain) =
        (Spread::from_values(&lengths_s)?.median, Spread::from_values(&gains)?.median);
    let direction = if gain < 0.0 { "lower" } else { "higher" };
    Some(format!(
        "warm-up in {} of {}, typically {}; the rate after it is {:.1} % {direction} than over \
         the whole run",
        lengths_s.len(),
        counted(runs().count(), "run"),
        duration_ns(1e9 * length),
        gain.abs()
    ))
}

/// How long the work of each parameter that asks for some really took.
fn work_lengths(curves: &[&Curve]) -> Vec<String> {
    let line = |(name, asked): (&String, &String)| {
        let cells = curves.iter().flat_map(|curve| &curve.cells);
        let real: Vec<f64> = cells.flat_map(|c| c.values(&format!("work.{name}"))).collect();
        let Spread { median, min, max, .. } = Spread::from_values(&real)?;
        let runs = counted(real.len(), "run");
        Some(format!(
            "work of {name}={asked}: {} really ({} to {} over {runs})",
            duration_ns(median),
            duration_ns(min),
            duration_ns(max),
        ))
    };
    curves[0].point.parameters.iter().filter_map(line).collect()
}

fn timing_cost(curves: &[&Curve]) -> Option<String> {
    let cells = curves.iter().flat_map(|curve| &curve.cells);
    let costs: Vec<f64> = cells.flat_map(|c| c.values("latency.timing_cost_ns")).collect();
    let cost = Spread::from_values(&costs)?.median;
    let cost = duration_ns(cost);
    Some(format!("reading the clock costs {cost} for each operation, included above"))
}
