//! Cliffs: a step down between two numbers of CPUs that no plausible smooth law explains.
//!
//! A growing hand-over bends a curve down, too, and with any hand-over it explains many steps. So what counts is how
//! probable the measured rates are with a step somewhere against how probable they are without one, over all laws and over
//! all parameters that they may have, each weighted by how plausible it is: a lock whose waiters cost much more than those
//! of other locks is no better explanation than a step. Without a step such a lock has a share of its own
//! ([`CROWDED_SHARE`]); beside a step it has none, since it explains any end of a curve without one.
//!
//! It must be so without the first point as well: one task alone has the lock in its cache, which no law here knows.
//!
//! A curve may also bend where a resource is full or a second socket begins. A law bends gradually and is far off there, by
//! which a step explains the curve better without being right. So a step must explain more than any bend does, too. And it
//! must explain more without the lowest run of each point.
//!
//! Sources: R. Kass, A. Raftery, "Bayes Factors", Journal of the American Statistical Association 90, 1995 (Laplace's
//! approximation, section 4.1); D. MacKay, "Information Theory, Inference, and Learning Algorithms", 2003, chapter 28.

use std::f64::consts::TAU;
use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::chance::Estimate;
use crate::fit::{Fit, Known, Observation, Quantity};
use crate::law::{Law, STEP};
use crate::sweep::Sweep;

/// A step down between two numbers of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cliff {
    /// The last number before it.
    pub before: f64,
    /// The first number after it.
    pub after: f64,
    /// By which share rates are lower after it.
    pub drop: Estimate,
}

/// How plausible a step is at each place, against none: the last point is that of a host whose CPUs are all in use, those
/// of its other work and both threads of each core among them.
const ODDS: f64 = 0.45;
const ODDS_AT_LAST: f64 = 2.0;
/// Steps that are plausible and matter: 16 %, and a factor of 1.8 (one standard deviation), as logarithms of both. Two of
/// three lie between 9 and 27 %.
const SIZE: f64 = -1.75;
const SIZE_DEVIATION: f64 = 0.6;
/// The smallest step that is reported, as a logarithm.
const SMALLEST: f64 = 0.02;
/// Points before the first cliff: with fewer no law is known there.
const BEFORE: usize = 3;

/// A law that may hold, and what is plausible of its parameters.
struct Candidate {
    law: Law,
    /// The median of the third parameter, and a factor (one standard deviation) as a logarithm.
    third: Option<(f64, f64)>,
}

/// Laws that may hold with a step or without. Medians and factors: a hand-over of 2 % of the hold and 2.7; κ of 0.0002 and
/// 5.5.
const CANDIDATES: [Candidate; 4] = [
    Candidate { law: Law::Amdahl, third: None },
    Candidate { law: Law::Queue, third: None },
    Candidate { law: Law::Handover, third: Some((0.02, 1.0)) },
    Candidate { law: Law::Universal, third: Some((2e-4, 1.7)) },
];
/// A lock that nearly stops where tasks wait: a hand-over of 17 % of the hold and a factor of 2.7.
const CROWDED: Candidate = Candidate { law: Law::Handover, third: Some((0.17, 1.0)) };
/// The share of such locks among curves without a step.
const CROWDED_SHARE: f64 = 0.2;
/// The share of curves that bend, among those without a step.
const BENT_SHARE: f64 = 0.2;
/// Bends that are plausible, all alike: from none to a line that becomes flat, and some that fall.
const BEND_MOST: f64 = 1.2;

impl Candidate {
    /// What is plausible of the parameters, as for one that is known badly. The serial share is 4 %, and a factor of 4.5.
    fn plausible(&self) -> Vec<Known> {
        if self.law == Law::Linear {
            return Vec::new();
        }
        let known =
            |quantity, median: f64, deviation| Known { quantity, log: median.ln(), deviation };
        let third = self.third.map(|(median, deviation)| known(Quantity::Third, median, deviation));
        [known(Quantity::Share, 0.04, 1.5)].into_iter().chain(third).collect()
    }
}

/// The cliff of a curve, if it has one.
pub fn cliff(sweep: &Sweep) -> Option<Cliff> {
    let (observed, freedom) = (sweep.observations(), sweep.freedom());
    if freedom == 0 || observed.len() < BEFORE + 3 {
        return None;
    }
    let last = observed.len() - 1;
    let odds = |at: usize| if at == last { ODDS_AT_LAST } else { ODDS };
    let steps = Steps::new(&observed, freedom, BEFORE..observed.len(), odds);
    let step = steps.best?;
    // One bad run lowers a mean.
    let without_lowest = sweep.without_lowest_runs();
    let (fewer, freedom_left) = (without_lowest.observations(), without_lowest.freedom());
    let again = || Steps::new(&fewer, freedom_left, step.at..step.at + 1, |_| 1.0);
    if !holds(&steps, &observed, freedom, step.at)
        || !holds(&again(), &fewer, freedom_left, step.at)
    {
        return None;
    }
    let student = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    let half = step.deviation * student.inverse_cdf(0.95);
    let drop = |log: f64| 1.0 - (-log).exp();
    let interval = Some((step.size - half, step.size + half));
    Some(Cliff {
        before: observed[step.at - 1].tasks,
        after: observed[step.at].tasks,
        drop: Estimate { value: step.size, interval }.map(drop),
    })
}

