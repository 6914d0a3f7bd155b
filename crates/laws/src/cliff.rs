//! Cliffs: a step down between two numbers of CPUs that no plausible smooth law explains.
//!
//! A growing hand-over bends a curve down, too, and with any hand-over it explains many steps. So what counts is how
//! probable the measured rates are with a step somewhere against how probable they are without one, over all laws and over
//! all parameters that they may have, each weighted by how plausible it is: a lock whose waiters cost much more than those
//! of other locks is no better explanation than a step.
//!
//! It must be so without the first point as well: one task alone has the lock in its cache, which no law here knows.
//!
//! Sources: R. Kass, A. Raftery, "Bayes Factors", Journal of the American Statistical Association 90, 1995 (Laplace's
//! approximation, section 4.1); D. MacKay, "Information Theory, Inference, and Learning Algorithms", 2003, chapter 28.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::chance::Estimate;
use crate::fit::{Fit, Known, Observation, Quantity};
use crate::law::{Law, STEP};

/// A step down between two numbers of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cliff {
    /// The last number before it.
    pub before: f64,
    /// The first number after it.
    pub after: f64,
    /// By which share rates are lower after it.
    pub drop: Estimate,
}

/// How much more probable the rates must be with a step: as a logarithm, for all points and without the first.
const FOR_A_STEP: f64 = 0.0;
const WITHOUT_FIRST: f64 = 0.0;
/// Steps that are plausible and matter: 10 %, and a factor of 2 (one standard deviation), as logarithms of both.
const SIZE: f64 = -2.25;
const SIZE_DEVIATION: f64 = 0.69;
/// The smallest step that is reported, as a logarithm.
const SMALLEST: f64 = 0.02;
/// Points before the first cliff: with fewer no law is known there.
const BEFORE: usize = 3;
/// Laws that may hold.
const LAWS: [Law; 4] = [Law::Amdahl, Law::Queue, Law::Handover, Law::Universal];

/// What is plausible of a law's parameters, as for one that is known badly. Medians and factors (one standard deviation):
/// a serial share of 4 % and 4.5; a hand-over of 2 % of the hold and 2.7; κ of 0.0002 and 5.5.
fn plausible(law: Law) -> Vec<Known> {
    let known = |quantity, median: f64, deviation| Known { quantity, log: median.ln(), deviation };
    let share = known(Quantity::Share, 0.04, 1.5);
    match law {
        Law::Handover => vec![share, known(Quantity::Third, 0.02, 1.0)],
        Law::Universal => vec![share, known(Quantity::Third, 2e-4, 1.7)],
        _ => vec![share],
    }
}

/// The cliff of a curve, if it has one. `freedom` is that of the noise.
pub fn cliff(observed: &[Observation], freedom: usize) -> Option<Cliff> {
    let Weighed { step, for_a_step, without_first } = weighed(observed, freedom)?;
    if for_a_step < FOR_A_STEP || without_first < WITHOUT_FIRST {
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

/// The step that explains a curve best, and how much more probable the rates are with one.
struct Weighed {
    step: Step,
    for_a_step: f64,
    without_first: f64,
}

fn weighed(observed: &[Observation], freedom: usize) -> Option<Weighed> {
    if freedom == 0 || observed.len() < BEFORE + 3 {
        return None;
    }
    let found = steps(observed, freedom, BEFORE..observed.len());
    let step = found.best?;
    // The place is known already.
    let rest = steps(&observed[1..], freedom, step.at - 1..step.at);
    Some(Weighed {
        step,
        for_a_step: found.for_a_step(observed.len() - BEFORE),
        without_first: rest.for_a_step(1),
    })
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

/// How probable the rates are without a step and with one.
struct Steps {
    smooth: f64,
    with_step: f64,
    best: Option<Step>,
}

impl Steps {
    /// The logarithm of how much more probable the rates are with a step at any of this number of places.
    fn for_a_step(&self, places: usize) -> f64 {
        self.with_step - (places as f64).ln() - self.smooth
    }
}

fn steps(observed: &[Observation], freedom: usize, places: std::ops::Range<usize>) -> Steps {
    let nothing = f64::NEG_INFINITY;
    let mut found = Steps { smooth: nothing, with_step: nothing, best: None };
    let mut marked = observed.to_vec();
    let mut by_place = vec![nothing; observed.len()];
    for law in LAWS {
        let known = plausible(law);
        let smooth = Fit::new(law, observed, &known);
        found.smooth = log_sum(found.smooth, evidence(&smooth, observed, &known, freedom).0);
        for at in places.clone() {
            marked.iter_mut().enumerate().for_each(|(i, one)| one.is_after_step = i >= at);
            let mut start = smooth.parameters;
            start[STEP] = 0.05;
            let fit = Fit::from_start(law, start, &marked, &known);
            let size = fit.parameters[STEP];
            if size < SMALLEST {
                continue;
            }
            let (of_fit, deviation) = evidence(&fit, &marked, &known, freedom);
            let off = (size.ln() - SIZE) / SIZE_DEVIATION;
            let prior = -off * off / 2.0 - (size * SIZE_DEVIATION).ln();
            let step = Step { at, size, deviation, evidence: of_fit + prior };
            found.with_step = log_sum(found.with_step, step.evidence);
            by_place[at] = log_sum(by_place[at], step.evidence);
            let is_better = |best: &Step| {
                if best.at == at {
                    step.evidence > best.evidence
                } else {
                    by_place[at] > by_place[best.at]
                }
            };
            if found.best.as_ref().is_none_or(is_better) {
                found.best = Some(step);
            }
        }
    }
    found
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
