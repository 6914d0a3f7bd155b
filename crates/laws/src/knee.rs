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
    let at = logs.iter().position(|log| *log >= highest + SHARE.ln()).unwrap_or(0);
    let last = logs.len() - 1;
    let slope = (logs[last] - logs[last - 1]) / (cpus(last) / cpus(last - 1)).ln();
    if logs[last] == highest && slope > STILL_RISES {
        return Crossing {
            knee: f64::INFINITY,
            after: above(at.saturating_sub(1)),
            before: f64::INFINITY,
        };
    }
    if at == 0 {
        return Crossing { knee: cpus(0), after: cpus(0), before: cpus(0) };
    }
    let part = (highest + SHARE.ln() - logs[at - 1]) / (logs[at] - logs[at - 1]);
    let knee = cpus(at - 1) * (cpus(at) / cpus(at - 1)).powf(part);
    Crossing { knee, after: above(at - 1), before: cpus(at) }
}
