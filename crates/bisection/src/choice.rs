//! What to test next: the commit and the number of runs that tell most about the culprit for what they cost.

use fixedbitset::FixedBitSet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::commits::Commits;
use crate::evidence::{Build, Evidence};
use crate::partition::{Partition, Segment};
use crate::posterior::{Hypothesis, Level, Posterior};

/// What a run and a build cost, in one unit, such as seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Costs {
    /// Cost of a run.
    pub run: f64,
    /// Cost of a build, in the unit of `run`.
    pub build: f64,
}

/// Runs of one commit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Choice {
    pub commit: usize,
    pub runs: u32,
    /// A build whose level is known, to be run as often and in turn: what drifts moves both.
    pub beside: Option<usize>,
    /// Whether it must be built first.
    pub is_new: bool,
    /// Information about the culprit, in nats.
    pub nats: f64,
    /// Information for the cost of a run, with that of the build.
    pub worth: f64,
}

/// Segments less probable than this are not split.
const LIVE: f64 = 0.02;
/// At most this number of segments are candidates for a split.
const SPLITS_MAX: usize = 8;
/// Commits of a large segment that are looked at, before those near the best of them.
const LOOKED_AT: usize = 256;
/// Most runs of one step.
const RUNS_MAX: u32 = 60;
/// From this many standard deviations on, one run tells the sides apart.
const CLEAR: f64 = 6.0;
/// As CLEAR while the spread of runs has fewer degrees of freedom than this: a second mode of the noise may not have shown
/// yet. Of a mode that has a fifth of the runs, eight runs show nothing one time in six.
const CLEAR_UNKNOWN: f64 = 20.0;
const KNOWN_FROM: u32 = 20;

/// Everything that a choice depends on.
pub struct Situation<'a> {
    pub commits: &'a Commits,
    pub evidence: &'a Evidence,
    pub partition: &'a Partition,
    pub posterior: &'a Posterior,
    /// Commits that cannot be tested.
    pub skipped: &'a FixedBitSet,
    pub costs: Costs,
    /// Fewest runs of a step: three keep two-moded noise from looking like a change.
    pub runs_min: u32,
}

