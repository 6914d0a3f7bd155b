//! How probable each segment is: two unknown levels, unknown noise of runs, of builds and of steps.
//!
//! The logarithm of a run's value is level(side of its commit) + layout of its build + drift of its step + noise. Levels
//! have flat priors, the variance of a run an inverse gamma prior; the spreads between builds and between steps are one
//! of a few values each. All but the culprit is integrated out.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;

use crate::evidence::Evidence;
use crate::ground::{Ground, SCALE, SHAPE, sum_of};
use crate::partition::{Partition, Segment};

/// Standard deviations between builds that differ by nothing that matters, as shares, with prior weights.
pub type Layouts = [(f64, f64)];

/// Builds of most programs differ by less than a percent, of few by several.
pub const LAYOUT_UNKNOWN: &Layouts = &[(0.0, 0.4), (0.003, 0.3), (0.01, 0.27), (0.03, 0.03)];

/// Variances between steps over that of runs, with prior weights: a host at rest does not drift, a shared one may
/// by as much as runs spread.
const DRIFTS: &Layouts = &[(0.0, 0.7), (0.2, 0.15), (1.0, 0.11), (5.0, 0.04)];

/// Spreads beside the noise of runs: variances between builds and between steps, over that of runs, and the prior
/// weight of both together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spreads {
    pub(crate) layout: f64,
    pub(crate) drift: f64,
    pub(crate) weight: f64,
}

/// The evidence under each pair of spreads: the costly part, computed once for all that is asked of the same runs.
pub(crate) struct Grounds(pub(crate) Vec<(Spreads, Ground)>);

impl Grounds {
    pub(crate) fn new(evidence: &Evidence, layouts: &Layouts) -> Grounds {
        let ground =
            |spreads: Spreads| (spreads, Ground::new(evidence, spreads.layout, spreads.drift));
        Grounds(spreads(evidence, layouts).into_iter().map(ground).collect())
    }
}

/// All pairs of spreads.
fn spreads(evidence: &Evidence, layouts: &Layouts) -> Vec<Spreads> {
    let (within, freedom) = evidence.variance();
    let freedom = f64::from(freedom);
    let variance = (SCALE + freedom * within / 2.0) / (SHAPE + freedom / 2.0);
    let all = layouts.iter().flat_map(|(spread, layout_weight)| {
        DRIFTS.iter().map(move |(drift, drift_weight)| Spreads {
            layout: spread * spread / variance,
            drift: *drift,
            weight: layout_weight * drift_weight,
        })
    });
    all.collect()
}

/// A level of one side, with its weight in runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Level {
    pub mean: f64,
    pub weight: f64,
}

/// What the runs say.
#[derive(Clone, Debug)]
pub struct Posterior {
    /// Probability of each segment.
    pub probability: Vec<f64>,
    /// What is probable, by segment and layout.
    pub hypotheses: Vec<Hypothesis>,
    /// Variance of a run.
    pub variance: f64,
    /// Variance between steps over that of a run.
    pub drift: f64,
    /// The probability of each drift that was thought of.
    pub(crate) drifts: Vec<(f64, f64)>,
    /// Logarithm of the probability of the runs, up to a constant that only the runs decide.
    pub evidence: f64,
}

/// The culprit lies in a segment, and builds differ by a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hypothesis {
    /// The segment, by its index.
    pub segment: usize,
    /// Variance between builds over that of a run.
    pub layout: f64,
    pub probability: f64,
    /// The levels without and with the change.
    pub levels: [Level; 2],
    /// Standard error of their difference, in standard deviations of a run.
    pub error: f64,
    /// Variance of a run.
    pub variance: f64,
}

/// Hypotheses less probable than this change nothing.
const NEGLIGIBLE: f64 = 1e-4;

