//! Forecasts: rates with more CPUs than were measured, what they rest on, and how far a curve alone reaches.

use serde::Serialize;

use crate::chance::{Draws, Estimate};
use crate::fit::{Fit, Known, Observation, Quantity};
use crate::law::Law;
use crate::scaling::scaling;
use crate::sweep::Sweep;

/// Rates with more CPUs than were measured.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The laws that the intervals hold; the first gives the values.
    pub laws: Vec<Law>,
    pub points: Vec<ForecastPoint>,
    /// The quantity with which the rate at the most CPUs varies most, and the share of its variance that goes with it.
    pub rests_on: Option<(&'static str, f64)>,
    /// What the lower half of the curve says about the upper.
    pub hold_out: Result<HoldOut, String>,
}

/// The rate at one number of CPUs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ForecastPoint {
    pub cpus: u32,
    pub rate: Estimate,
}

/// A forecast of what was measured, from the part with at most half of the CPUs.
#[derive(Clone, Debug, Serialize)]
pub struct HoldOut {
    /// The most CPUs of the part.
    pub up_to: u32,
    /// Forecasts and measured means.
    pub points: Vec<(ForecastPoint, f64)>,
}

/// How far beyond the measured CPUs the curve alone may be extended.
const BARE: f64 = 2.0;

/// Forecasts the rates at these numbers of CPUs.
///
/// # Errors
/// Says why not: no law fits, or the curve alone does not reach that far.
pub fn forecast(sweep: &Sweep, known: &[Known], cpus: &[u32]) -> Result<Forecast, String> {
    let most = cpus.iter().copied().max().unwrap_or(0);
    let measured = sweep.most_cpus();
    if known.is_empty() && f64::from(most) > BARE * measured {
        return Err(format!(
            "{most} CPUs: a curve up to {measured} CPUs says nothing beyond {}; more CPUs measured, \
             or the time that the lock is held and what each waiting task adds, reach farther",
            BARE * measured
        ));
    }
    let all = candidates(sweep, known)?;
    let hold_out = hold_out(sweep, known);
    let rests_on = rests_on(&all[0], most);
    let points = cpus.iter().map(|&cpus| point(&all, cpus)).collect();
    Ok(Forecast {
        laws: all.iter().map(|draws| draws.fit.law).collect(),
        points,
        rests_on,
        hold_out,
    })
}

/// Draws of the laws that may hold. With known quantities only the law that has them does.
fn candidates(sweep: &Sweep, known: &[Known]) -> Result<Vec<Draws>, String> {
    let (observed, freedom) = (sweep.observations(), sweep.freedom());
    let draws = |law: Law, observed: &[Observation]| {
        Draws::new(Fit::new(law, observed, known), observed, known, freedom)
    };
    if !known.is_empty() {
        return Ok(vec![draws(Law::Handover, &observed)]);
    }
    let found = scaling(sweep);
    let first = found.law.ok_or("no law fits the curve, so none says how it goes on")?;
    let others = found.laws.iter().filter(|law| law.fits && law.law != first).map(|law| law.law);
    Ok([first].into_iter().chain(others).map(|law| draws(law, &observed)).collect())
}

fn point(all: &[Draws], cpus: u32) -> ForecastPoint {
    let rates = all.iter().map(|draws| draws.estimate(|fit| fit.rate(f64::from(cpus))));
    let hull = |a: Estimate, b: Estimate| Estimate {
        interval: a.interval.zip(b.interval).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))),
        ..a
    };
    let rate = rates.reduce(hull).expect("a forecast has a law");
    ForecastPoint { cpus, rate }
}

