//! How probable each segment is: two unknown levels, unknown noise of runs, unknown noise of builds.
//!
//! The logarithm of a run's value is level(side of its commit) + layout of its build + noise. Levels have
//! flat priors, the variance of a run an inverse gamma prior, and the spread between builds is one of a few
//! values. All but the culprit is integrated out.

use serde::Serialize;

use crate::evidence::{Build, within};
use crate::partition::{Partition, Segment};

/// Prior of the variance of a run: weight as half a run with a spread of 3 %.
const SHAPE: f64 = 0.5;
const SCALE: f64 = SHAPE * 0.03 * 0.03;

/// Standard deviations between builds that differ by nothing that matters, as shares, with prior weights.
pub type Layouts = [(f64, f64)];

/// Builds of most programs differ by less than a percent, of few by several.
pub const LAYOUT_UNKNOWN: &Layouts = &[(0.0, 0.5), (0.003, 0.28), (0.01, 0.2), (0.03, 0.02)];

/// The variance between builds over that of runs, for each layout, with its prior weight.
pub(crate) fn ratios(builds: &[Build], layouts: &Layouts) -> Vec<(f64, f64)> {
    let (within, freedom) = within(builds);
    let freedom = f64::from(freedom);
    let variance = (SCALE + freedom * within / 2.0) / (SHAPE + freedom / 2.0);
    layouts.iter().map(|(spread, weight)| (spread * spread / variance, *weight)).collect()
}

/// A level of one side, with its weight in runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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
    /// Variance of a run.
    pub variance: f64,
}

/// Hypotheses less probable than this change nothing.
const NEGLIGIBLE: f64 = 1e-4;

/// One hypothesis: a segment and a layout.
struct Fit {
    log: f64,
    levels: [Level; 2],
    variance: f64,
}

/// The posterior of a partition whose segments know on which side each build lies.
pub fn posterior(builds: &[Build], partition: &Partition, layouts: &Layouts) -> Posterior {
    let total: f64 = partition.segments.iter().map(|segment| segment.weight).sum();
    let mut hypotheses = Vec::new();
    for (layout, prior) in ratios(builds, layouts) {
        let ground = Ground::new(builds, layout);
        for (index, segment) in partition.segments.iter().enumerate() {
            let Fit { log, levels, variance } = ground.fit(segment);
            // The logarithm for now.
            let probability = log + prior.ln() + (segment.weight / total).ln();
            hypotheses.push(Hypothesis { segment: index, layout, probability, levels, variance });
        }
    }
    let logs = hypotheses.iter().map(|hypothesis| hypothesis.probability);
    let highest = logs.fold(f64::NEG_INFINITY, f64::max);
    for hypothesis in &mut hypotheses {
        hypothesis.probability = (hypothesis.probability - highest).exp();
    }
    let sum: f64 = hypotheses.iter().map(|hypothesis| hypothesis.probability).sum();
    let mut probability = vec![0.0; partition.segments.len()];
    let mut variance = 0.0;
    for hypothesis in &mut hypotheses {
        hypothesis.probability /= sum;
        probability[hypothesis.segment] += hypothesis.probability;
        variance += hypothesis.probability * hypothesis.variance;
    }
    hypotheses.retain(|hypothesis| hypothesis.probability > NEGLIGIBLE);
    Posterior { probability, hypotheses, variance, evidence: highest + sum.ln() }
}

impl Posterior {
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

    /// The size of the difference in standard deviations of a run.
    pub fn distance(&self) -> f64 {
        self.difference().abs() / self.variance.sqrt()
    }
}

/// Means and weights of all builds under one layout.
pub(crate) struct Ground {
    /// Weight, and mean from the first build's.
    points: Vec<(f64, f64)>,
    origin: f64,
    within: f64,
    runs: f64,
    /// Half the sum of the logarithms of the weights.
    log_weights: f64,
}

impl Ground {
    pub(crate) fn new(builds: &[Build], layout: f64) -> Ground {
        let origin = builds[0].mean;
        let points: Vec<(f64, f64)> =
            builds.iter().map(|build| (build.weight(layout), build.mean - origin)).collect();
        Ground {
            origin,
            within: builds.iter().map(|build| build.squares).sum(),
            runs: builds.iter().map(|build| f64::from(build.runs)).sum(),
            log_weights: 0.5 * points.iter().map(|(weight, _)| weight.ln()).sum::<f64>(),
            points,
        }
    }

    fn fit(&self, segment: &Segment) -> Fit {
        let mut sums = [Sums::default(); 2];
        for (point, is_contained) in self.points.iter().zip(&segment.contained) {
            sums[usize::from(*is_contained)].add(*point);
        }
        let squares = sums.iter().map(Sums::squares).sum::<f64>();
        let log = self.log_evidence(squares, &sums);
        let level = |sums: &Sums| Level { mean: self.origin + sums.mean(), weight: sums.weight };
        Fit { log, levels: [level(&sums[0]), level(&sums[1])], variance: self.variance(squares) }
    }

    /// The logarithm of the probability of the runs, with flat priors for the levels of `flat`.
    pub(crate) fn log_evidence(&self, squares: f64, flat: &[Sums; 2]) -> f64 {
        let levels: f64 = flat.iter().map(|sums| 0.5 * sums.weight.max(1e-9).ln()).sum();
        let power = SHAPE + (self.runs - 2.0).max(0.0) / 2.0;
        self.log_weights - levels - power * (SCALE + (self.within + squares) / 2.0).ln()
    }

    fn variance(&self, squares: f64) -> f64 {
        let power = SHAPE + (self.runs - 2.0).max(0.0) / 2.0;
        (SCALE + (self.within + squares) / 2.0) / power
    }

    pub(crate) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

/// Weighted sums of some builds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) weight: f64,
    first: f64,
    second: f64,
}

impl Sums {
    pub(crate) fn add(&mut self, (weight, mean): (f64, f64)) {
        self.weight += weight;
        self.first += weight * mean;
        self.second += weight * mean * mean;
    }

    pub(crate) fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.first / self.weight } else { 0.0 }
    }

    /// The weighted squares around the mean.
    pub(crate) fn squares(&self) -> f64 {
        (self.second - self.first * self.mean()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{LAYOUT_UNKNOWN, posterior};
    use crate::commits::Commits;
    use crate::evidence::Build;
    use crate::partition::Partition;

    /// Builds of a line of commits with these values, and their posterior.
    fn probabilities(runs: &[(usize, &[f64])]) -> Vec<(Vec<usize>, f64)> {
        let commits = Commits::linear(10);
        let mut partition = Partition::new(vec![1.0; 11]);
        let mut builds = Vec::new();
        for (commit, values) in runs {
            let mut build = Build::new(*commit);
            values.iter().for_each(|value| build.add(*value));
            builds.push(build);
            partition.split(commits.contained(*commit));
        }
        let result = posterior(&builds, &partition, LAYOUT_UNKNOWN);
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
