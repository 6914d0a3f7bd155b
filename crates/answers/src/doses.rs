//! What doses of time say: how serial the time is inside or outside of a lock, and what less of it would gain.

use std::collections::BTreeMap;

use analysis::{Curve, Spread};
use laws::{DOSES_MIN, DoseResponse, Dosed, DosedPoint, Estimate};
use records::{Form, Pass, Point, Run, Until};
use schemars::JsonSchema;
use serde::Serialize;
use text::quantity::duration_ns;
use workloads::DELAYED_LOCKS;

use crate::RATE;

/// Inside a lock of a workload, and the parameter that has the time.
const INSIDE: (&str, &str) = ("inside", "hold_ns");
/// Between two operations.
const OUTSIDE: (&str, &str) = ("outside", "idle_ns");

/// Where a dose goes, and the parameter that has its time.
fn places() -> impl Iterator<Item = (&'static str, &'static str)> {
    let kernel = DELAYED_LOCKS.iter().map(|lock| (lock.kind, lock.parameter.name));
    [INSIDE, OUTSIDE].into_iter().chain(kernel)
}

/// Whether a dose of this parameter delays kernel locks: not each operation, but each wait for a lock.
fn delays_kernel(parameter: &str) -> bool {
    DELAYED_LOCKS.iter().any(|lock| lock.parameter.name == parameter)
}

/// Curves that differ only in one parameter, by its value.
struct DosedCurves<'a> {
    place: &'static str,
    parameter: &'static str,
    curves: BTreeMap<u64, &'a Curve<'a>>,
}

/// What doses of one place say.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DoseReport {
    /// Where the time was added: `inside` or `outside` of the lock, or a kind of kernel lock.
    pub place: &'static str,
    /// Name of the workload.
    pub workload: String,
    /// Whether tasks are processes or threads.
    #[serde(rename = "as")]
    pub form: Form,
    /// The parameter that has the time.
    pub parameter: &'static str,
    /// The values of the parameter, in ns, as asked for.
    pub values: Vec<u64>,
    /// What doses say at each number of CPUs.
    pub points: Vec<DosePoint>,
}

/// What doses say at one number of CPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DosePoint {
    /// Number of CPUs.
    pub cpus: u32,
    /// The share of the time that tasks take one after the other, fitted to the rates; null for one task.
    pub serial: Option<Estimate>,
    /// What less of the time would gain.
    pub gains: Vec<Gain>,
    /// Why nothing can be said. Absent if something can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unusable: Option<String>,
}

/// What less of the time would gain.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Gain {
    /// Nanoseconds that are taken away.
    pub removed_ns: f64,
    /// The share by which the rate would grow, fitted.
    pub gain: Estimate,
    /// The share by which it will be seen to grow in a measurement with `runs` of each side.
    pub measured: Estimate,
    /// Number of runs at each dose.
    pub runs: usize,
}

/// What the doses among these curves say; nothing without three doses of something.
pub fn doses(curves: &[Curve]) -> Vec<DoseReport> {
    let families = places().flat_map(|place| families(curves, place));
    families.map(|family| family.report()).collect()
}

/// The runs beside a curve in which the lock is held longer, where the curve is the one without a dose. None for any other
/// metric than the rate of operations.
pub fn dosed_points(curves: &[Curve], curve: &Curve, metric: &str) -> Vec<DosedPoint> {
    if metric != RATE {
        return Vec::new();
    }
    let is_base = |family: &DosedCurves| {
        family.curves.values().next().is_some_and(|first| std::ptr::eq(*first, curve))
    };
    let families = families(curves, INSIDE);
    let Some(family) = families.iter().find(|family| is_base(family)) else { return Vec::new() };
    let dosed = |cpus| {
        let all = family.dosed(cpus);
        let base_ns = all.first().map_or(0.0, |base| base.dose_ns);
        let point = move |one: Dosed| DosedPoint {
            cpus,
            dose: (one.dose_ns - base_ns) / 1e9,
            rates: one.rates,
        };
        all.into_iter().skip(1).map(point).collect::<Vec<_>>()
    };
    family.cpus().into_iter().flat_map(dosed).collect()
}

/// Curves by everything but one parameter.
fn families<'a>(
    curves: &'a [Curve<'a>],
    (place, parameter): (&'static str, &'static str),
) -> Vec<DosedCurves<'a>> {
    let mut families: BTreeMap<String, DosedCurves> = BTreeMap::new();
    for curve in curves.iter().filter(|curve| curve.point.pass == Pass::Rate) {
        // The mean, where it varies.
        let mean = |text: &String| text.split('~').next().and_then(|mean| mean.parse().ok());
        let value = match curve.point.parameters.get(parameter) {
            // Looking at waits costs time, too: a run without the programs is no dose of 0.
            None if delays_kernel(parameter) => continue,
            None => Some(0),
            Some(text) => mean(text),
        };
        let Some(value) = value else { continue };
        let family = DosedCurves { place, parameter, curves: BTreeMap::new() };
        let key = rest(curve, parameter);
        families.entry(key).or_insert(family).curves.insert(value, curve);
    }
    families.into_values().filter(|family| family.curves.len() >= DOSES_MIN).collect()
}

