//! Whether two neighbours of a line differ, by all that was measured of them: the runs of the newer one beside the anchor, what
//! the line knows of the builds before it and of the host, and pairs of runs of both, of today.
//!
//! The evidence is a ratio of likelihoods, so runs add up whatever made them run, and looking after each pair costs nothing:
//! without a change it exceeds B with a probability of at most 1/B (Ville's inequality). What the line knows from other days may no longer hold
//! today: each likelihood is a mixture of a line that still holds and one that says nothing. Builds differ by their
//! layouts, too, by as much as the line shows.

use super::levels::{MeasuredBuild, PairNoise, PairSums, levels, noise};
use crate::change_points::{Tested, changes_between};
use crate::evidence::Build;
use crate::gaussian::{Normal, Observed, fitted};
use crate::posterior::LAYOUT_UNKNOWN;

/// What the line knows before two neighbours are compared.
#[derive(Clone, Debug)]
pub struct Known {
    noise: PairNoise,
    /// The anchor today, by the sessions before.
    host: Normal,
    /// The level of the builds before the gap, without what their layouts add.
    before: Normal,
    /// The build before the gap, with what its layout adds.
    own: Normal,
    /// The newer build beside the anchor.
    newer: PairSums,
    /// Standard deviations between builds, with their probabilities.
    spreads: Vec<(f64, f64)>,
}

/// Pairs of runs of two neighbours in one layout and session: the older one first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaidOut {
    /// 0 is the compiler's own.
    pub layout: u32,
    /// 0 is the session of the newer build's point, just after its own runs.
    pub session: u32,
    pub pairs: PairSums,
}

/// What the evidence says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The logarithm of the ratio of likelihoods: a change of some size, against none.
    pub for_change: f64,
    /// The logarithm of the ratio for a change of the size that is looked for, in either direction, against none.
    pub for_size: f64,
    /// The change, as a logarithm.
    pub change: Normal,
}

/// Probability that the line of earlier days says something of today.
const HOLDS: f64 = 0.9;

/// A number of which nothing is known.
const WIDE: f64 = 0.3;

/// The host may be this much another a few minutes later, as a standard deviation.
const LATER: f64 = 0.002;

/// A size that is fixed.
const FIXED: f64 = 1e-14;

/// Variances today may differ from those of the line, whose word is worth this many degrees of freedom.
const NOISE_FREEDOM: f64 = 30.0;

/// Builds before a gap that say what its level is, at most.
const BEFORE: usize = 32;

/// What is known of the gap after build `gap`, from the builds up to the one after it and all that was measured when it was.
pub fn known(builds: &[MeasuredBuild], probability: &[f64], spreads: &[f64], gap: usize) -> Known {
    let today = builds[gap + 1].session;
    let first = (0..gap).rev().find(|at| probability[*at] > 0.3).map_or(0, |at| at + 1);
    let first = first.max((gap + 1).saturating_sub(BEFORE));
    let before: Vec<MeasuredBuild> =
        builds.iter().copied().filter(|build| build.session < today).collect();
    let levels = levels(builds);
    let own = levels.builds[gap];
    let spread: f64 = LAYOUT_UNKNOWN.iter().zip(spreads).map(|((w, _), p)| p * w * w).sum();
    let segment = (first..gap).map(|at| levels.builds[at].disturbed(spread));
    let level = segment.fold(Normal::unknown(), Normal::and);
    let host = super::levels::host_after(&before);
    Known {
        noise: levels.noise,
        host,
        before: level,
        own,
        newer: builds[gap + 1].beside_anchor,
        spreads: LAYOUT_UNKNOWN.iter().zip(spreads).map(|((w, _), p)| (*w, *p)).collect(),
    }
}

/// The unknowns: the anchor today, the level before the gap, the change, and what each layout of both builds adds.
const HOST: usize = 0;
const LEVEL: usize = 1;
const CHANGE: usize = 2;

/// A prior of the change, with its own probability among those of one hypothesis.
type Hypothesis<'a> = &'a [(Normal, f64)];