impl Situation<'_> {
    /// The most informative runs for their cost; nothing if no commit is left to test.
    pub fn choose(&self) -> Option<Choice> {
        let runs = self.runs();
        let new: Vec<(usize, Vec<f64>)> =
            self.splits().into_iter().map(|commit| (commit, self.shares_with(commit))).collect();
        let ways = self.ways();
        let choices = ways.iter().flat_map(|way| {
            let again = (0..self.evidence.builds().len())
                .filter(|build| {
                    let Build { commit, layout, .. } = self.evidence.builds()[*build];
                    layout == 0 && Some(commit) != way.beside && !self.skipped.contains(commit)
                })
                .map(|build| self.again(build, runs, way));
            let new = new.iter();
            again.chain(new.map(|(commit, shares)| self.new_build(*commit, shares, runs, way)))
        });
        choices.max_by(|a, b| a.worth.total_cmp(&b.worth))
    }

    /// Whether a commit is left to test within a segment.
    pub fn is_splittable(&self, segment: &Segment) -> bool {
        let mut testable = segment.changes.iter().filter(|c| !self.skipped.contains(**c));
        match (testable.next(), testable.next()) {
            (None, _) => false,
            // No two commits contain each other.
            (_, Some(_)) => true,
            (Some(only), None) => {
                let contained = self.commits.contained(*only);
                !segment.changes.iter().all(|change| contained.contains(*change))
            }
        }
    }

    /// The commit that halves the most probable segment that can be halved.
    pub fn halving(&self) -> Option<Choice> {
        let commit = *self.splits().first()?;
        Some(self.new_build(commit, &self.shares_with(commit), self.runs(), &self.ways()[0]))
    }

    /// Runs of a step: enough to tell the sides apart a little.
    pub fn runs(&self) -> u32 {
        let distance = self.posterior.distance();
        let (_, freedom) = self.evidence.variance();
        let clear = if freedom < KNOWN_FROM { CLEAR_UNKNOWN } else { CLEAR };
        let least = if distance > clear { 1 } else { self.runs_min };
        let wanted = (0.4 / distance.powi(2).max(1e-9)).ceil();
        (wanted.min(f64::from(RUNS_MAX)) as u32).max(least)
    }

    /// A commit's runs alone, and in turn with those of the end that is known best if the host drifts.
    fn ways(&self) -> Vec<Way> {
        let drift = self.posterior.drift;
        let runs = f64::from(self.runs());
        let alone = Way { beside: None, drift };
        let Some(known) = self.evidence.builds()[..2].iter().max_by_key(|end| end.runs) else {
            return vec![alone];
        };
        if !self.posterior.drifts_much() {
            return vec![alone];
        }
        // The best share of the end's mean to subtract, and what it leaves of the drift.
        let noise = 1.0 / runs + 1.0 / f64::from(known.runs.max(1));
        let left = drift * noise / (drift + noise);
        vec![alone, Way { beside: Some(known.commit), drift: left }]
    }

    /// Commits that halve live segments, the most probable segment's first.
    fn splits(&self) -> Vec<usize> {
        let mut live: Vec<usize> = (0..self.partition.segments.len())
            .filter(|segment| self.posterior.probability[*segment] > LIVE)
            .collect();
        let p = |segment: &usize| self.posterior.probability[*segment];
        live.sort_by(|a, b| p(b).total_cmp(&p(a)));
        live.truncate(SPLITS_MAX);
        let halves = live.iter().map(|segment| &self.partition.segments[*segment]);
        halves.filter_map(|segment| self.halve(segment)).collect()
    }

    /// The testable commit whose changes are nearest to half of a segment's weight. In a large segment, all commits are
    /// looked at only near the best of every so many: commits that are near in order contain nearly the same.
    fn halve(&self, segment: &Segment) -> Option<usize> {
        let classes = self.weight_classes(segment);
        let off_half = |commit: usize| {
            let contained = self.commits.contained(commit);
            let weight: f64 = classes
                .iter()
                .map(|(weight, changes)| weight * contained.intersection_count(changes) as f64)
                .sum();
            (weight - segment.weight / 2.0).abs()
        };
        let testable: Vec<usize> =
            segment.changes.iter().copied().filter(|c| !self.skipped.contains(*c)).collect();
        let best_of = |commits: &mut dyn Iterator<Item = usize>| {
            commits.map(|at| (off_half(testable[at]), at)).min_by(|a, b| a.0.total_cmp(&b.0))
        };
        let stride = testable.len().div_ceil(LOOKED_AT).max(1);
        let (_, coarse) = best_of(&mut (0..testable.len()).step_by(stride))?;
        let near = coarse.saturating_sub(stride)..(coarse + stride).min(testable.len());
        let (off, best) = best_of(&mut { near })?;
        (off < segment.weight * (0.5 - 1e-9)).then(|| testable[best])
    }

    /// The changes of a segment by their weight: priors have few different values.
    fn weight_classes(&self, segment: &Segment) -> Vec<(f64, FixedBitSet)> {
        let mut classes: Vec<(f64, FixedBitSet)> = Vec::new();
        for &change in &segment.changes {
            let weight = self.partition.weight_of(change);
            let class = classes.iter().position(|(known, _)| *known == weight);
            let class = class.unwrap_or_else(|| {
                classes.push((weight, FixedBitSet::with_capacity(self.commits.changes() + 1)));
                classes.len() - 1
            });
            classes[class].1.insert(change);
        }
        classes
    }

    /// More runs of a build that exists.
    fn again(&self, build: usize, runs: u32, way: &Way) -> Choice {
        let Build { commit, mean, .. } = self.evidence.builds()[build];
        let before = self.known_runs(build);
        let part = |hypothesis: &Hypothesis| {
            let Hypothesis { segment, layout, probability, levels, variance, .. } = *hypothesis;
            let level = levels[usize::from(self.partition.segments[segment].contained[build])];
            // What is known of its layout shrinks with the noise of its runs.
            let known = layout / (layout + 1.0 / before);
            let left = layout / (1.0 + layout * before);
            let of_level = (1.0 - known).powi(2) / level.weight.max(1e-9);
            Part {
                segment,
                weight: probability,
                mean: level.mean + known * (mean - level.mean),
                variance: variance * (1.0 / f64::from(runs) + left + of_level + way.drift),
            }
        };
        let parts: Vec<Part> = self.posterior.hypotheses.iter().map(part).collect();
        let nats = information(&parts);
        let worth = nats / way.runs(runs);
        Choice { commit, runs, beside: way.beside, is_new: false, nats, worth }
    }

    /// The runs of a build, as far as drift leaves them their weight.
    fn known_runs(&self, build: usize) -> f64 {
        let drift = self.posterior.drift;
        let mut known = 0.0;
        for cells in self.evidence.by_step() {
            let all: f64 = cells.iter().map(|cell| f64::from(cell.sums.runs)).sum();
            for cell in cells.iter().filter(|cell| cell.build == build) {
                let own = f64::from(cell.sums.runs);
                known += own / (1.0 + drift * own * own / all);
            }
        }
        known.max(1e-9)
    }

    /// The share of each segment that a commit contains.
    fn shares_with(&self, commit: usize) -> Vec<f64> {
        let contained = self.commits.contained(commit);
        let with = |segment: &Segment| {
            let changes = segment.changes.iter().filter(|change| contained.contains(**change));
            changes.map(|change| self.partition.weight_of(*change)).sum::<f64>() / segment.weight
        };
        self.partition.segments.iter().map(with).collect()
    }

    /// Runs of a commit that is not built yet and contains these shares of the segments.
    fn new_build(&self, commit: usize, shares: &[f64], runs: u32, way: &Way) -> Choice {
        let mut parts = Vec::new();
        for hypothesis in &self.posterior.hypotheses {
            let Hypothesis { segment, layout, probability, levels, variance, .. } = *hypothesis;
            for (side, share) in [(0, 1.0 - shares[segment]), (1, shares[segment])] {
                if share > 0.0 {
                    let Level { mean, weight } = levels[side];
                    let relative =
                        1.0 / f64::from(runs) + layout + 1.0 / weight.max(1e-9) + way.drift;
                    // A segment on both sides is two.
                    let (segment, weight) = (2 * segment + side, probability * share);
                    parts.push(Part { segment, weight, mean, variance: variance * relative });
                }
            }
        }
        let Costs { run, build } = self.costs;
        let nats = information(&parts);
        let worth = nats / (way.runs(runs) + build / run);
        Choice { commit, runs, beside: way.beside, is_new: true, nats, worth }
    }
}

