//! The file of a line: what its user chooses, and the series that follow from it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use records::Better;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file of a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineFile {
    /// Git repository, relative to the file.
    pub git: PathBuf,
    /// The commit that runs in every block.
    pub anchor: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub product: Vec<PathBuf>,
    pub command: String,
    /// What stands for `{case}` in the command. Each case is a series of its own; cases may be added later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub case: Vec<String>,
    /// Line for a shell that prints the cases of a build. Those of the anchor are the line's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub higher_is_better: bool,
    /// `value` counts what the program does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    #[serde(default = "all", skip_serializing_if = "is_all")]
    pub cpus: String,
    /// Smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// Seconds after which a build, or a run, is given up.
    #[serde(default = "hour")]
    pub build_timeout: f64,
    #[serde(default = "ten_minutes")]
    pub timeout: f64,
    /// More metrics of the same runs, each a series of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricFile>,
}

/// One more metric of each run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricFile {
    /// Its name: one of knee's own metrics, unless `value` says how it is read from the output.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub higher_is_better: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    /// It is a part of the first metric, as a phase is of a program's time: what moves from one part to another changes nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub part: bool,
}

fn all() -> String {
    "all".to_string()
}

fn is_all(cpus: &String) -> bool {
    cpus == "all"
}

fn hour() -> f64 {
    3600.0
}

fn ten_minutes() -> f64 {
    600.0
}

/// A metric of a line's runs.
#[derive(Clone, Debug, PartialEq)]
pub struct LineMetric {
    pub name: String,
    pub better: Better,
    /// Whether it is a part of the first one.
    pub part: bool,
}

/// One line of values: a metric of a case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Series {
    /// Its name among those of the line.
    pub name: String,
    /// What stands for `{case}` in its runs.
    pub case: Option<String>,
    /// The metric.
    pub metric: String,
    /// Direction in which the metric is better.
    pub better: Better,
    /// The series whose part it is.
    pub part_of: Option<String>,
}

impl LineFile {
    /// What decides a point's value, by names. Points of other experiments are no points of this line.
    pub fn experiment(&self) -> BTreeMap<String, String> {
        let product: Vec<String> =
            self.product.iter().map(|path| path.display().to_string()).collect();
        let fields = [
            ("anchor", self.anchor.clone()),
            ("build", self.build.clone().unwrap_or_default()),
            ("product", product.join(",")),
            ("command", self.command.clone()),
            ("metric", self.metric.clone().unwrap_or_default()),
            ("value", self.value.clone().unwrap_or_default()),
            ("higher_is_better", self.higher_is_better.to_string()),
            ("cpus", self.cpus.clone()),
        ];
        let more = self.metrics.iter().map(|metric| {
            let direction = if metric.higher_is_better { "higher" } else { "lower" };
            let pattern = metric.value.clone().unwrap_or_default();
            (format!("metric {}", metric.name), format!("{direction} {pattern}"))
        });
        let cases = self.cases.iter().map(|line| ("cases".to_string(), line.clone()));
        let fields = fields.into_iter().map(|(name, value)| (name.to_string(), value));
        fields.chain(cases).chain(more).collect()
    }

    /// The series of a line with these cases, those of the first metric of each case first. `metrics` are those of its runs.
    pub fn series(&self, cases: &[String], metrics: &[LineMetric]) -> Vec<Series> {
        let cases: Vec<Option<&String>> =
            if cases.is_empty() { vec![None] } else { cases.iter().map(Some).collect() };
        let name = |case: Option<&String>, metric: &LineMetric| match case {
            None => metric.name.clone(),
            Some(case) if metrics.len() == 1 => case.clone(),
            Some(case) => format!("{case} {}", metric.name),
        };
        let of_case = |case: Option<&String>| {
            let of_metric = |metric: &LineMetric| Series {
                name: name(case, metric),
                case: case.cloned(),
                metric: metric.name.clone(),
                better: metric.better,
                part_of: metric.part.then(|| name(case, &metrics[0])),
            };
            metrics.iter().map(of_metric).collect::<Vec<_>>()
        };
        cases.into_iter().flat_map(of_case).collect()
    }
}