/// All evidence of a gap. `size` is that of a change that is looked for, as a logarithm; `spread_most` the most by which builds
/// of equal speed may differ.
pub fn evidence(known: &Known, pairs: &[LaidOut], size: f64, spread_most: f64) -> Evidence {
    let noise = noise_today(known, pairs);
    let unknowns = Unknowns::new(pairs);
    let fixed = |mean| Normal { mean, variance: FIXED };
    let any = Normal { mean: 0.0, variance: size * size };
    let mut logs: [Vec<f64>; 3] = Default::default();
    let mut estimates: Vec<(f64, Normal)> = Vec::new();
    let hypotheses: [Hypothesis; 3] =
        [&[(fixed(0.0), 1.0)], &[(any, 1.0)], &[(fixed(size), 0.5), (fixed(-size), 0.5)]];
    for (spread, probability) in &known.spreads {
        // Where wider spreads are left out, the others may have been improbable.
        let least = if spread_most.is_finite() { 0.01 } else { 0.0 };
        let probability = probability.max(least);
        if probability < 0.01 || *spread > spread_most {
            continue;
        }
        for (holds, weight) in [(true, HOLDS), (false, 1.0 - HOLDS)] {
            let observed = unknowns.observed(known, pairs, &noise, holds);
            for (at, hypothesis) in hypotheses.iter().enumerate() {
                for (prior, share) in *hypothesis {
                    let fit = fitted(&unknowns.priors(known, holds, *spread, *prior), &observed);
                    let log = fit.log_likelihood + (probability * weight * share).ln();
                    logs[at].push(log);
                    if at == 1 {
                        estimates.push((log, fit.of(CHANGE)));
                    }
                }
            }
        }
    }
    let [none, some, sized] = logs.map(|logs| log_sum(&logs));
    Evidence { for_change: some - none, for_size: sized - none, change: mixed(&estimates) }
}

/// The variances of today's pairs. They count where they are larger than the line's.
fn noise_today(known: &Known, pairs: &[LaidOut]) -> PairNoise {
    let sums = pairs.iter().map(|one| &one.pairs).chain([&known.newer]);
    let today = noise(sums);
    let shrunk = |line: f64, today_is: f64| {
        let freedom = f64::from(today.freedom);
        line.max((NOISE_FREEDOM * line + freedom * today_is) / (NOISE_FREEDOM + freedom))
    };
    let freedom = f64::from(
        known.noise.freedom + today.freedom - known.newer.differences.runs.saturating_sub(1),
    );
    // Student's quantile over the normal one where a change is said, 4.65 deviations out, by Cornish and Fisher's expansion.
    let tail = 1.0 + 5.7 / freedom.max(1.0) + 28.0 / freedom.max(1.0).powi(2);
    PairNoise {
        difference: shrunk(known.noise.difference, today.difference) * tail * tail,
        middle: shrunk(known.noise.middle, today.middle) * tail * tail,
        ..today
    }
}

/// Where the unknowns are: those of each layout and session after the first three.
struct Unknowns {
    layouts: Vec<u32>,
    sessions: Vec<u32>,
}

impl Unknowns {
    fn new(pairs: &[LaidOut]) -> Unknowns {
        let distinct = |of: &dyn Fn(&LaidOut) -> u32| {
            let mut distinct: Vec<u32> = pairs.iter().map(of).collect();
            distinct.sort_unstable();
            distinct.dedup();
            distinct
        };
        let mut layouts = distinct(&|one| one.layout);
        if layouts.first() != Some(&0) {
            layouts.insert(0, 0);
        }
        Unknowns { layouts, sessions: distinct(&|one| one.session) }
    }

    /// What a layout adds to the older and to the newer build.
    fn layout(&self, layout: u32) -> (usize, usize) {
        let at = self.layouts.binary_search(&layout).unwrap_or(0);
        (3 + 2 * at, 4 + 2 * at)
    }

    /// What a session of pairs adds to the host.
    fn session(&self, session: u32) -> usize {
        3 + 2 * self.layouts.len() + self.sessions.binary_search(&session).unwrap_or(0)
    }