/// Whether a step at this place explains the points best: all of them and those without the first, and better than a bend.
fn holds(steps: &Steps, observed: &[Observation], freedom: usize, at: usize) -> bool {
    // The place is known already.
    let rest = || Steps::new(&observed[1..], freedom, at - 1..at, |_| 1.0);
    steps.for_a_step() >= 0.0
        && rest().for_a_step() >= 0.0
        && steps.with_step >= bent(observed, freedom)
}

/// A step that may explain a curve.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The index of the first point after it.
    at: usize,
    /// As a logarithm, with its standard deviation.
    size: f64,
    deviation: f64,
    /// The logarithm of how probable the rates are with it.
    evidence: f64,
}

/// How probable the rates are without a step and with one, as logarithms.
struct Steps {
    smooth: f64,
    with_step: f64,
    /// The one that explains the curve best, at the place that does.
    best: Option<Step>,
}

impl Steps {
    fn new(
        observed: &[Observation],
        freedom: usize,
        places: Range<usize>,
        odds: impl Fn(usize) -> f64,
    ) -> Steps {
        let nothing = f64::NEG_INFINITY;
        let number = CANDIDATES.len() as f64;
        let crowded = Smooth::new(&CROWDED, observed, freedom);
        let usual = CANDIDATES.each_ref().map(|one| Smooth::new(one, observed, freedom));
        let smooth = usual.iter().map(|one| one.evidence).fold(nothing, log_sum);
        let smooth = smooth + ((1.0 - CROWDED_SHARE) / number).ln();
        let smooth = log_sum(smooth, crowded.evidence + CROWDED_SHARE.ln());
        let mut found = Steps { smooth, with_step: nothing, best: None };
        let mut best_place = nothing;
        for at in places {
            let steps: Vec<Step> =
                usual.iter().filter_map(|one| one.with_step(observed, freedom, at)).collect();
            let place = steps.iter().map(|step| step.evidence).fold(nothing, log_sum);
            let place = place + (odds(at) / number).ln();
            found.with_step = log_sum(found.with_step, place);
            if place > best_place {
                best_place = place;
                found.best = steps.into_iter().max_by(|a, b| a.evidence.total_cmp(&b.evidence));
            }
        }
        found
    }

    /// The logarithm of how much more probable the rates are with a step than without one.
    fn for_a_step(&self) -> f64 {
        self.with_step - self.smooth
    }
}

/// A candidate without a step.
struct Smooth {
    fit: Fit,
    known: Vec<Known>,
    evidence: f64,
}

impl Smooth {
    fn new(candidate: &Candidate, observed: &[Observation], freedom: usize) -> Smooth {
        let known = candidate.plausible();
        let fit = Fit::new(candidate.law, observed, &known);
        let (evidence, _) = evidence(&fit, observed, &known, freedom);
        Smooth { fit, known, evidence }
    }

    /// The candidate with a step at this place, unless that is too small.
    fn with_step(&self, observed: &[Observation], freedom: usize, at: usize) -> Option<Step> {
        let marked = observed.iter().enumerate();
        let marked: Vec<Observation> =
            marked.map(|(i, one)| Observation { steps: f64::from(i >= at), ..*one }).collect();
        let (fit, of_fit, deviation) = self.marked(&marked, freedom, 0.05);
        let size = fit.parameters[STEP];
        let evidence = of_fit + plausible_size(size, deviation);
        (size >= SMALLEST).then_some(Step { at, size, deviation, evidence })
    }

    /// The evidence of the candidate with a bend at this number of CPUs.
    fn with_bend(&self, observed: &[Observation], freedom: usize, cpus: f64) -> f64 {
        let bent =
            |one: &Observation| Observation { steps: (one.tasks / cpus).ln().max(0.0), ..*one };
        let marked: Vec<Observation> = observed.iter().map(bent).collect();
        let (fit, of_fit, deviation) = self.marked(&marked, freedom, 0.5);
        let normal = Normal::standard();
        let within = |bend: f64| normal.cdf((bend - fit.parameters[STEP]) / deviation);
        of_fit + ((within(BEND_MOST) - within(0.0)) / BEND_MOST).ln() + TAU.ln() / 2.0
    }

