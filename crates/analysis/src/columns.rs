//! Columns of numbers to be judged: the values of a metric in a baseline and in a variant,
//! on the scale on which they can be compared.

use std::collections::BTreeMap;

use records::{Opened, Run};

use crate::comparison::Scale;
use crate::judge::{Judgement, Rule, judge, judge_separate};

/// What one contrast is judged by.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    /// Differences within blocks.
    Paired(Vec<f64>),
    /// Values of units that have no partner: the baseline's and the variant's.
    Separate(Vec<f64>, Vec<f64>),
}

impl Column {
    /// Judges it.
    pub fn judge(&self, rule: &Rule) -> Judgement {
        match self {
            Column::Paired(differences) => judge(differences, rule),
            Column::Separate(baseline, variant) => judge_separate(baseline, variant, rule),
        }
    }
}

/// The scale on which values of a metric are compared: ratios, unless they are percentages
/// already or some value has no logarithm.
pub fn scale<'a>(unit: &str, mut values: impl Iterator<Item = &'a f64>) -> Scale {
    match unit != "%" && values.all(|value| *value > 0.0) {
        true => Scale::Relative,
        false => Scale::Absolute,
    }
}

/// A value on its scale.
pub fn scaled(value: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Relative => value.ln(),
        Scale::Absolute => value,
    }
}

/// A difference on a scale as a change that people read: `exp(d) - 1`, or itself.
pub fn change(difference: f64, scale: Scale) -> f64 {
    match scale {
        Scale::Relative => difference.exp_m1(),
        Scale::Absolute => difference,
    }
}

/// The half-width of "same" on a scale, for a smallest effect as a share. A share of a
/// percentage is meant in points; of anything else, of the baseline's mean.
pub fn margin(smallest_effect: f64, scale: Scale, unit: &str, baseline_mean: f64) -> f64 {
    match scale {
        Scale::Relative => smallest_effect.ln_1p(),
        Scale::Absolute if unit == "%" => 100.0 * smallest_effect,
        Scale::Absolute => smallest_effect * baseline_mean.abs(),
    }
}

/// Differences within blocks, where both have a value.
pub fn paired(pairs: &[(&Run, &Run)], metric: &str, scale: Scale) -> Column {
    let value = |run: &Run| Some(scaled(finite(run, metric)?, scale));
    Column::Paired(pairs.iter().filter_map(|(a, b)| Some(value(b)? - value(a)?)).collect())
}

/// A metric's value; what is not finite is missing.
pub fn finite(run: &Run, metric: &str) -> Option<f64> {
    run.value(metric).filter(|value| value.is_finite())
}

/// The values of runs, one a boot: the mean on the scale.
pub fn by_boot(record: &Opened, runs: &[&Run], metric: &str, scale: Scale) -> Vec<f64> {
    let mut boots: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in runs {
        if let Some(value) = finite(run, metric) {
            boots.entry(boot_of(record, run)).or_default().push(scaled(value, scale));
        }
    }
    boots.into_values().map(|values| values.iter().sum::<f64>() / values.len() as f64).collect()
}

/// The boot that a run was in: of its guest, else of the host.
pub fn boot_of(record: &Opened, run: &Run) -> String {
    if let Some(boot) = run.boot {
        return format!("guest {boot}");
    }
    let sessions = &record.record.sessions;
    let session = sessions.iter().rev().find(|session| session.first_run <= run.run);
    session.map_or(String::new(), |session| session.boot_id.clone())
}
