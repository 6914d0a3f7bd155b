//! How fast each build of a line is, beside the anchor that ran in its blocks.
//!
//! The ratio to the anchor of the same blocks has the noise of both. Where the anchor's own line shows that the host is the
//! same from one session to the next, its other sessions tell, too, what the host did to a new point, and the anchor's few
//! runs there no longer double the variance. How far they do is estimated: a host that drifts or steps leaves the ratio.

use crate::evidence::Build;
use crate::gaussian::{Normal, Observed, fitted};

/// Pairs of runs of two builds, each in one block, as sums of logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairSums {
    /// The second build less the first.
    pub differences: Build,
    /// The mean of both.
    pub middles: Build,
}

impl Default for PairSums {
    fn default() -> PairSums {
        PairSums { differences: Build::new(0), middles: Build::new(0) }
    }
}

impl PairSums {
    /// Adds the logarithms of a pair.
    pub fn add(&mut self, first: f64, second: f64) {
        self.differences.add(second - first);
        self.middles.add(f64::midpoint(first, second));
    }
}

/// A build of a line, as its point was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredBuild {
    /// When: sessions are numbered in the order of time.
    pub session: usize,
    /// Runs of the anchor, each with one of the build.
    pub beside_anchor: PairSums,
}

/// Variances of single pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairNoise {
    pub difference: f64,
    pub middle: f64,
    /// Degrees of freedom of `difference`.
    pub freedom: u32,
}

/// What the builds' own sessions say.
#[derive(Clone, Debug)]
pub struct Levels {
    pub noise: PairNoise,
    /// Each build's ratio to the anchor, as a logarithm.
    pub builds: Vec<Normal>,
}

/// Drifts of the host between two sessions, as shares of the variance of the anchor's mean in one, with prior weights.
const DRIFTS: [(f64, f64); 6] =
    [(0.0, 0.25), (0.05, 0.2), (0.25, 0.2), (1.0, 0.15), (5.0, 0.1), (50.0, 0.1)];

/// The drift may always be this large, as a standard deviation: no host is exactly what it was.
const DRIFT_LEAST: f64 = 0.002;

/// Beyond so many standard deviations the host made a step, and what was before says nothing of it.
const STEP: f64 = 3.0;

/// The levels of builds, in the order of the line.
pub fn levels(builds: &[MeasuredBuild]) -> Levels {
    let noise = noise(builds.iter().map(|build| &build.beside_anchor));
    let mut order: Vec<usize> = (0..builds.len()).collect();
    order.sort_by_key(|at| builds[*at].session);
    let anchors: Vec<Normal> =
        order.iter().map(|at| anchor(&builds[*at].beside_anchor, &noise)).collect();
    let typical = anchors.iter().map(|anchor| anchor.variance).fold(f64::INFINITY, f64::min);
    let drift = if typical.is_finite() { drift(&anchors, typical) } else { f64::INFINITY };
    let earlier = predicted(anchors.iter().copied(), drift).0;
    let later = predicted(anchors.iter().rev().copied(), drift).0;
    let mut hosts = vec![Normal::unknown(); builds.len()];
    for (rank, at) in order.into_iter().enumerate() {
        let sides = [earlier[rank], later[builds.len() - 1 - rank]];
        hosts[at] = host(sides, anchors[rank]);
    }
    let level = |(build, host): (&MeasuredBuild, &Normal)| level(build, *host, &noise);
    let levels = builds.iter().zip(&hosts).map(level).collect();
    Levels { noise, builds: levels }
}

/// The variances within sessions.
pub fn noise<'a>(sessions: impl Iterator<Item = &'a PairSums> + Clone) -> PairNoise {
    let pooled = |of: &dyn Fn(&PairSums) -> Build| {
        let sums = sessions.clone().map(of);
        let squares: f64 = sums.clone().map(|sums| sums.squares).sum();
        let freedom: u32 = sums.map(|sums| sums.runs.saturating_sub(1)).sum();
        ((squares / f64::from(freedom.max(1))).max(1e-12), freedom)
    };
    let (difference, freedom) = pooled(&|pairs| pairs.differences);
    let (middle, _) = pooled(&|pairs| pairs.middles);
    PairNoise { difference, middle, freedom }
}

