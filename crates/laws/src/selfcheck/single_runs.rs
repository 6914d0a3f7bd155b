//! Forecasts from curves whose points ran once: the last points are held out, and forecast from those before. Curves are
//! three published ones and simulated ones of every kind.

use host::in_parallel;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Kind, between, stream};
use crate::chance::gaussian;
use crate::fit::Fit;
use crate::forecast::forecast;
use crate::law::Law;
use crate::sweep::Sweep;

/// Forecasts of held-out points from single runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SingleRunCheck {
    /// Curves that were forecast.
    pub curves: usize,
    /// Curves of which no forecast was made, since no law comes near.
    pub refused: usize,
    /// Held-out points that were forecast.
    pub points: usize,
    /// Share of these whose rate lies in its 90 % interval.
    pub inside: f64,
    /// Mean of the absolute logarithm of forecast over truth.
    pub off: f64,
    /// The mean of the universal law by least squares.
    pub off_universal: f64,
    /// The mean of the rate of the last point kept.
    pub off_last: f64,
}

/// A curve: numbers of CPUs and rates.
type Points = Vec<(u32, f64)>;

/// The part of the curve that is kept has at least this number of points.
const KEPT_MIN: usize = 5;

/// The benchmark SPEC SDM91 on a SPARCcenter 2000 (README of the R package usl), a benchmark by Cisco (tests of usl4j), and a
/// ray tracer on an Origin 2000 (N. Gunther, "Guerrilla Capacity Planning", 2007).
fn published() -> Vec<Points> {
    let specsdm91 = [
        (1, 64.9),
        (18, 995.9),
        (36, 1652.4),
        (72, 1853.2),
        (108, 1828.9),
        (144, 1775.0),
        (216, 1702.2),
    ];
    let cisco = [
        955.16, 1878.91, 2688.01, 3548.68, 4315.54, 5130.43, 5931.37, 6531.08, 7219.8, 7867.61,
        8278.71, 8646.7, 9047.84, 9426.55, 9645.37, 9897.24, 10097.6, 10240.5, 10532.39, 10798.52,
        11151.43, 11518.63, 11806.0, 12089.37, 12075.41, 12177.29, 12211.41, 12158.93, 12155.27,
        12118.04, 12140.4, 12074.39,
    ];
    let raytracer = [
        (1, 20.0),
        (4, 78.0),
        (8, 130.0),
        (12, 170.0),
        (16, 190.0),
        (20, 200.0),
        (24, 210.0),
        (28, 230.0),
        (32, 260.0),
        (48, 280.0),
        (64, 310.0),
    ];
    vec![specsdm91.to_vec(), (1..).zip(cisco).collect(), raytracer.to_vec()]
}

/// A simulated curve of single runs with noise between 0.5 and 4 %.
fn simulated(kind: Kind, random: &mut Xoshiro256PlusPlus) -> Points {
    const GRIDS: [&[u32]; 3] = [
        &[1, 2, 4, 8, 12, 16, 24, 32],
        &[1, 2, 4, 8, 16, 24, 32, 48, 64],
        &[1, 2, 3, 4, 6, 8, 10, 12, 16],
    ];
    let rate = kind.draw(random);
    let noise = between(random, 0.005, 0.04);
    let grid = GRIDS[random.random_range(0..GRIDS.len())];
    grid.iter().map(|&n| (n, 1e5 * rate(f64::from(n)) * (noise * gaussian(random)).exp())).collect()
}

/// What was off at one held-out point.
struct Off {
    is_inside: bool,
    ours: f64,
    universal: f64,
    last: f64,
}

/// Holds out the points beyond the first two thirds, up to twice the CPUs that are kept. `None` if there is no forecast.
fn held_out(points: &Points) -> Option<Vec<Off>> {
    let kept = (2 * points.len()).div_ceil(3).max(KEPT_MIN).min(points.len() - 1);
    let (part, beyond) = points.split_at(kept);
    let (most, last) = part[kept - 1];
    let beyond: Vec<&(u32, f64)> = beyond.iter().filter(|(cpus, _)| *cpus <= 2 * most).collect();
    let sweep = Sweep::new(part.iter().map(|(cpus, rate)| (*cpus, vec![*rate])))
        .and_then(Sweep::for_laws)
        .ok()?;
    let cpus: Vec<u32> = beyond.iter().map(|(cpus, _)| *cpus).collect();
    let found = forecast(&sweep, &[], &cpus).ok()?;
    let universal = Fit::new(Law::Universal, &sweep.observations(), &[]);
    let off = |((cpus, truth), point): (&&(u32, f64), &crate::ForecastPoint)| {
        let apart = |rate: f64| (rate / truth).ln().abs();
        let (low, high) = point.rate.interval?;
        Some(Off {
            is_inside: (low..=high).contains(truth),
            ours: apart(point.rate.value),
            universal: apart(universal.rate(f64::from(*cpus))),
            last: apart(last),
        })
    };
    beyond.iter().zip(&found.points).map(off).collect()
}

/// Forecasts the published curves and this number of each kind.
pub fn single_runs(trials: u32, seed: u64) -> SingleRunCheck {
    let each = trials as usize;
    let all = in_parallel(published().len() + Kind::ALL.len() * each, |index| {
        let curve = match index.checked_sub(published().len()) {
            None => published()[index].clone(),
            Some(drawn) => {
                simulated(Kind::ALL[drawn % Kind::ALL.len()], &mut stream(seed, 300, drawn))
            }
        };
        held_out(&curve)
    });
    let refused = all.iter().filter(|one| one.is_none()).count();
    let curves = all.len();
    let off: Vec<Off> = all.into_iter().flatten().flatten().collect();
    let mean = |of: fn(&Off) -> f64| off.iter().map(of).sum::<f64>() / off.len().max(1) as f64;
    SingleRunCheck {
        curves,
        refused,
        points: off.len(),
        inside: mean(|one| f64::from(u8::from(one.is_inside))),
        off: mean(|one| one.ours),
        off_universal: mean(|one| one.universal),
        off_last: mean(|one| one.last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_of_single_runs_hold_what_was_held_out() {
        let check = single_runs(12, 20_261_128);
        println!("{check:?}");
        assert!(check.inside >= 0.8 && check.refused * 5 < check.curves, "{check:?}");
        assert!(check.off < check.off_last, "{check:?}");
    }
}
