//! What chance may have done to an estimate: the estimate of many sweeps that the fitted law could have given.
//!
//! The parametric bootstrap with bias correction. Source: B. Efron, "Better Bootstrap Confidence Intervals", Journal of
//! the American Statistical Association 82, 1987.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::fit::{Fit, Known, Observation};
use crate::sweep::OTHERS;

/// A fitted estimate with its 90 % interval. Infinite, which JSON writes as null: beyond all numbers of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The estimate, in the unit of what is estimated; null if it is infinite.
    #[schemars(with = "Option<f64>")]
    pub value: f64,
    /// The ends of the 90 % interval, null each if infinite; null where no noise is known.
    #[schemars(with = "Option<(Option<f64>, Option<f64>)>")]
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// This estimate, with an interval that also holds the other's.
    pub fn hull(self, other: Estimate) -> Estimate {
        let both = self.interval.zip(other.interval);
        Estimate { interval: both.map(|(a, b)| (a.0.min(b.0), a.1.max(b.1))), ..self }
    }

    /// The estimate with a function applied that never falls.
    pub fn map(self, of: impl Fn(f64) -> f64) -> Estimate {
        let interval = self.interval.map(|(low, high)| (of(low), of(high)));
        Estimate { value: of(self.value), interval }
    }
}

/// How often a sweep is drawn.
const DRAWS: usize = 200;
/// Degrees of freedom of the noise of a point beside that of all: it counts as much as this number of runs.
const POINT_FREEDOM: usize = OTHERS as usize;

/// A fit, and fits of sweeps that it could have given.
pub struct Draws {
    pub fit: Fit,
    /// None where no noise is known.
    drawn: Vec<Fit>,
}

impl Draws {
    /// Draws sweeps and fits each. `freedom` is that of the noise.
    pub fn new(fit: Fit, observed: &[Observation], known: &[Known], freedom: usize) -> Draws {
        if freedom == 0 {
            return Draws { fit, drawn: Vec::new() };
        }
        // A fixed seed: equal records give equal reports.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let drawn = (0..DRAWS).map(|_| {
            // The noise is known from few runs. So it is drawn too, which makes the tails those of Student's t.
            let scale = (freedom as f64 / chi_squared(&mut random, freedom)).sqrt();
            let noisy = |one: &Observation| {
                // A point weighs by its own noise, too, which is known still worse: one that weighs much by chance has
                // more noise than it showed.
                let own = POINT_FREEDOM as f64 / chi_squared(&mut random, POINT_FREEDOM);
                let noise = scale * own.sqrt() * one.deviation * gaussian(&mut random);
                Observation { log_rate: fit.dosed_rate(one.tasks, one.dose).ln() + noise, ..*one }
            };
            let rates: Vec<Observation> = observed.iter().map(noisy).collect();
            let known = known.iter().map(|one| Known {
                log: one.quantity.log(&fit.parameters) + one.deviation * gaussian(&mut random),
                ..*one
            });
            Fit::from_start(fit.law, fit.parameters, &rates, &known.collect::<Vec<_>>())
        });
        Draws { fit, drawn: drawn.collect() }
    }

    /// Fits of sweeps that the fitted law could have given.
    pub fn drawn(&self) -> &[Fit] {
        &self.drawn
    }

    /// The estimate of something that follows from a fit.
    pub fn estimate(&self, of: impl Fn(&Fit) -> f64) -> Estimate {
        let value = of(&self.fit);
        let values = self.drawn.iter().map(&of).collect();
        Estimate { value, interval: bias_corrected(value, values, 0.9) }
    }
}

/// The interval that contains this share of the values, moved so that as many lie below the estimate as above.
pub fn bias_corrected(estimate: f64, mut values: Vec<f64>, share: f64) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    values.sort_by(f64::total_cmp);
    let below = values.iter().filter(|value| **value < estimate).count() as f64;
    let equal = values.iter().filter(|value| **value == estimate).count() as f64;
    let normal = Normal::standard();
    // Where all lie on one side the correction would leave nothing.
    let bias = normal.inverse_cdf(((below + equal / 2.0) / values.len() as f64).clamp(0.02, 0.98));
    let tail = normal.inverse_cdf((1.0 + share) / 2.0);
    let at = |z: f64| {
        let rank = normal.cdf(2.0 * bias + z) * values.len() as f64;
        values[(rank as usize).min(values.len() - 1)]
    };
    Some((at(-tail), at(tail)))
}

/// A standard normal number. G. Box, M. Muller, "A Note on the Generation of Random Normal Deviates", 1958.
pub fn gaussian(random: &mut Xoshiro256PlusPlus) -> f64 {
    let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.random::<f64>()).cos()
}

/// A sum of squares of standard normal numbers.
pub fn chi_squared(random: &mut Xoshiro256PlusPlus, freedom: usize) -> f64 {
    (0..freedom).map(|_| gaussian(random).powi(2)).sum()
}
