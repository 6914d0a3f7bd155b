//! Retrograde curves: more CPUs than some, and fewer operations.

use analysis::Student;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chance::Estimate;
use crate::fit::FITS_WITHOUT_NOISE;
use crate::sweep::{LEAST_NOISE, Sweep, SweepPoint};

/// A fall from the highest measured rate to the last one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Retrograde {
    /// The CPUs with the highest rate.
    pub from: f64,
    /// The most CPUs.
    pub to: f64,
    /// The share by which the rate is lower there.
    pub drop: Estimate,
}

/// The fall at the end of a curve, if it is surely one: by runs that are paired, since they come from the same blocks, or by
/// the noise of all points.
pub fn retrograde(sweep: &Sweep) -> Option<Retrograde> {
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
    let tests = [paired(highest, last), Some(by_all_points(sweep, highest, last))];
    let is_sure = |student: &Student| student.p() < sure(points.len() - 1);
    let student = tests.into_iter().flatten().find(is_sure)?;
    let fall = fall(Estimate { value: student.estimate, interval: student.interval(0.1) });
    (fall.drop.value > SMALLEST).then_some(fall)
}

/// The probability below which a fall from the highest of this number of points is sure. Of many means of one rate
/// the highest is well above the last one by chance, and there are two tests.
fn sure(points: usize) -> f64 {
    const ONE_POINT: f64 = 0.01;
    const OF_ALL: f64 = 0.05;
    ONE_POINT.min(OF_ALL / points as f64)
}

/// By how much the logarithms of rates at `last` are below those at `highest`, by runs of the same blocks.
fn paired(highest: &SweepPoint, last: &SweepPoint) -> Option<Student> {
    let pairs: Vec<f64> = highest.logs().zip(last.logs()).map(|(a, b)| a - b).collect();
    let are_blocks = highest.rates.len() == last.rates.len() && pairs.len() > 2;
    Student::paired(&pairs).filter(|_| are_blocks)
}

/// By how much the logarithms of rates at `last` are below those at `highest`, by the noise of all points.
fn by_all_points(sweep: &Sweep, highest: &SweepPoint, last: &SweepPoint) -> Student {
    let observed = sweep.observations();
    let deviation = |point: &SweepPoint| {
        let cpus = f64::from(point.cpus);
        observed.iter().find(|one| one.tasks == cpus).map_or(LEAST_NOISE, |one| one.deviation)
    };
    Student {
        estimate: highest.log_rate() - last.log_rate(),
        error: deviation(highest).hypot(deviation(last)),
        freedom: sweep.freedom() as f64,
    }
}
