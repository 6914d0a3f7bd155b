//! Columns of numbers to be judged: the values of a metric in the baseline and in a variant,
//! on a scale on which they can be compared.

use std::collections::BTreeMap;

use records::{Better, METRICS, Opened, Record, ReplicationUnit, Run, Session};

use super::rules::Rules;
use crate::Spread;
use crate::comparison::Scale;
use crate::drift_fit::Taken;
use crate::judge::{Judgement, Rule, is_harmless_at, judge, judge_separate, judge_taken};
use crate::multiplicity::holm_levels;

/// The numbers that one contrast is judged by.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Differences within blocks.
    Paired(Vec<f64>),
    /// Values of units without partners: the baseline's and the variant's.
    Separate(Vec<f64>, Vec<f64>),
    /// Values of both in each order in which they may have been taken.
    Taken(Vec<Vec<Taken>>),
}

impl Column {
    pub fn judge(&self, rule: &Rule) -> Judgement {
        match self {
            Column::Paired(differences) => judge(differences, rule),
            Column::Separate(baseline, variant) => judge_separate(baseline, variant, rule),
            Column::Taken(orders) => judge_taken(orders, rule),
        }
    }
}

/// The columns of one metric, one for each arm but the first.
pub struct MetricColumns {
    columns: Vec<Column>,
    pub scale: Scale,
    unit: String,
    baseline_mean: f64,
}

impl MetricColumns {
    /// Finds the scale on which the values of all sides can be compared, and makes each arm's
    /// column on it by `column`.
    pub fn new(
        sides: &[Vec<Option<f64>>],
        unit: &str,
        column: impl Fn(usize, Scale) -> Column,
    ) -> MetricColumns {
        let baseline: Vec<f64> = sides[0].iter().copied().flatten().collect();
        let scale = scale(unit, sides.iter().flatten().flatten());
        MetricColumns {
            columns: (1..sides.len()).map(|arm| column(arm, scale)).collect(),
            scale,
            unit: unit.to_string(),
            baseline_mean: Spread::from_values(&baseline).map_or(0.0, |spread| spread.mean),
        }
    }

    fn rule(&self, rules: &Rules, alpha: f64) -> Rule {
        let margin = margin(rules.smallest_effect, self.scale, &self.unit, self.baseline_mean);
        rules.rule(alpha, margin)
    }

    /// Judges each arm against the baseline, so that all together find something in nothing with
    /// the rules' probability: each at the level at which Holm's step-down procedure tests it.
    pub fn judged(&self, rules: &Rules) -> Vec<Judgement> {
        let alone = self.judged_alone(rules);
        let p: Vec<f64> = alone.iter().map(|j| j.p.unwrap_or(1.0)).collect();
        let columns = self.columns.iter().zip(holm_levels(&p, rules.alpha));
        columns.map(|(column, level)| column.judge(&self.rule(rules, level))).collect()
    }

    /// Judges each arm by itself, at the level of the rules.
    pub fn judged_alone(&self, rules: &Rules) -> Vec<Judgement> {
        self.judged_at(rules, rules.alpha)
    }

    /// Judges each arm by itself, at a level of the caller's choice.
    pub fn judged_at(&self, rules: &Rules, alpha: f64) -> Vec<Judgement> {
        let rule = self.rule(rules, alpha);
        self.columns.iter().map(|column| column.judge(&rule)).collect()
    }

    /// For each arm, whether no change for the worse that matters is likely at the last look, but for this probability.
    pub fn harmless_at(&self, miss: f64, rules: &Rules, better: Better) -> Vec<bool> {
        let rule = self.rule(rules, rules.alpha);
        let is_harmless = |column: &Column| match column {
            Column::Paired(differences) => is_harmless_at(miss, differences, better, &rule),
            Column::Separate(..) | Column::Taken(_) => false,
        };
        self.columns.iter().map(is_harmless).collect()
    }
}

/// The unit of a metric, and which direction is better.
pub fn unit_and_direction(record: &Record, metric: &str) -> (String, Better) {
    if let Some(described) = record.metrics.get(metric) {
        return (described.unit.clone(), described.better);
    }
    let listed = METRICS.iter().find(|listed| listed.matches(metric));
    listed.map_or(("1".to_string(), Better::Neither), |m| (m.unit.to_string(), m.better))
}

/// The scale on which values of a metric are compared: ratios, unless the values are percentages
/// or one of them has no logarithm.
pub fn scale<'a>(unit: &str, mut values: impl Iterator<Item = &'a f64>) -> Scale {
    if unit != "%" && values.all(|value| *value > 0.0) { Scale::Relative } else { Scale::Absolute }
}

/// A value on its scale.
pub fn scaled(value: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Relative => value.ln(),
        Scale::Absolute => value,
    }
}

/// A difference on a scale as a change for readers: `exp(d) - 1` of logarithms, else itself.
pub fn change(difference: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Relative => difference.exp_m1(),
        Scale::Absolute => difference,
    }
}

/// The half-width of "same" on a scale. `smallest_effect` is a share: for percentages, of 100
/// points; for any other metric, of the baseline's mean.
pub fn margin(smallest_effect: f64, scale: Scale, unit: &str, baseline_mean: f64) -> f64 {
    match scale {
        Scale::Relative => smallest_effect.ln_1p(),
        Scale::Absolute if unit == "%" => 100.0 * smallest_effect,
        Scale::Absolute => smallest_effect * baseline_mean.abs(),
    }
}

/// A metric's value; a value that is not finite counts as missing.
pub fn finite(run: &Run, metric: &str) -> Option<f64> {
    run.value(metric).filter(|value| value.is_finite())
}

/// One value for each boot: the mean of its runs, on the scale.
pub fn by_boot(record: &Opened, runs: &[&Run], metric: &str, scale: Scale) -> Vec<f64> {
    let mut boots: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        if let Some(value) = finite(run, metric) {
            boots.entry(boot_of(record, run)).or_default().push(scaled(value, scale));
        }
    }
    boots.into_values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
}

/// The boot that a run was made in: its guest's, else the host's.
pub fn boot_of(record: &Opened, run: &Run) -> String {
    if let Some(boot) = run.boot {
        return format!("guest {boot}");
    }
    let source = record.record.source.as_ref();
    if source.is_some_and(|source| source.unit == ReplicationUnit::Boot) {
        return format!("run {}", run.run);
    }
    session_of(record, run).map_or(String::new(), |session| session.boot_id.clone())
}

/// The host that a run was made on, in a record that joins runs of several.
pub fn node_of<'a>(record: &'a Opened, run: &Run) -> Option<&'a str> {
    session_of(record, run)?.node.as_deref()
}

fn session_of<'a>(record: &'a Opened, run: &Run) -> Option<&'a Session> {
    let sessions = &record.record.sessions;
    sessions.iter().rev().find(|session| session.first_run <= run.run)
}
