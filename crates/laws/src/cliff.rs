//! Cliffs: a step down between two numbers of CPUs that no smooth law explains.
//!
//! A step counts if it improves the fit of each smooth law far beyond chance, with the first point and without it: one
//! task alone has the lock in its cache, which no law here knows. Elsewhere than at the last point the curve must also
//! fall short of its neighbours there. It counts, too, if no smooth law fits, with the first point or without it, and one
//! with the step fits well.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::chance::Estimate;
use crate::fit::{Fit, Observation};
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

/// The probability of a cliff where there is none.
const ALPHA: f64 = 0.03;
/// The smallest step that is reported, as a logarithm.
const SMALLEST: f64 = 0.02;
/// Points before the first cliff: with fewer no law is known there.
const BEFORE: usize = 3;

/// A step that improves a fit.
struct Step {
    /// The index of the first point after it.
    at: usize,
    fit: Fit,
    /// By how much the squares fall.
    gain: f64,
}

/// No smooth law fits below this probability of its deviations; one with a step fits well above the other.
const NO_SMOOTH: f64 = 0.01;
const STEP_FITS: f64 = 0.2;

/// The cliff of a curve, if it has one. `freedom` is that of the noise.
pub fn cliff(observed: &[Observation], freedom: usize) -> Option<Cliff> {
    if freedom == 0 || observed.len() < BEFORE + 3 {
        return None;
    }
    let student = StudentsT::new(0.0, 1.0, freedom as f64).ok()?;
    let step = beyond_chance(observed, &student).or_else(|| alone_fits(observed, freedom))?;
    // The step's deviation follows from how fast the squares fall to their minimum.
    let size = step.fit.parameters[STEP];
    let half = size / step.gain.sqrt() * student.inverse_cdf(0.95);
    let drop = |log: f64| 1.0 - (-log).exp();
    Some(Cliff {
        before: observed[step.at - 1].tasks,
        after: observed[step.at].tasks,
        drop: Estimate { value: size, interval: Some((size - half, size + half)) }.map(drop),
    })
}

/// A step that improves each fit far beyond chance, at a place where the curve falls short of its neighbours.
fn beyond_chance(observed: &[Observation], student: &StudentsT) -> Option<Step> {
    let mut best: Option<Step> = None;
    for skipped in [0, 1] {
        let observed = &observed[skipped..];
        let places = observed.len() - BEFORE;
        let needed = student.inverse_cdf(1.0 - ALPHA / places as f64).powi(2);
        for law in [Law::Handover, Law::Universal] {
            let step = best_step(&Fit::new(law, observed, &[]), observed)?;
            if step.gain < needed || step.fit.parameters[STEP] < SMALLEST {
                return None;
            }
            let is_better = best.as_ref().is_none_or(|best| step.fit.squares < best.fit.squares);
            // Only fits of all points compare.
            if skipped == 0 && is_better {
                best = Some(step);
            }
        }
    }
    best.filter(|step| falls_short(observed, step.at))
}

/// A step with which a law fits well where no smooth law fits.
fn alone_fits(observed: &[Observation], freedom: usize) -> Option<Step> {
    let smooth_fits = |law: Law, observed: &[Observation]| {
        let fit = Fit::new(law, observed, &[]);
        let p = fit.lack_of_fit(observed.len(), law.parameters(), freedom);
        p.is_none_or(|p| p >= NO_SMOOTH)
    };
    let is_smooth = |law: &Law| smooth_fits(*law, observed) || smooth_fits(*law, &observed[1..]);
    if Law::ALL.iter().any(is_smooth) {
        return None;
    }
    let steps = [Law::Handover, Law::Universal].into_iter().filter_map(|law| {
        let step = best_step(&Fit::new(law, observed, &[]), observed)?;
        let p = step.fit.lack_of_fit(observed.len(), law.parameters() + 1, freedom)?;
        (p > STEP_FITS && step.fit.parameters[STEP] >= SMALLEST).then_some(step)
    });
    steps.min_by(|a, b| a.fit.squares.total_cmp(&b.fit.squares))
}

/// The step that improves a smooth fit most; `None` where none does.
fn best_step(smooth: &Fit, observed: &[Observation]) -> Option<Step> {
    let steps = (BEFORE..observed.len()).map(|at| {
        let marked = observed.iter().enumerate();
        let marked = marked.map(|(i, one)| Observation { is_after_step: i >= at, ..*one });
        let mut start = smooth.parameters;
        start[STEP] = 0.05;
        let fit = Fit::from_start(smooth.law, start, &marked.collect::<Vec<_>>(), &[]);
        Step { at, fit, gain: smooth.squares - fit.squares }
    });
    steps.max_by(|a, b| a.gain.total_cmp(&b.gain)).filter(|step| step.gain > 0.0)
}

/// Whether the curve rises less up to this point than on both sides of it. After the last point nothing is known.
fn falls_short(observed: &[Observation], at: usize) -> bool {
    if at + 1 >= observed.len() {
        return true;
    }
    let width = |i: usize| (observed[i].tasks / observed[i - 1].tasks).ln();
    let slope = |i: usize| (observed[i].log_rate - observed[i - 1].log_rate) / width(i);
    let shortfall = (slope(at - 1) + slope(at + 1)) / 2.0 - slope(at);
    let [a, b, c] = [at - 1, at, at + 1].map(|i| 1.0 / width(i));
    let weights = [a / 2.0, a / 2.0 + b, b + c / 2.0, c / 2.0];
    let deviations = observed[at - 2..].iter().map(|one| one.deviation);
    let variance: f64 = weights.iter().zip(deviations).map(|(w, d)| (w * d).powi(2)).sum();
    shortfall > 0.8 * variance.sqrt()
}