/// The posterior of a partition whose segments know on which side each build lies.
pub(crate) fn posterior(grounds: &Grounds, partition: &Partition) -> Posterior {
    let total: f64 = partition.segments.iter().map(|segment| segment.weight).sum();
    let mut fits: Vec<(Spreads, Hypothesis)> = Vec::new();
    for (spreads, ground) in &grounds.0 {
        let all = vec![true; ground.information.len()];
        let totals = [ground.group_sums(&all, &all), ground.group_information(&all)];
        for (index, segment) in partition.segments.iter().enumerate() {
            let (log, fit) = fit(ground, totals, segment);
            // The logarithm for now.
            let probability = log + spreads.weight.ln() + (segment.weight / total).ln();
            let fit = Hypothesis { segment: index, layout: spreads.layout, probability, ..fit };
            fits.push((*spreads, fit));
        }
    }
    let logs = fits.iter().map(|(_, fit)| fit.probability);
    let highest = logs.fold(f64::NEG_INFINITY, f64::max);
    for (_, fit) in &mut fits {
        fit.probability = (fit.probability - highest).exp();
    }
    let sum: f64 = fits.iter().map(|(_, fit)| fit.probability).sum();
    let mut probability = vec![0.0; partition.segments.len()];
    let mut drifts: Vec<(f64, f64)> = DRIFTS.iter().map(|(drift, _)| (*drift, 0.0)).collect();
    let mut variance = 0.0;
    for (spreads, fit) in &mut fits {
        fit.probability /= sum;
        probability[fit.segment] += fit.probability;
        variance += fit.probability * fit.variance;
        let own = drifts.iter_mut().filter(|(drift, _)| *drift == spreads.drift);
        own.for_each(|(_, probability)| *probability += fit.probability);
    }
    let hypotheses = merged(fits.into_iter().map(|(_, fit)| fit).collect());
    let drift = drifts.iter().map(|(drift, probability)| drift * probability).sum();
    Posterior { probability, hypotheses, variance, drift, drifts, evidence: highest + sum.ln() }
}

/// One hypothesis for each segment and layout, whatever the drift, and only those that are probable.
fn merged(mut fits: Vec<Hypothesis>) -> Vec<Hypothesis> {
    fits.sort_by(|a, b| {
        (a.segment, a.layout).partial_cmp(&(b.segment, b.layout)).unwrap_or(Ordering::Equal)
    });
    let mut merged: Vec<Hypothesis> = Vec::new();
    for fit in fits {
        match merged.last_mut() {
            Some(last) if (last.segment, last.layout) == (fit.segment, fit.layout) => {
                let most = if fit.probability > last.probability { fit } else { *last };
                *last = Hypothesis { probability: last.probability + fit.probability, ..most };
            }
            _ => merged.push(fit),
        }
    }
    merged.retain(|hypothesis| hypothesis.probability > NEGLIGIBLE);
    merged
}

/// The best levels of a segment, and the logarithm of the probability of the runs.
fn fit(ground: &Ground, totals: [f64; 2], segment: &Segment) -> (f64, Hypothesis) {
    let rows = ground.row_sums(&segment.contained);
    let high = sum_of(&rows, &segment.contained);
    let across = rows.iter().sum::<f64>() - high;
    let low = totals[0] - 2.0 * across - high;
    let b = ground.group_information(&segment.contained);
    let a = totals[1] - b;
    let determinant = (low * high - across * across).max(1e-9);
    let levels = [(a * high - b * across) / determinant, (b * low - a * across) / determinant];
    let explained = a * levels[0] + b * levels[1];
    let level = |mean: f64, weight: f64| Level { mean: ground.origin + mean, weight };
    let hypothesis = Hypothesis {
        segment: 0,
        layout: 0.0,
        probability: 0.0,
        levels: [
            level(levels[0], determinant / high.max(1e-9)),
            level(levels[1], determinant / low.max(1e-9)),
        ],
        error: ((low + high + 2.0 * across).max(0.0) / determinant).sqrt(),
        variance: ground.variance(explained),
    };
    (ground.log_evidence(explained, determinant.ln()), hypothesis)
}