/// What a curve is, without one of its parameters.
fn rest(curve: &Curve, parameter: &str) -> String {
    let Point { workload, semantics, parameters, form, placement, until, dir, variant, .. } =
        curve.point;
    let others: Vec<_> = parameters.iter().filter(|(name, _)| *name != parameter).collect();
    // What varies is another load.
    let varies = parameters.get(parameter).is_some_and(|value| value.contains('~'));
    let tasks = match curve.tasks_per_cpu {
        Some(ratio) => format!("{ratio} a CPU"),
        None => format!("{} tasks", curve.point.tasks),
    };
    format!(
        "{workload} {semantics} {others:?} {form:?} {placement} {until:?} {dir:?} {variant} {tasks} {varies}"
    )
}

impl DosedCurves<'_> {
    fn report(&self) -> DoseReport {
        let first = self.curves.values().next().expect("a family has curves").point;
        let base_ns = *self.curves.keys().next().expect("a family has curves") as f64;
        // Of time that is not there nothing can be taken away.
        let less = self.smallest_dose_ns().min(base_ns);
        let removed: &[f64] = if less > 0.0 { &[less / 2.0, less] } else { &[] };
        let response = |cpus| match self.longer_than_runs().or_else(|| self.without_waits(cpus)) {
            Some(why) => Err(why),
            None => DoseResponse::new(self.tasks(cpus), &self.dosed(cpus)),
        };
        let point = |cpus| match response(cpus) {
            Ok(response) => DosePoint {
                cpus,
                serial: response.serial(),
                gains: removed
                    .iter()
                    .map(|&removed_ns| Gain {
                        removed_ns,
                        gain: response.gain(removed_ns),
                        measured: response.measured_gain(removed_ns),
                        runs: response.runs(),
                    })
                    .collect(),
                unusable: None,
            },
            Err(why) => DosePoint { cpus, serial: None, gains: Vec::new(), unusable: Some(why) },
        };
        DoseReport {
            place: self.place,
            workload: first.workload.clone(),
            form: first.form,
            parameter: self.parameter,
            values: self.curves.keys().copied().collect(),
            points: self.cpus().into_iter().map(point).collect(),
        }
    }

    /// Why runs were too short for the doses, if so. A run that completes a few operations counts one more or less by
    /// chance.
    fn longer_than_runs(&self) -> Option<String> {
        const OPERATIONS_MIN: f64 = 20.0;
        let (largest, curve) = self.curves.iter().next_back()?;
        let Until::Seconds(seconds) = curve.point.until else { return None };
        let dosed_s = *largest as f64 / 1e9;
        (OPERATIONS_MIN * dosed_s > seconds).then(|| {
            format!(
                "runs of {} complete too few operations of {} to say anything: they must be {} long at least \
                 (--seconds), or the doses smaller",
                duration_ns(1e9 * seconds),
                duration_ns(*largest as f64),
                duration_ns(1e9 * OPERATIONS_MIN * dosed_s)
            )
        })
    }

    /// Why doses of kernel locks say nothing, if tasks hardly ever waited for one.
    fn without_waits(&self, cpus: u32) -> Option<String> {
        const DOSE_SHARE_MIN: f64 = 0.01;
        let largest = *self.curves.keys().next_back()? as f64;
        let dosed = self.dosed(cpus);
        let is_rare = delays_kernel(self.parameter)
            && dosed.last().is_some_and(|last| last.dose_ns < DOSE_SHARE_MIN * largest);
        is_rare.then(|| {
            format!(
                "fewer than one operation in a hundred waited for a {} that the kernel reports: more tasks or CPUs, or a \
                 load that shares more",
                self.place
            )
        })
    }

    /// The smallest dose above 0, as asked. Gains of more would be extrapolated.
    fn smallest_dose_ns(&self) -> f64 {
        let mut values = self.curves.keys();
        let (first, second) = (values.next().copied(), values.next().copied());
        second.unwrap_or(0).saturating_sub(first.unwrap_or(0)) as f64
    }

    /// The numbers of CPUs that all doses have.
    fn cpus(&self) -> Vec<u32> {
        let has = |curve: &Curve, cpus| curve.cells.iter().any(|cell| cell.point.cpus == cpus);
        let first = self.curves.values().next().expect("a family has curves");
        let counts = first.cells.iter().map(|cell| cell.point.cpus);
        counts.filter(|cpus| self.curves.values().all(|curve| has(curve, *cpus))).collect()
    }

    /// The rates at this number of CPUs by dose. How long the work of a parameter really took is measured in each run, and
    /// so is how long kernel locks were delayed for each operation.
    fn dosed(&self, cpus: u32) -> Vec<Dosed> {
        let delayed_ns = |run: &&Run| {
            Some(1e9 * run.value("delayed_s")? / run.value("operations").filter(|all| *all > 0.0)?)
        };
        let dosed = |(value, curve): (&u64, &&Curve)| {
            let cell = curve.cells.iter().find(|cell| cell.point.cpus == cpus)?;
            let real: Vec<f64> = if delays_kernel(self.parameter) {
                cell.runs.iter().filter_map(delayed_ns).collect()
            } else {
                cell.values(&format!("work.{}", self.parameter))
            };
            let real = Spread::from_values(&real);
            let dose_ns = real.map_or(*value as f64, |real| real.median);
            Some(Dosed { dose_ns, rates: cell.values(RATE) })
        };
        self.curves.iter().filter_map(dosed).collect()
    }

    /// How many tasks run side by side at this number of CPUs.
    fn tasks(&self, cpus: u32) -> u32 {
        let cells = self.curves.values().flat_map(|curve| &curve.cells);
        let cell = cells.into_iter().find(|cell| cell.point.cpus == cpus);
        cell.map_or(cpus, |cell| cell.point.tasks.min(cpus))
    }
}
