//! Retrograde curves: more CPUs than some, and fewer operations.

use analysis::Student;
use serde::Serialize;

use crate::chance::Estimate;
use crate::fit::FITS_WITHOUT_NOISE;
use crate::sweep::{LEAST_NOISE, Sweep, SweepPoint};

/// A fall from the highest measured rate to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Retrograde {
    /// The CPUs with the highest rate.
    pub from: f64,
    /// The most CPUs.
    pub to: f64,
    /// The share by which the rate is lower there.
    pub drop: Estimate,
}

/// The fall at the end of a curve, if it is surely one. Runs at both ends are paired where each has the same number: they
/// come from the same blocks.
pub fn retrograde(sweep: &Sweep) -> Option<Retrograde> {
    /// The highest of several means is partly so by chance.
    const SURE: f64 = 0.01;
    const SMALLEST: f64 = 0.02;
    /// Where each point ran once, this number of times the deviation that a law may have there: three standard deviations
    /// of a difference.
    const WITHOUT_NOISE: f64 = 4.25;
    let points = sweep.points();
    let highest = points.iter().max_by(|a, b| a.log_rate().total_cmp(&b.log_rate()))?;
    let last = &points[points.len() - 1];
    if highest.cpus == last.cpus {
        return None;
    }
    let share = |log: f64| 1.0 - (-log).exp();
    let fall = |drop: Estimate| Retrograde {
        from: f64::from(highest.cpus),
        to: f64::from(last.cpus),
        drop: drop.map(share),
    };
    if sweep.freedom() == 0 {
        let drop = highest.log_rate() - last.log_rate();
        let fall = fall(Estimate { value: drop, interval: None });
        return (drop > WITHOUT_NOISE * FITS_WITHOUT_NOISE).then_some(fall);
    }
    let student = difference(highest, last)?;
    let fall = fall(Estimate { value: student.estimate, interval: student.interval(0.1) });
    (student.p() < SURE && fall.drop.value > SMALLEST).then_some(fall)
}

/// By how much the logarithms of rates at `last` are below those at `highest`.
fn difference(highest: &SweepPoint, last: &SweepPoint) -> Option<Student> {
    let (a, b): (Vec<f64>, Vec<f64>) = (highest.logs().collect(), last.logs().collect());
    let pairs: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
    let student = if a.len() == b.len() && a.len() > 2 {
        Student::paired(&pairs)
    } else {
        Student::welch(&b, &a)
    };
    // Values without any noise were written with few digits.
    let few_digits = Student {
        estimate: highest.log_rate() - last.log_rate(),
        error: LEAST_NOISE,
        freedom: (a.len() + b.len()).saturating_sub(2) as f64,
    };
    student.or(Some(few_digits).filter(|student| student.freedom >= 2.0))
}