/// A host that drifts by less, as a share of the variance of a run, needs no runs beside.
const DRIFTS_LEAST: f64 = 0.1;
/// Builds that differ by less are as one: as a share of the variance of a run, and, as a standard deviation, of the change.
const LAYOUT_LEAST: f64 = 0.3;
const LAYOUT_OF_CHANGE: f64 = 0.25;

impl Posterior {
    /// Whether the host drifts by enough that runs of different steps are not to be compared.
    pub fn drifts_much(&self) -> bool {
        self.drift >= DRIFTS_LEAST
    }

    /// Whether builds look as if they differed by as much as matters beside the change. A host that drifts makes them look so.
    pub(crate) fn scatters_much(&self) -> bool {
        let layout: f64 = self.hypotheses.iter().map(|one| one.probability * one.layout).sum();
        layout > LAYOUT_LEAST && layout.sqrt() > LAYOUT_OF_CHANGE * self.distance()
    }

    /// The most probable segment.
    pub fn best(&self) -> usize {
        let by = |a: &&usize, b: &&usize| self.probability[**a].total_cmp(&self.probability[**b]);
        let all: Vec<usize> = (0..self.probability.len()).collect();
        all.iter().max_by(by).copied().unwrap_or(0)
    }

    /// The difference between the levels, in logarithms: with the change minus without.
    pub fn difference(&self) -> f64 {
        let one = |hypothesis: &Hypothesis| {
            let [without, with] = hypothesis.levels;
            hypothesis.probability * (with.mean - without.mean)
        };
        self.hypotheses.iter().map(one).sum()
    }

    /// The difference in standard errors: how sure it is that there is a change at all, where one is assumed.
    pub fn errors(&self) -> f64 {
        let one = |hypothesis: &Hypothesis| {
            let [without, with] = hypothesis.levels;
            let error = hypothesis.error * hypothesis.variance.sqrt();
            hypothesis.probability * (with.mean - without.mean) / error
        };
        self.hypotheses.iter().map(one).sum::<f64>().abs()
    }

    /// The size of the difference in standard deviations of a run.
    pub fn distance(&self) -> f64 {
        self.difference().abs() / self.variance.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::{Grounds, LAYOUT_UNKNOWN, posterior};
    use crate::commits::Commits;
    use crate::evidence::Evidence;
    use crate::partition::Partition;

    /// Builds of a line of commits with these values, and their posterior.
    fn probabilities(runs: &[(usize, &[f64])]) -> Vec<(Vec<usize>, f64)> {
        let commits = Commits::linear(10);
        let mut partition = Partition::new(vec![1.0; 11]);
        let mut evidence = Evidence::default();
        for (commit, values) in runs {
            evidence.begin_step();
            let build = evidence.push(*commit);
            values.iter().for_each(|value| evidence.add(build, *value));
            partition.split(commits.contained(*commit));
        }
        let result = posterior(&Grounds::new(&evidence, LAYOUT_UNKNOWN), &partition);
        let segments = partition.segments.iter().map(|segment| segment.changes.clone());
        segments.zip(result.probability).collect()
    }

    #[test]
    fn the_segment_between_the_levels_is_the_probable_one() {
        let found = probabilities(&[
            (0, &[0.0, 0.01, -0.01]),
            (10, &[0.1, 0.11, 0.09]),
            (5, &[0.0, 0.005, 0.0]),
            (7, &[0.1, 0.095, 0.11]),
        ]);
        let (_, p) = found.iter().find(|(changes, _)| changes[..] == [6, 7]).unwrap();
        assert!(*p > 0.99, "{found:?}");
        assert!((found.iter().map(|(_, p)| p).sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn equal_runs_say_nothing() {
        let found = probabilities(&[(0, &[0.0, 0.1]), (10, &[0.1, 0.0]), (5, &[0.05, 0.05])]);
        assert!(found.iter().all(|(_, p)| (0.4..0.6).contains(p)), "{found:?}");
    }
}
