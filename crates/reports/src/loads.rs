//! Curves that belong together on a page: a load is one workload with its parameters, in
//! both forms; a lane of it has the same number of tasks for each CPU.

use std::collections::BTreeMap;

use analysis::{Curve, Spread};
use records::{Point, Record};
use workloads::Workload;

/// What the tasks of a load did, for who wants to simulate it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadSetting {
    pub workload: String,
    pub parameters: BTreeMap<String, String>,
    /// How long the work really took that a parameter asks for, by its name: the median over runs.
    pub took_ns: BTreeMap<String, f64>,
}

impl LoadSetting {
    /// The setting with the values of `work.NAME` that runs have.
    pub fn new<'a>(
        workload: &str,
        parameters: &BTreeMap<String, String>,
        works: impl Iterator<Item = (&'a str, f64)>,
    ) -> LoadSetting {
        let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        for (metric, ns) in works {
            if let Some(name) = metric.strip_prefix("work.") {
                all.entry(name.to_string()).or_default().push(ns);
            }
        }
        let median =
            |(name, values): (String, Vec<f64>)| Some((name, Spread::from_values(&values)?.median));
        LoadSetting {
            workload: workload.to_string(),
            parameters: parameters.clone(),
            took_ns: all.into_iter().filter_map(median).collect(),
        }
    }

    /// Nanoseconds that a parameter asks for, as they were measured where they were; `None` where runs differ in
    /// the parameter.
    pub fn ns(&self, parameter: &str) -> Option<f64> {
        let asked = self.parameters.get(parameter)?;
        let mean = asked.split('~').next().and_then(|mean| mean.parse().ok());
        self.took_ns.get(parameter).copied().or(mean)
    }
}

/// Curves that differ only in form and in tasks, in order of appearance.
pub fn loads<'a>(curves: &'a [Curve<'a>]) -> Vec<Vec<&'a Curve<'a>>> {
    grouped(curves.iter(), |a, b| a.axis == b.axis && same_load(a, b))
}

/// The curves of one load with the same tasks.
pub fn lanes<'a>(load: &[&'a Curve<'a>]) -> Vec<Vec<&'a Curve<'a>>> {
    grouped(load.iter().copied(), |a, b| {
        let tasks = |curve: &Curve| match curve.tasks_per_cpu {
            Some(ratio) => (Some(ratio), None),
            None => (None, Some(curve.point.tasks)),
        };
        tasks(a) == tasks(b)
    })
}

/// The curves of one load in the same form.
pub fn forms<'a>(load: &[&'a Curve<'a>]) -> Vec<Vec<&'a Curve<'a>>> {
    grouped(load.iter().copied(), |a, b| a.point.form == b.point.form)
}

/// What one operation of a point's workload is, in the words of the knee that measured it. Records
/// written before they held the sentence get this binary's, if it has the same semantic version.
pub fn operation<'a>(record: &'a Record, point: &Point) -> Option<&'a str> {
    if point.command.is_some() {
        return None;
    }
    let recorded = record.operations.get(&point.workload).map(String::as_str);
    recorded.or_else(|| {
        let workload = Workload::find(&point.workload)?;
        (workload.spec.semantics == point.semantics).then_some(workload.spec.operation)
    })
}

/// The parameters of a point that are not at their default, as `name=value`.
pub fn parameters(point: &Point) -> Vec<String> {
    not_default(&point.workload, &point.parameters)
}

/// Those of a workload's `parameters` that are not at their default, as `name=value`.
pub fn not_default(workload: &str, parameters: &BTreeMap<String, String>) -> Vec<String> {
    // Where variants replace the workload, the first one's defaults are those of all that share
    // the parameter. By its own name: a command may be called like an alias of one.
    let workload = workload.split(" / ").next().unwrap_or(workload);
    let workload = Workload::find(workload).filter(|found| found.name == workload);
    let is_default = |name: &str, value: &str| {
        let parameter = workload.and_then(|w| w.parameters().find(|p| p.name == name));
        parameter.is_some_and(|parameter| parameter.is_default(value))
    };
    let given = parameters.iter().filter(|(name, value)| !is_default(name, value));
    given.map(|(name, value)| setting(name, value)).collect()
}

/// "name=value"; nothing shows as two quotes.
pub fn setting(name: &str, value: &str) -> String {
    format!("{name}={}", if value.is_empty() { "''" } else { value })
}

fn same_load(a: &Curve, b: &Curve) -> bool {
    let are_equal = a.fixed_parameters() == b.fixed_parameters();
    let (a, b) = (a.point, b.point);
    let same_place = (a.placement, &a.dir, &a.variant) == (b.placement, &b.dir, &b.variant);
    same_place
        && are_equal
        && (&a.workload, a.semantics, &a.command, a.until, a.pass, &a.other)
            == (&b.workload, b.semantics, &b.command, b.until, b.pass, &b.other)
}

/// Curves that belong together, in order of appearance.
pub fn grouped<'a>(
    curves: impl Iterator<Item = &'a Curve<'a>>,
    together: impl Fn(&Curve, &Curve) -> bool,
) -> Vec<Vec<&'a Curve<'a>>> {
    let mut groups: Vec<Vec<&Curve>> = Vec::new();
    for curve in curves {
        match groups.iter_mut().find(|group| together(group[0], curve)) {
            Some(group) => group.push(curve),
            None => groups.push(vec![curve]),
        }
    }
    groups
}