    /// The candidate fitted to marked points from a step of this size, its evidence, and the step's standard deviation.
    fn marked(&self, marked: &[Observation], freedom: usize, step: f64) -> (Fit, f64, f64) {
        let mut start = self.fit.parameters;
        start[STEP] = step;
        let fit = Fit::from_start(self.fit.law, start, marked, &self.known);
        let (evidence, deviation) = evidence(&fit, marked, &self.known, freedom);
        (fit, evidence, deviation)
    }
}

/// How probable the rates are with a bend somewhere, as a logarithm.
fn bent(observed: &[Observation], freedom: usize) -> f64 {
    /// Places are this far apart, and those around the best one a quarter of it.
    const APART: f64 = 1.1;
    const PARTS: i32 = 4;
    let (first, last) = (observed[1].tasks, observed[observed.len() - 1].tasks);
    let places = std::iter::successors(Some(first), |cpus| Some(APART * cpus));
    let places: Vec<f64> = places.take_while(|cpus| *cpus < last).collect();
    let laws = [Candidate { law: Law::Linear, third: None }].into_iter().chain(CANDIDATES);
    let bends = laws.map(|candidate| {
        let smooth = Smooth::new(&candidate, observed, freedom);
        let at = |cpus: f64| smooth.with_bend(observed, freedom, cpus);
        let coarse: Vec<f64> = places.iter().map(|cpus| at(*cpus)).collect();
        let best = (0..places.len()).max_by(|a, b| coarse[*a].total_cmp(&coarse[*b])).unwrap_or(0);
        let between = (1 - PARTS..PARTS).filter(|part| *part != 0).map(|part| {
            let cpus = places[best] * APART.powf(f64::from(part) / f64::from(PARTS));
            at(cpus) - f64::from(PARTS).ln()
        });
        coarse.iter().copied().chain(between).fold(f64::NEG_INFINITY, log_sum)
    });
    let number = (places.len() * (CANDIDATES.len() + 1)) as f64;
    bends.fold(f64::NEG_INFINITY, log_sum) + (BENT_SHARE / number).ln()
}

/// The logarithm of how plausible a step is that is known with this standard deviation: the mean over the sizes that it
/// may have, times the square root of 2π.
fn plausible_size(size: f64, deviation: f64) -> f64 {
    const PARTS: u32 = 60;
    /// The integral reaches this number of standard deviations to either side.
    const FARTHEST: f64 = 4.0;
    let part = 2.0 * FARTHEST / f64::from(PARTS);
    let offs = (0..PARTS).map(|index| part * (f64::from(index) + 0.5) - FARTHEST);
    let sizes = offs.map(|off| (off, size + deviation * off)).filter(|(_, size)| *size > 0.0);
    let at = |(off, size): (f64, f64)| {
        let z = (size.ln() - SIZE) / SIZE_DEVIATION;
        -(off * off + z * z) / 2.0 - (size * SIZE_DEVIATION).ln()
    };
    let sum = sizes.map(at).fold(f64::NEG_INFINITY, log_sum);
    sum + part.ln() - TAU.ln() / 2.0
}

/// The logarithm of how probable the rates are by a law, over its plausible parameters, but for a factor that all laws
/// share; and the standard deviation of a step. The noise is known from few runs.
fn evidence(fit: &Fit, observed: &[Observation], known: &[Known], freedom: usize) -> (f64, f64) {
    let off = |one: &Known| (one.log - one.quantity.log(&fit.parameters)) / one.deviation;
    let plausible: f64 = known.iter().map(|one| off(one).powi(2)).sum();
    let measured = (fit.squares - plausible).max(0.0);
    let freedom = freedom as f64;
    let likelihood = -(freedom + observed.len() as f64) / 2.0 * (measured / freedom).ln_1p();
    let prior: f64 = known.iter().map(|one| -one.deviation.ln()).sum();
    let sharpness = fit.sharpness(observed, known);
    let evidence = likelihood - plausible / 2.0 + prior - sharpness.log_determinant / 2.0;
    (evidence, sharpness.step_deviation)
}

/// The logarithm of a sum, of logarithms.
fn log_sum(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_as_plausible_as_its_size_and_one_that_may_have_any_size_less() {
        let density = |size: f64| {
            let z = (size.ln() - SIZE) / SIZE_DEVIATION;
            -z * z / 2.0 - (size * SIZE_DEVIATION).ln()
        };
        for size in [0.05, 0.17, 0.4] {
            assert!((plausible_size(size, 1e-5) - density(size)).abs() < 1e-3, "{size}");
        }
        assert!(plausible_size(0.17, 1.0) < plausible_size(0.17, 0.01) - 1.0);
    }
}