    fn priors(&self, known: &Known, holds: bool, spread: f64, change: Normal) -> Vec<Normal> {
        let wide = |mean| Normal { mean, variance: WIDE * WIDE };
        let if_holds = |normal: Normal, otherwise: f64| {
            if holds && normal.variance.is_finite() { normal } else { wide(otherwise) }
        };
        let layout = Normal { mean: 0.0, variance: (spread * spread).max(FIXED) };
        let later = |session: &u32| {
            if *session == 0 { Normal { mean: 0.0, variance: LATER * LATER } } else { wide(0.0) }
        };
        let own = if known.own.variance.is_finite() { known.own.mean } else { 0.0 };
        let mut priors =
            vec![if_holds(known.host, known.anchor()), if_holds(known.before, own), change];
        priors.extend(self.layouts.iter().flat_map(|_| [layout; 2]));
        priors.extend(self.sessions.iter().map(later));
        priors
    }

    fn observed(
        &self,
        known: &Known,
        pairs: &[LaidOut],
        noise: &PairNoise,
        holds: bool,
    ) -> Vec<Observed> {
        let mut observed = Vec::new();
        let mut add = |parts: Vec<(usize, f64)>, sums: &Build, variance: f64| {
            if sums.runs > 0 {
                let variance = variance / f64::from(sums.runs);
                observed.push(Observed { parts, value: sums.mean, variance });
            }
        };
        let (older, newer) = self.layout(0);
        let PairSums { differences, middles } = known.newer;
        add(vec![(LEVEL, 1.0), (CHANGE, 1.0), (newer, 1.0)], &differences, noise.difference);
        add(vec![(HOST, 1.0), (LEVEL, 0.5), (CHANGE, 0.5), (newer, 0.5)], &middles, noise.middle);
        for LaidOut { layout, session, pairs } in pairs {
            let (older, newer) = self.layout(*layout);
            let PairSums { differences, middles } = pairs;
            add(vec![(CHANGE, 1.0), (newer, 1.0), (older, -1.0)], differences, noise.difference);
            let both = [(HOST, 1.0), (self.session(*session), 1.0), (LEVEL, 1.0)];
            let each = [(CHANGE, 0.5), (newer, 0.5), (older, 0.5)];
            add([both, each].concat(), middles, noise.middle);
        }
        if holds && known.own.variance.is_finite() {
            let Normal { mean, variance } = known.own;
            observed.push(Observed {
                parts: vec![(LEVEL, 1.0), (older, 1.0)],
                value: mean,
                variance,
            });
        }
        observed
    }
}

impl Known {
    /// The anchor's mean logarithm beside the newer build.
    fn anchor(&self) -> f64 {
        self.newer.middles.mean - self.newer.differences.mean / 2.0
    }
}

fn log_sum(logs: &[f64]) -> f64 {
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    highest + logs.iter().map(|log| (log - highest).exp()).sum::<f64>().ln()
}

/// The mean and variance of a mixture of normals with logarithms of weights.
fn mixed(parts: &[(f64, Normal)]) -> Normal {
    let highest = parts.iter().map(|(log, _)| *log).fold(f64::NEG_INFINITY, f64::max);
    let weight = |log: f64| (log - highest).exp();
    let total: f64 = parts.iter().map(|(log, _)| weight(*log)).sum();
    let mean = parts.iter().map(|(log, normal)| weight(*log) * normal.mean).sum::<f64>() / total;
    let variance = parts
        .iter()
        .map(|(log, normal)| weight(*log) * (normal.variance + (normal.mean - mean).powi(2)));
    Normal { mean, variance: variance.sum::<f64>() / total }
}

/// Places of a line for its change points.
pub fn changes(
    levels: &[Normal],
    places: &[usize],
    length: usize,
    size: f64,
) -> (Vec<f64>, Vec<f64>) {
    let tested = |(level, place): (&Normal, &usize)| Tested {
        commit: *place,
        mean: level.mean,
        variance: level.variance,
    };
    let tested: Vec<Tested> = levels.iter().zip(places).map(tested).collect();
    changes_between(&tested, length, size, LAYOUT_UNKNOWN)
}
