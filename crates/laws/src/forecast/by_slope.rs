//! Forecasts of curves whose points ran once by their last slope. Published curves seldom follow a law to 5 %, and beyond the
//! last point they go on about half as steep as before it: the numbers here are those of the training half of the curves in
//! publications/forecasts/curves.toml.

use crate::chance::Estimate;
use crate::sweep::{COUNTS_MIN, Sweep};

/// What the slope of the last doubling counts beyond the last point.
const LAST: f64 = 0.5;
/// What the slope of the doubling before that counts.
const BEFORE: f64 = 0.2;
/// What a doubling takes of the slope besides: curves bend down more often than up.
const BEND: f64 = 0.05;
/// How far from this the slope of the next doubling is in nine of ten curves.
const SPREAD: f64 = 0.45;
/// As much more, of a curve that bent by this much at its end.
const UNSTEADY: f64 = 0.5;
/// By so much wider is the interval of a curve with fewer points than a law takes.
const OF_FEW: f64 = 1.25;
/// A bend by more than this says no more.
const BENT_MOST: f64 = 1.0;

/// A curve and its slope, both as logarithms to the base 2, so that a slope is the change in a doubling.
pub struct Slope {
    /// Logarithms of counts and rates.
    points: Vec<(f64, f64)>,
    /// The expected slope beyond the last point.
    slope: f64,
    /// How far that may be off, in nine of ten curves.
    spread: f64,
}

impl Slope {
    pub fn new(sweep: &Sweep) -> Slope {
        let points: Vec<(f64, f64)> = sweep
            .points()
            .iter()
            .map(|point| (f64::from(point.cpus).log2(), point.log_rate() / std::f64::consts::LN_2))
            .collect();
        let last = doubling_before(&points, points.len() - 1);
        let before = doubling_before(&points, last.0);
        let (last, before) = (last.1, if last.0 > 0 { before.1 } else { last.1 });
        let bent = (last - before).abs().min(BENT_MOST);
        let few = if points.len() < COUNTS_MIN { OF_FEW } else { 1.0 };
        Slope {
            points,
            slope: LAST * last + BEFORE * before - BEND,
            spread: (SPREAD + UNSTEADY * bent) * few,
        }
    }

    /// The rate at a number of CPUs: beyond the last point by the slope, before it between the points around it.
    pub fn rate(&self, cpus: f64) -> Estimate {
        let at = cpus.log2();
        let (first, last) = (self.points[0], self.points[self.points.len() - 1]);
        let (log, apart) = if at >= last.0 {
            (last.1 + self.slope * (at - last.0), at - last.0)
        } else if at <= first.0 {
            (first.1 + (at - first.0), first.0 - at)
        } else {
            let after = self.points.partition_point(|point| point.0 <= at);
            let (left, right) = (self.points[after - 1], self.points[after]);
            let share = (at - left.0) / (right.0 - left.0);
            (left.1 + share * (right.1 - left.1), (at - left.0).min(right.0 - at))
        };
        let off = self.spread * apart;
        Estimate { value: log.exp2(), interval: Some(((log - off).exp2(), (log + off).exp2())) }
    }
}

/// The slope of the doubling that ends with a point, by least squares of its points, and the first of these.
fn doubling_before(points: &[(f64, f64)], end: usize) -> (usize, f64) {
    let within = points[..end].partition_point(|point| point.0 < points[end].0 - 1.0 - 1e-9);
    let first = within.min(end.saturating_sub(1));
    let of = &points[first..=end];
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points_mean(of, &points[first..=end]);
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let both: f64 = of.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let squares: f64 = of.iter().map(|point| (point.0 - x).powi(2)).sum();
    (first, if squares > 0.0 { both / squares } else { 0.0 })
}

fn points_mean(of: &dyn Fn(&(f64, f64)) -> f64, points: &[(f64, f64)]) -> f64 {
    points.iter().map(of).sum::<f64>() / points.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slope(points: &[(u32, f64)]) -> Slope {
        Slope::new(&Sweep::new(points.iter().map(|(cpus, rate)| (*cpus, vec![*rate]))).unwrap())
    }

    #[test]
    fn a_steady_curve_goes_on_less_steep() {
        let slope = slope(&[(1, 1.0), (2, 2.0), (4, 4.0), (8, 8.0)]);
        let rate = slope.rate(16.0);
        assert!((rate.value - 8.0 * (0.65_f64).exp2()).abs() < 1e-9, "{rate:?}");
        let (low, high) = rate.interval.unwrap();
        assert!((high / low - (0.9_f64).exp2()).abs() < 1e-9, "{rate:?}");
        // Measured counts are what was measured, and between two a rate is between theirs.
        assert!((slope.rate(4.0).value - 4.0).abs() < 1e-9);
        assert!((slope.rate(6.0).value - 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_bend_at_the_end_makes_the_interval_wider() {
        let width = |points: &[(u32, f64)]| {
            let (low, high) = slope(points).rate(16.0).interval.unwrap();
            high / low
        };
        let steady = width(&[(1, 1.0), (2, 1.5), (4, 2.25), (8, 3.375)]);
        assert!(width(&[(1, 1.0), (2, 2.0), (4, 4.0), (8, 2.5)]) > 1.5 * steady);
    }
}
