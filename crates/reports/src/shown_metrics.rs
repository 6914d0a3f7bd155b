//! Which metrics of a record tables and pages show where nobody named some.

use std::collections::BTreeSet;

use records::{Opened, Outcome};

/// Imported results with more metrics than these are shown by the one that decides.
const FEW: usize = 4;

/// Metrics to show, and those that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownMetrics {
    /// Empty for records of knee, whose tables have columns of their own.
    pub shown: Vec<String>,
    pub left_out: Vec<String>,
}

/// The metrics of an imported record: all if there are few, otherwise the one that decides.
pub fn shown_metrics(record: &Opened) -> ShownMetrics {
    if record.record.source.is_none() {
        return ShownMetrics::default();
    }
    let deciding = &record.record.experiment.compare.metric;
    let all = metric_names(record).into_iter().filter(|name| !name.ends_with("/op"));
    let (mut shown, mut left_out): (Vec<String>, Vec<String>) = (all.collect(), Vec::new());
    if shown.len() > FEW && shown.contains(deciding) {
        (shown, left_out) = shown.into_iter().partition(|name| name == deciding);
    }
    shown.sort_by_key(|name| name != deciding);
    ShownMetrics { shown, left_out }
}

/// The names of all metrics and counters in a record; `NAME/op` is a counter for each operation.
pub fn metric_names(record: &Opened) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for run in &record.runs {
        if let Outcome::Finished { metrics, counters, .. } = &run.outcome {
            names.extend(metrics.keys().map(str::to_string));
            let counters = counters.keys();
            names.extend(counters.flat_map(|name| [name.to_string(), format!("{name}/op")]));
        }
    }
    names
}
