//! What doses of time say: how serial the time is inside or outside of a lock, and what less of it would gain.

use std::collections::BTreeMap;

use analysis::{Curve, Spread};
use laws::{DOSES_MIN, DoseResponse, Dosed, Estimate};
use records::{Pass, Point};

use crate::Style;
use crate::curve_table::RATE;
use crate::prose::wrapped;
use crate::quantity::{duration_ns, short};
use crate::table::{Align, Table};

/// Where a dose goes, and the parameter that has its time.
const PLACES: [(&str, &str); 2] = [("inside", "hold_ns"), ("outside", "idle_ns")];

/// Curves that differ only in one parameter, by its value.
struct DosedCurves<'a> {
    place: &'static str,
    parameter: &'static str,
    curves: BTreeMap<u64, &'a Curve<'a>>,
}

/// What the doses among these curves say; empty without three doses of something.
pub fn doses(curves: &[Curve], style: &Style) -> String {
    PLACES.iter().flat_map(|place| families(curves, *place)).map(|one| one.text(style)).collect()
}

/// Curves by everything but one parameter.
fn families<'a>(
    curves: &'a [Curve<'a>],
    (place, parameter): (&'static str, &'static str),
) -> Vec<DosedCurves<'a>> {
    let mut families: BTreeMap<String, DosedCurves> = BTreeMap::new();
    for curve in curves.iter().filter(|curve| curve.point.pass == Pass::Rate) {
        let value = curve.point.parameters.get(parameter).map_or(Some(0), |text| text.parse().ok());
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
    let tasks = match curve.tasks_per_cpu {
        Some(ratio) => format!("{ratio} a CPU"),
        None => format!("{} tasks", curve.point.tasks),
    };
    format!(
        "{workload} {semantics} {others:?} {form:?} {placement} {until:?} {dir:?} {variant} {tasks}"
    )
}

impl DosedCurves<'_> {
    fn text(&self, style: &Style) -> String {
        let first = self.curves.values().next().expect("a family has curves").point;
        let values: Vec<String> = self.curves.keys().map(u64::to_string).collect();
        let DosedCurves { place, parameter, .. } = self;
        let title = format!(
            "doses {place}: {}, {}, {parameter} {}",
            first.workload,
            first.form.name(),
            values.join(", ")
        );
        let base_ns = *self.curves.keys().next().expect("a family has curves") as f64;
        // Of time that is not there nothing can be taken away.
        let less = self.smallest_dose_ns().min(base_ns);
        let removed: Vec<f64> = if less > 0.0 { vec![less / 2.0, less] } else { Vec::new() };
        let gains = removed.iter().map(|ns| format!("gain of {} less", duration_ns(*ns)));
        let headings = ["CPUs".to_string(), "serial".to_string()].into_iter().chain(gains);
        let mut table = Table::new(headings.map(|heading| (heading, Align::Right)));
        let mut refused = Vec::new();
        for cpus in self.cpus() {
            match DoseResponse::new(self.tasks(cpus), &self.dosed(cpus)) {
                Ok(response) => table.row(row(cpus, &response, &removed)),
                Err(why) => refused.push(format!("on {cpus} CPUs: {why}")),
            }
        }
        let title = wrapped(&title, style.width, 2);
        let refused: String = refused.iter().map(|why| wrapped(why, style.width, 2)).collect();
        format!("\n{}\n{}{refused}", style.bold(title.trim_end()), table.within(style.width).0)
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

    /// The rates at this number of CPUs by dose. How long the work of a parameter really took is measured in each run.
    fn dosed(&self, cpus: u32) -> Vec<Dosed> {
        let dosed = |(value, curve): (&u64, &&Curve)| {
            let cell = curve.cells.iter().find(|cell| cell.point.cpus == cpus)?;
            let real = Spread::from_values(&cell.values(&format!("work.{}", self.parameter)));
            let dose_ns = real.map_or(*value as f64, |real| real.median);
            Some(Dosed { dose_ns, rates: cell.values(RATE) })
        };
        self.curves.iter().filter_map(dosed).collect()
    }

    /// The number of tasks at this number of CPUs.
    fn tasks(&self, cpus: u32) -> u32 {
        let cells = self.curves.values().flat_map(|curve| &curve.cells);
        let cell = cells.into_iter().find(|cell| cell.point.cpus == cpus);
        cell.map_or(cpus, |cell| cell.point.tasks)
    }
}

fn row(cpus: u32, response: &DoseResponse, removed: &[f64]) -> Vec<String> {
    let serial = response.serial().map_or("-".to_string(), |share| percent(&share));
    let gains = removed.iter().map(|ns| percent(&response.gain(*ns)));
    [cpus.to_string(), serial].into_iter().chain(gains).collect()
}

/// `96 % (92 to 99)`.
fn percent(share: &Estimate) -> String {
    let digits = |share: f64| short(100.0 * share);
    let interval =
        share.interval.map(|(low, high)| format!(" ({} to {})", digits(low), digits(high)));
    format!("{} %{}", digits(share.value), interval.unwrap_or_default())
}
