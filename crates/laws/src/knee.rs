//! The knee of a curve: the fewest CPUs with 90 % of its highest rate.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::chance::{Draws, Estimate, bias_corrected, gaussian};
use crate::fit::Observation;

/// The share of the highest rate that a knee has.
pub const SHARE: f64 = 0.9;

/// The knee by laws that all fit: the first one's value, and an interval that holds those of all. Beyond the most CPUs
/// that were measured it is infinite, below the fewest it is those.
pub fn by_laws(laws: &[&Draws], fewest_cpus: f64, most_cpus: f64) -> Estimate {
    let limited = |cpus: f64| if cpus > most_cpus { f64::INFINITY } else { cpus.max(fewest_cpus) };
    let knees = laws.iter().map(|draws| draws.estimate(|fit| fit.law.knee(&fit.parameters, SHARE)));
    let knee = knees.reduce(Estimate::hull);
    knee.unwrap_or(Estimate { value: f64::INFINITY, interval: None }).map(limited)
}

/// The knee between measured points, where no law fits. The interval reaches to the measured points around it, because
/// nothing is known between them.
pub fn between_points(observed: &[Observation], freedom: usize) -> Estimate {
    const DRAWS: usize = 200;
    let logs: Vec<f64> = observed.iter().map(|one| one.log_rate).collect();
    let found = crossing(observed, &logs);
    if freedom == 0 {
        return Estimate { value: found.knee, interval: None };
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let drawn: Vec<Crossing> = (0..DRAWS)
        .map(|_| {
            let noisy =
                observed.iter().map(|one| one.log_rate + one.deviation * gaussian(&mut random));
            crossing(observed, &noisy.collect::<Vec<_>>())
        })
        .collect();
    let end = |value: f64, of: fn(&Crossing) -> f64| {
        bias_corrected(value, drawn.iter().map(of).collect(), 0.9)
    };
    let (low, high) = (end(found.after, |c| c.after), end(found.before, |c| c.before));
    Estimate { value: found.knee, interval: low.zip(high).map(|(low, high)| (low.0, high.1)) }
}

/// Where a curve reaches the share of its highest rate.
struct Crossing {
    knee: f64,
    /// Just above the measured number of CPUs before, which has less.
    after: f64,
    /// The measured number of CPUs there or after, which has it. Infinite where the curve still rises at its end.
    before: f64,
}

fn crossing(observed: &[Observation], logs: &[f64]) -> Crossing {
    // With Amdahl's law a rate that grows by this power of the CPUs has 90 % of its limit.
    const STILL_RISES: f64 = 1.0 - SHARE;
    let highest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let cpus = |i: usize| observed[i].tasks;
    let above = |i: usize| cpus(i) * (1.0 + 1e-9);
    let first = |level: f64| logs.iter().position(|log| *log >= level + SHARE.ln());
    let at = first(highest).unwrap_or(0);
    let end = End::new(observed, logs);
    let before = first(highest.max(end.limit)).map_or(f64::INFINITY, cpus);
    if end.slope > STILL_RISES && logs[end.from..].contains(&highest) {
        let after = above(at.saturating_sub(1));
        return Crossing { knee: f64::INFINITY, after, before: f64::INFINITY };
    }
    if at == 0 {
        return Crossing { knee: cpus(0), after: cpus(0), before };
    }
    let part = (highest + SHARE.ln() - logs[at - 1]) / (logs[at] - logs[at - 1]);
    let knee = cpus(at - 1) * (cpus(at) / cpus(at - 1)).powf(part);
    Crossing { knee, after: above(at - 1), before }
}

/// The last third of a curve, or its last two points.
struct End {
    from: usize,
    /// The power of the CPUs by which the rate grows.
    slope: f64,
    /// The logarithm of the rate that the curve approaches if it goes on as λ N / (1 + N / K): as Amdahl's law and many
    /// others do. Infinite if it rises without a limit, below all rates if it does not rise.
    limit: f64,
}

impl End {
    fn new(observed: &[Observation], logs: &[f64]) -> End {
        let last = observed.len() - 1;
        let is_late = |one: &Observation| one.tasks >= 2.0 / 3.0 * observed[last].tasks;
        let from = observed.iter().position(is_late).unwrap_or(last).min(last.saturating_sub(1));
        let line = |of: &dyn Fn(usize) -> (f64, f64, f64)| {
            let points: Vec<(f64, f64, f64)> = (from..=last).map(of).collect();
            let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
                points.iter().map(|(x, y, deviation)| of(*x, *y) / (deviation * deviation)).sum()
            };
            let all = sum(&|_, _| 1.0);
            let (x, y) = (sum(&|x, _| x) / all, sum(&|_, y| y) / all);
            let slope = sum(&|a, b| (a - x) * (b - y)) / sum(&|a, _| (a - x).powi(2));
            (y - slope * x, slope)
        };
        let (_, slope) = line(&|i| (observed[i].tasks.ln(), logs[i], observed[i].deviation));
        // Times are a straight line over 1 / N: at 0 is the limit.
        let (time, growth) = line(&|i| {
            let time = (logs[last] - logs[i]).exp();
            (1.0 / observed[i].tasks, time, time * observed[i].deviation)
        });
        let limit = match time {
            _ if growth.is_nan() || growth <= 0.0 => f64::NEG_INFINITY,
            ..=0.0 => f64::INFINITY,
            time => logs[last] - time.ln(),
        };
        End { from, slope, limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee(counts: impl Iterator<Item = u32>, rate: impl Fn(f64) -> f64) -> Estimate {
        let observed = counts.map(|n| Observation {
            tasks: f64::from(n),
            log_rate: rate(f64::from(n)).ln(),
            deviation: 0.01,
            steps: 0.0,
            dose: 0.0,
        });
        between_points(&observed.collect::<Vec<_>>(), 100)
    }

    #[test]
    fn the_interval_of_a_curve_that_still_rises_reaches_to_where_its_limit_puts_the_knee() {
        // 90 % of the limit at 45 CPUs; of the rate at 64 CPUs at 26.
        let found = knee(1..=64, |n| n / (n + 5.0));
        let (low, high) = found.interval.unwrap();
        assert!((found.value / 25.6 - 1.0).abs() < 0.02, "{found:?}");
        assert!(low < 26.0 && high > 45.0, "{found:?}");
        let beyond = knee(1..=64, |n| n / (n + 20.0));
        assert_eq!((beyond.value, beyond.interval.unwrap().1), (f64::INFINITY, f64::INFINITY));
        assert_eq!(knee(1..=64, |n| n).value, f64::INFINITY);
    }

    #[test]
    fn curves_that_are_flat_or_fall_at_their_end_have_it_below_their_highest_rate() {
        for rate in [|n: f64| n.min(20.0), |n: f64| if n > 40.0 { 12.0 } else { n.min(20.0) }] {
            let found = knee(1..=64, rate);
            let (low, high) = found.interval.unwrap();
            assert!((found.value - 18.0).abs() < 0.3 && low < 18.0 && high < 20.0, "{found:?}");
        }
    }
}