/// What the sessions before and after one say of the host there, as far as its own anchor does not contradict them.
fn host(sides: [Normal; 2], own: Normal) -> Normal {
    let [before, after] = sides.map(|side| if agree(side, own) { side } else { Normal::unknown() });
    if agree(before, after) {
        return before.and(after);
    }
    let is_nearer = (before.mean - own.mean).abs() < (after.mean - own.mean).abs();
    if is_nearer { before } else { after }
}

/// Whether two pieces of knowledge may be of one number.
fn agree(a: Normal, b: Normal) -> bool {
    let variance = a.variance + b.variance;
    !variance.is_finite() || (a.mean - b.mean).powi(2) <= STEP.powi(2) * variance
}

/// The mean logarithm of the anchor in a session.
fn anchor(pairs: &PairSums, noise: &PairNoise) -> Normal {
    if pairs.middles.runs == 0 {
        return Normal::unknown();
    }
    let mean = pairs.middles.mean - pairs.differences.mean / 2.0;
    let variance = (noise.middle + noise.difference / 4.0) / f64::from(pairs.middles.runs);
    Normal { mean, variance }
}

/// The variance of the host's drift from one session to the next.
fn drift(anchors: &[Normal], typical: f64) -> f64 {
    let ways = DRIFTS.map(|(share, weight)| {
        let drift = typical * share;
        (drift, weight.ln() + predicted(anchors.iter().copied(), drift).1)
    });
    let highest = ways.iter().map(|(_, log)| *log).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = ways.iter().map(|(_, log)| (log - highest).exp()).sum();
    ways.iter().map(|(drift, log)| drift * (log - highest).exp() / total).sum::<f64>()
        + DRIFT_LEAST.powi(2)
}

/// What the sessions before each say of it, and the logarithm of the probability of all.
fn predicted(anchors: impl Iterator<Item = Normal>, drift: f64) -> (Vec<Normal>, f64) {
    let mut known = Normal::unknown();
    let (mut before, mut log) = (Vec::new(), 0.0);
    for anchor in anchors {
        let expected = known.disturbed(drift);
        before.push(expected);
        let spread = expected.variance + anchor.variance;
        known = expected.and(anchor);
        if spread.is_finite() {
            let far = (anchor.mean - expected.mean).powi(2) / spread;
            log -= 0.5 * (spread.ln() + far.min(STEP.powi(2)));
            if far > STEP.powi(2) {
                known = anchor;
            }
        }
    }
    (before, log)
}

/// A build's ratio to the anchor, by its own session and what is known of the host there.
fn level(build: &MeasuredBuild, host: Normal, noise: &PairNoise) -> Normal {
    let PairSums { differences, middles } = build.beside_anchor;
    let runs = f64::from(differences.runs.max(1));
    let ratio = Normal { mean: differences.mean, variance: noise.difference / runs };
    if !host.variance.is_finite() {
        return ratio;
    }
    let parts = vec![(0, 1.0), (1, 0.5)];
    let middle = Observed { parts, value: middles.mean, variance: noise.middle / runs };
    fitted(&[host, ratio], &[middle]).of(1)
}

/// What these sessions say of the host in the next one.
pub fn host_after(builds: &[MeasuredBuild]) -> Normal {
    let noise = noise(builds.iter().map(|build| &build.beside_anchor));
    let mut order: Vec<&MeasuredBuild> = builds.iter().collect();
    order.sort_by_key(|build| build.session);
    let anchors: Vec<Normal> =
        order.iter().map(|build| anchor(&build.beside_anchor, &noise)).collect();
    let typical = anchors.iter().map(|anchor| anchor.variance).fold(f64::INFINITY, f64::min);
    if !typical.is_finite() {
        return Normal::unknown();
    }
    let next = anchors.iter().copied().chain([Normal::unknown()]);
    predicted(next, drift(&anchors, typical)).0.pop().unwrap_or(Normal::unknown())
}