/// How the runs of a step are made.
struct Way {
    /// An end that runs in turn with the commit.
    beside: Option<usize>,
    /// Variance that the drift of the step leaves, over that of a run.
    drift: f64,
}

impl Way {
    /// All runs of a step.
    fn runs(&self, runs: u32) -> f64 {
        f64::from(if self.beside.is_some() { 2 * runs } else { runs })
    }
}

/// A normal part of the distribution of what a batch's mean will be.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// What the value tells about.
    segment: usize,
    weight: f64,
    mean: f64,
    variance: f64,
}

/// Fewest and most points of the quadrature, and its step in standard deviations of the narrowest part: of a sum of normal
/// parts, the trapezoidal rule is exact to many digits at that.
const POINTS: (f64, f64) = (17.0, 257.0);
const STEP: f64 = 0.7;

/// Mutual information between the segment and the value, in nats: the entropy of all parts' mixture minus those of
/// the segments' mixtures.
fn information(parts: &[Part]) -> f64 {
    let deviation = |part: &Part| part.variance.sqrt();
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let narrow = parts.iter().map(deviation).fold(f64::INFINITY, f64::min);
    let low = parts.iter().map(|p| p.mean - 4.5 * deviation(p)).fold(f64::INFINITY, f64::min);
    let high = parts.iter().map(|p| p.mean + 4.5 * deviation(p)).fold(f64::NEG_INFINITY, f64::max);
    if parts.len() < 2 || narrow <= 0.0 || !(high - low).is_finite() {
        return 0.0;
    }
    let mut ordered: Vec<&Part> = parts.iter().collect();
    ordered.sort_by_key(|part| part.segment);
    let points = ((high - low) / (STEP * narrow)).clamp(POINTS.0, POINTS.1).ceil();
    let step = (high - low) / (points - 1.0);
    let scale = step / (total * (2.0 * std::f64::consts::PI).sqrt());
    let scaled: Vec<(usize, f64, f64, f64)> = ordered
        .iter()
        .map(|part| {
            let height = scale * part.weight / deviation(part);
            (part.segment, height, part.mean, -0.5 / part.variance)
        })
        .collect();
    let log_masses: Vec<f64> = masses(&scaled).into_iter().map(f64::ln).collect();
    let log = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
    let mut nats = 0.0;
    for point in 0..points as usize {
        let value = low + step * point as f64;
        let (mut all, mut own, mut index) = (0.0, 0.0, 0);
        for (at, (segment, height, mean, factor)) in scaled.iter().enumerate() {
            own += height * (factor * (value - mean).powi(2)).exp();
            let is_last = scaled.get(at + 1).is_none_or(|next| next.0 != *segment);
            if is_last {
                nats += log(own) - own * log_masses[index];
                all += own;
                own = 0.0;
                index += 1;
            }
        }
        nats -= log(all);
    }
    nats.max(0.0)
}

/// The probability of each segment, in the order of the parts.
fn masses(scaled: &[(usize, f64, f64, f64)]) -> Vec<f64> {
    let mut masses: Vec<(usize, f64)> = Vec::new();
    for (segment, height, _, factor) in scaled {
        // The height of a part is its probability over its deviation.
        let mass = height * (-0.5 / factor).sqrt();
        match masses.last_mut() {
            Some((last, sum)) if last == segment => *sum += mass,
            _ => masses.push((*segment, mass)),
        }
    }
    let sum: f64 = masses.iter().map(|(_, mass)| mass).sum();
    masses.into_iter().map(|(_, mass)| mass / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::{Part, information};

    fn halves(distance: f64) -> f64 {
        let part = |segment, mean| Part { segment, weight: 0.5, mean, variance: 1.0 };
        information(&[part(0, 0.0), part(1, distance)])
    }

    #[test]
    fn far_halves_tell_one_bit_and_near_ones_an_eighth_of_the_square() {
        assert!((halves(40.0) - std::f64::consts::LN_2).abs() < 1e-2);
        assert!((halves(0.3) - 0.3 * 0.3 / 8.0).abs() < 5e-4, "{}", halves(0.3));
        assert!(halves(0.0).abs() < 1e-6);
    }
}
