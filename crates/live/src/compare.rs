//! Two looks at running programs against each other: what moved, with verdicts.
//!
//! An interval covers what windows of a look differ by, however they are correlated with their neighbours
//! ([`analysis::series_change`]). Load that differs between the looks is a change like any other.

use analysis::{SeriesChange, Student, WINDOWS_MIN, holm_adjusted, holm_levels, series_change};
use records::live::{Observation, ObservedBy};
use schemars::JsonSchema;
use serde::Serialize;

use crate::causes::LiveCauseKind;
use crate::quantities::{LiveQuantity, LiveUnit, Pair, pairs};

/// What changed between two looks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LiveComparison {
    /// The baseline.
    pub before: ComparedLook,
    /// The other look.
    pub after: ComparedLook,
    /// Why there are no verdicts; absent if there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_verdict: Option<String>,
    /// What else differs between the looks, a sentence each.
    pub notes: Vec<String>,
    /// All quantities that were compared: those that moved, those that cannot be told, those that are the same; in each
    /// part the one that matters most first.
    pub quantities: Vec<LiveChange>,
}

/// A look that is compared.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedLook {
    /// What was observed, as it was asked for.
    pub subject: String,
    /// Name of the host.
    pub host: String,
    /// When it began.
    pub at: jiff::Timestamp,
    /// How it was seen.
    pub means: ObservedBy,
    /// How long it was observed, in s.
    pub seconds: f64,
    /// Number of windows that the time is divided into.
    pub windows: usize,
    /// What counted the operations; absent if nothing did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_from: Option<String>,
}

/// How a quantity changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LiveChange {
    /// What is compared.
    pub quantity: LiveQuantity,
    /// The lock, cause, group of threads or row.
    pub name: String,
    /// The row that a row of the CPUs' time is part of; absent for others, and directly below all time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// The kind of a cause; absent for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<LiveCauseKind>,
    /// The unit of all values.
    pub unit: LiveUnit,
    /// The mean before.
    pub before: f64,
    /// Half of its 95 % interval over windows; absent without verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_half: Option<f64>,
    /// The mean after.
    pub after: f64,
    /// Half of its 95 % interval over windows; absent without verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_half: Option<f64>,
    /// The mean after, minus the mean before.
    pub difference: f64,
    /// The interval of the difference at the level at which Holm's procedure tests it among all quantities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
    /// The probability that any quantity differs as much if none has changed (Holm).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p: Option<f64>,
    /// A smaller difference counts as the same.
    pub margin: f64,
    /// What that amounts to; absent without verdicts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<LiveVerdict>,
    /// The difference as a share of the whole that it is part of.
    #[serde(skip)]
    pub weight: f64,
}

/// What a difference amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LiveVerdict {
    /// It grew: the interval is above 0.
    Grew,
    /// It shrank: the interval is below 0.
    Shrank,
    /// The windows differ by more than it could have moved.
    CannotTell,
    /// The difference lies within the margin.
    Same,
}

impl LiveVerdict {
    /// Whether something moved.
    pub fn has_moved(self) -> bool {
        matches!(self, LiveVerdict::Grew | LiveVerdict::Shrank)
    }
}

/// The probability that anything seems to have moved if nothing has.
const ALPHA: f64 = 0.05;
/// A difference below this share of the larger side is the same.
const MARGIN: f64 = 0.05;
/// No mean is known better than this part of the margin.
const ERROR_MIN: f64 = 0.1;

/// Compares two looks.
pub fn compare(before: &Observation, after: &Observation) -> LiveComparison {
    let pairs = pairs(before, after);
    let no_verdict = no_verdict(before, after);
    let mut quantities = if no_verdict.is_some() {
        pairs.into_iter().map(unjudged).collect()
    } else {
        judged(pairs)
    };
    quantities.sort_by(|a, b| {
        let part = |change: &LiveChange| {
            change.verdict.map(|v| if v.has_moved() { None } else { Some(v) })
        };
        part(a).cmp(&part(b)).then(b.weight.total_cmp(&a.weight))
    });
    let [first, second] = [before, after].map(compared);
    LiveComparison {
        notes: notes(before, after),
        before: first,
        after: second,
        no_verdict,
        quantities,
    }
}

fn compared(observation: &Observation) -> ComparedLook {
    let ns: u64 = observation.windows.iter().map(|window| window.ns).sum();
    ComparedLook {
        subject: observation.subject.clone(),
        host: observation.host.clone(),
        at: observation.at,
        means: observation.means,
        seconds: ns as f64 / 1e9,
        windows: observation.windows.len(),
        operations_from: observation.operations_from.clone(),
    }
}