fn hold_out(sweep: &Sweep, known: &[Known]) -> Result<HoldOut, String> {
    let half = (sweep.most_cpus() / 2.0).floor() as u32;
    let part = sweep.up_to(half).map_err(|why| format!("up to {half} CPUs: {why}"))?;
    let all = candidates(&part, known).map_err(|why| format!("up to {half} CPUs: {why}"))?;
    let beyond = sweep.points().iter().filter(|measured| measured.cpus > half);
    let points = beyond.map(|measured| (point(&all, measured.cpus), measured.log_rate().exp()));
    Ok(HoldOut { up_to: half, points: points.collect() })
}

/// A quantity of a law, by its name.
type Named = (&'static str, fn(&Fit) -> f64);

/// The quantity that goes most with the rate at this number of CPUs, over all draws.
fn rests_on(draws: &Draws, cpus: u32) -> Option<(&'static str, f64)> {
    let quantities: [Named; 3] = match draws.fit.law {
        Law::Queue | Law::Handover => [
            ("the time that the lock is held", |fit| Quantity::Hold.log(&fit.parameters)),
            ("the hand-over per waiting task", |fit| Quantity::Handover.log(&fit.parameters)),
            ("the time of one operation alone", |fit| fit.parameters[0]),
        ],
        _ => [
            ("the serial share", |fit| fit.parameters[1]),
            ("kappa", |fit| fit.parameters[2]),
            ("the time of one operation alone", |fit| fit.parameters[0]),
        ],
    };
    let used = if draws.fit.law == Law::Queue || draws.fit.law == Law::Amdahl {
        [0, 2, 2]
    } else {
        [0, 1, 2]
    };
    let rates: Vec<f64> = draws.drawn().iter().map(|fit| fit.rate(f64::from(cpus)).ln()).collect();
    let shares = used.map(|index| {
        let (name, of) = quantities[index];
        let values: Vec<f64> = draws.drawn().iter().map(of).collect();
        (name, correlation(&values, &rates).powi(2))
    });
    shares.into_iter().filter(|(_, share)| share.is_finite()).max_by(|a, b| a.1.total_cmp(&b.1))
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |of: fn(f64, f64) -> f64| {
        a.iter().zip(b).map(|(a, b)| of(a - mean_a, b - mean_b)).sum::<f64>()
    };
    sum(|a, b| a * b) / (sum(|a, _| a * a) * sum(|_, b| b * b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::closed_queue;

    fn sweep(counts: &[u32]) -> Sweep {
        let runs = counts.iter().map(|&cpus| {
            let rate = closed_queue(f64::from(cpus), 950.0, 50.0, 1.0);
            (cpus, [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * rate).to_vec())
        });
        Sweep::new(runs).unwrap()
    }

    #[test]
    fn a_bare_curve_reaches_twice_its_cpus() {
        let sweep = sweep(&[1, 2, 3, 4, 6, 8]);
        assert!(forecast(&sweep, &[], &[16]).is_ok());
        let why = forecast(&sweep, &[], &[17]).unwrap_err();
        assert!(why.starts_with("17 CPUs: a curve up to 8 CPUs says nothing beyond 16"), "{why}");
    }

    #[test]
    fn known_times_carry_a_forecast_to_64_cpus() {
        let sweep = sweep(&[1, 2, 3, 4, 6, 8]);
        let known = [
            Known { quantity: Quantity::Hold, log: 50_f64.ln(), deviation: 0.05 },
            Known { quantity: Quantity::Handover, log: 0.0, deviation: 0.2 },
        ];
        let found = forecast(&sweep, &known, &[64]).unwrap();
        let (truth, rate) = (closed_queue(64.0, 950.0, 50.0, 1.0), found.points[0].rate);
        let (low, high) = rate.interval.unwrap();
        assert!(low < truth && truth < high && high / low < 1.7, "{truth} {rate:?}");
        let (name, share) = found.rests_on.unwrap();
        assert_eq!(name, "the hand-over per waiting task");
        assert!((0.5..=1.0).contains(&share));
        // Three counts are too few for a forecast of the others.
        assert!(found.hold_out.unwrap().up_to == 4);
    }
}