/// Why the looks cannot be judged.
fn no_verdict(before: &Observation, after: &Observation) -> Option<String> {
    if before.means != after.means {
        return Some(
            "one look saw every switch by BPF, and the other read /proc: look twice in the same way".to_string(),
        );
    }
    let sides = [("before", before), ("after", after)];
    let (side, few) = sides.into_iter().min_by_key(|(_, look)| look.windows.len())?;
    let n = few.windows.len();
    (n < WINDOWS_MIN).then(|| {
        let windows = if n == 1 { "window" } else { "windows" };
        format!(
            "the look {side} has {n} {windows}, and a verdict needs {WINDOWS_MIN}: look for 2 s or longer"
        )
    })
}

/// What else differs.
fn notes(before: &Observation, after: &Observation) -> Vec<String> {
    let mut notes = Vec::new();
    let mut differs = |what: &str, before: String, after: String| {
        if before != after {
            notes.push(format!("{what}: {before} before, {after} after"));
        }
    };
    let cpus = |o: &Observation| format!("{} CPUs", o.online_cpus);
    let allowed = |o: &Observation| format!("{} CPUs", o.allowed_cpus);
    let quota = |o: &Observation| match o.quota_cpus {
        Some(cpus) => format!("{cpus:.2} CPUs"),
        None => "none".to_string(),
    };
    let counted =
        |o: &Observation| o.operations_from.clone().unwrap_or_else(|| "nothing".to_string());
    differs("the host", before.host.clone(), after.host.clone());
    differs("the program", before.subject.clone(), after.subject.clone());
    differs("online", cpus(before), cpus(after));
    differs("threads may use", allowed(before), allowed(after));
    differs("quota", quota(before), quota(after));
    differs("operations are counted by", counted(before), counted(after));
    notes
}

fn margin(pair: &Pair) -> f64 {
    (MARGIN * pair.before.mean.abs().max(pair.after.mean.abs())).max(pair.least).max(1e-12)
}

fn unjudged(pair: Pair) -> LiveChange {
    let (before, after) = (pair.before.mean, pair.after.mean);
    LiveChange {
        quantity: pair.quantity,
        before,
        before_half: None,
        after,
        after_half: None,
        difference: after - before,
        interval: None,
        p: None,
        margin: margin(&pair),
        verdict: None,
        weight: (after - before).abs() / pair.whole,
        name: pair.name,
        within: pair.within,
        cause: pair.cause,
        unit: pair.unit,
    }
}

fn judged(pairs: Vec<Pair>) -> Vec<LiveChange> {
    let change = |pair: &Pair| series_change(&pair.before, &pair.after, ERROR_MIN * margin(pair));
    let changes: Vec<(Pair, SeriesChange)> =
        pairs.into_iter().filter_map(|pair| change(&pair).map(|change| (pair, change))).collect();
    let p: Vec<f64> = changes.iter().map(|(_, change)| change.difference.p()).collect();
    let (levels, adjusted) = (holm_levels(&p, ALPHA), holm_adjusted(&p));
    let all = changes.into_iter().zip(levels).zip(adjusted);
    all.map(|(((pair, change), level), p)| with_verdict(pair, &change, level, p)).collect()
}

fn with_verdict(pair: Pair, change: &SeriesChange, level: f64, p: f64) -> LiveChange {
    let half = |side: &Student| side.interval(ALPHA).map(|(_, high)| high - side.estimate);
    let interval = change.difference.interval(level);
    // Two one-sided tests, as in `analysis::judge`.
    let equal = change.difference.interval(2.0 * ALPHA);
    let unjudged = unjudged(pair);
    let is_within = equal.is_some_and(|(low, high)| low.abs().max(high.abs()) < unjudged.margin);
    let verdict = match interval {
        _ if is_within => LiveVerdict::Same,
        Some((low, _)) if low > 0.0 => LiveVerdict::Grew,
        Some((_, high)) if high < 0.0 => LiveVerdict::Shrank,
        _ => LiveVerdict::CannotTell,
    };
    LiveChange {
        before_half: half(&change.before),
        after_half: half(&change.after),
        interval,
        p: Some(p),
        verdict: Some(verdict),
        ..unjudged
    }
}

#[cfg(test)]
mod tests;
