//! Doses: known times added inside or outside of a critical section, what they cost, and so what taking time away would
//! gain.
//!
//! Of time that all tasks take one after the other, each ns lengthens the time from one operation to the next by 1 ns.
//! Of time that n tasks take side by side, by 1/n ns. The response lies between the two and so says how serial the time is.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::chance::{Estimate, bias_corrected, chi_squared, gaussian};
use crate::sweep::LEAST_NOISE;

/// Fewer doses than this, 0 among them, say nothing about what lies between.
pub const DOSES_MIN: usize = 3;

/// The rates of all tasks together with one dose.
#[derive(Clone, Debug)]
pub struct Dosed {
    /// Time added to each operation, in ns.
    pub dose_ns: f64,
    /// Operations per second of each run.
    pub rates: Vec<f64>,
}

/// How the time from one operation to the next depends on a dose.
#[derive(Clone, Debug)]
pub struct DoseResponse {
    tasks: f64,
    /// The largest dose, in ns.
    range_ns: f64,
    curve: Polynomial,
    /// Responses that the measured one could have been.
    drawn: Vec<Polynomial>,
    /// The standard deviation of the logarithm of a run's rate.
    noise: f64,
    /// Runs of a dose, the fewest of all.
    runs: usize,
}

/// ns from one operation to the next without a dose, and how they grow with it.
#[derive(Clone, Copy, Debug)]
struct Polynomial([f64; 3]);

impl Polynomial {
    fn at(&self, dose_ns: f64) -> f64 {
        let Polynomial([constant, slope, curvature]) = self;
        constant + dose_ns * (slope + dose_ns * curvature)
    }
}

impl DoseResponse {
    /// The response of tasks that run side by side: no more of them than CPUs.
    ///
    /// # Errors
    /// Says what is missing: three doses, or a second run of some.
    pub fn new(tasks: u32, dosed: &[Dosed]) -> Result<DoseResponse, String> {
        let is_usable = |one: &&Dosed| {
            !one.rates.is_empty() && one.rates.iter().all(|rate| rate.is_finite() && *rate > 0.0)
        };
        let mut dosed: Vec<&Dosed> = dosed.iter().filter(is_usable).collect();
        dosed.sort_by(|a, b| a.dose_ns.total_cmp(&b.dose_ns));
        dosed.dedup_by(|a, b| a.dose_ns == b.dose_ns);
        if dosed.len() < DOSES_MIN {
            return Err(format!(
                "{} doses: it takes {DOSES_MIN}, as in inside=0,200ns,600ns",
                dosed.len()
            ));
        }
        let times: Vec<Times> = dosed.iter().map(|one| Times::new(one)).collect();
        let freedom: usize = times.iter().map(|one| one.runs - 1).sum();
        if freedom == 0 {
            return Err(
                "each dose ran once, so no noise is known: --blocks 5 repeats each".to_string()
            );
        }
        let squares: f64 = times.iter().map(|one| one.squares).sum();
        let noise = (squares / freedom as f64).sqrt().max(LEAST_NOISE);
        let deviations: Vec<f64> =
            times.iter().map(|one| one.mean_ns * noise / (one.runs as f64).sqrt()).collect();
        let fit = |means: &[f64]| polynomial(&dosed, means, &deviations);
        let means: Vec<f64> = times.iter().map(|one| one.mean_ns).collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let drawn = (0..400).map(|_| {
            // Tails like those of Student's t: the noise is known from few runs.
            let scale = (freedom as f64 / chi_squared(&mut random, freedom)).sqrt();
            let noisy = means.iter().zip(&deviations);
            let noisy =
                noisy.map(|(mean, deviation)| mean + scale * deviation * gaussian(&mut random));
            fit(&noisy.collect::<Vec<_>>())
        });
        Ok(DoseResponse {
            tasks: f64::from(tasks),
            range_ns: dosed[dosed.len() - 1].dose_ns - dosed[0].dose_ns,
            drawn: drawn.collect(),
            curve: fit(&means),
            noise,
            runs: times.iter().map(|one| one.runs).min().unwrap_or(1),
        })
    }

    /// The share of the added time that tasks take one after the other, on average up to the largest dose: 1 for all of
    /// it. Not known for one task. The slope without a dose would be known some four times worse.
    pub fn serial(&self) -> Option<Estimate> {
        let alone = 1.0 / self.tasks;
        let slope = |curve: &Polynomial| (curve.at(self.range_ns) - curve.at(0.0)) / self.range_ns;
        (self.tasks > 1.0).then(|| self.estimate(|curve| (slope(curve) - alone) / (1.0 - alone)))
    }

    /// By which share the rate would grow without this much of the dosed time. More than the smallest dose is
    /// extrapolated.
    pub fn gain(&self, removed_ns: f64) -> Estimate {
        self.estimate(|curve| gain_of(curve, removed_ns))
    }

    /// Runs of a dose, the fewest of all.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// The gain that will be measured without this much of the dosed time, in as many runs of each side as a dose has. Its
    /// interval holds the noise of that measurement too.
    pub fn measured_gain(&self, removed_ns: f64) -> Estimate {
        let gain = |curve: &Polynomial| gain_of(curve, removed_ns);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
        let deviation = self.noise * (2.0 / self.runs as f64).sqrt();
        let measured = |curve: &Polynomial| {
            (1.0 + gain(curve)) * (deviation * gaussian(&mut random)).exp() - 1.0
        };
        let value = gain(&self.curve);
        let drawn = self.drawn.iter().map(measured).collect();
        Estimate { value, interval: bias_corrected(value, drawn, 0.9) }
    }

    fn estimate(&self, of: impl Fn(&Polynomial) -> f64) -> Estimate {
        let value = of(&self.curve);
        let drawn = self.drawn.iter().map(&of).collect();
        Estimate { value, interval: bias_corrected(value, drawn, 0.9) }
    }
}

fn gain_of(curve: &Polynomial, removed_ns: f64) -> f64 {
    match curve.at(-removed_ns) {
        // The parabola leaves no time at all: the doses say nothing this far.
        none if none <= 0.0 => f64::INFINITY,
        left => curve.at(0.0) / left - 1.0,
    }
}

/// Times from one operation to the next.
struct Times {
    runs: usize,
    mean_ns: f64,
    /// The sum of squared deviations of the logarithms.
    squares: f64,
}

impl Times {
    fn new(dosed: &Dosed) -> Times {
        let logs: Vec<f64> = dosed.rates.iter().map(|rate| (1e9 / rate).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        let squares = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Times { runs: logs.len(), mean_ns: mean.exp(), squares }
    }
}

/// The polynomial nearest to the means: of degree 2 with four doses, else 1.
fn polynomial(dosed: &[&Dosed], means: &[f64], deviations: &[f64]) -> Polynomial {
    let terms = if dosed.len() > DOSES_MIN { 3 } else { 2 };
    let first = dosed[0].dose_ns;
    // Scaled, so that powers of doses are of the same order.
    let unit = (dosed[dosed.len() - 1].dose_ns - first).max(1.0);
    let (mut matrix, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
    for ((one, mean), deviation) in dosed.iter().zip(means).zip(deviations) {
        let x = (one.dose_ns - first) / unit;
        let powers = [1.0, x, x * x];
        for a in 0..terms {
            right[a] += powers[a] * mean / (deviation * deviation);
            for b in 0..terms {
                matrix[a][b] += powers[a] * powers[b] / (deviation * deviation);
            }
        }
    }
    if terms == 2 {
        matrix[2][2] = 1.0;
    }
    let [constant, slope, curvature] = crate::fit::solve(matrix, right);
    Polynomial([constant, slope / unit, curvature / (unit * unit)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three runs each, of 2 tasks whose dosed time is serial to this share, with 1000 ns between operations.
    fn response(serial: f64) -> DoseResponse {
        let dosed = [0.0, 100.0, 200.0, 400.0].map(|dose_ns| {
            let ns = 1000.0 + dose_ns * (serial + (1.0 - serial) / 2.0);
            Dosed { dose_ns, rates: [0.998, 1.0, 1.002].map(|share| share * 1e9 / ns).to_vec() }
        });
        DoseResponse::new(2, &dosed).unwrap()
    }

    #[test]
    fn serial_and_parallel_time_are_told_apart() {
        for serial in [1.0, 0.5, 0.0] {
            let found = response(serial).serial().unwrap();
            let (low, high) = found.interval.unwrap();
            assert!(
                (found.value - serial).abs() < 1e-3 && low < serial && serial < high,
                "{found:?}"
            );
        }
    }

    #[test]
    fn less_time_inside_gains_what_more_of_it_costs() {
        let gain = response(1.0).gain(100.0);
        assert!((gain.value - (1000.0 / 900.0 - 1.0)).abs() < 1e-3, "{gain:?}");
        // A measurement has noise of its own: 0.2 % a run, 3 runs a side.
        let measured = response(1.0).measured_gain(100.0);
        let width = |estimate: Estimate| estimate.interval.map(|(low, high)| high - low).unwrap();
        assert_eq!(measured.value, gain.value);
        assert!(width(measured) > width(gain).hypot(0.005), "{measured:?} {gain:?}");
    }

    #[test]
    fn too_few_doses_or_runs_are_refused() {
        let dosed = |rates: usize, doses: &[f64]| -> String {
            let one = |&dose_ns: &f64| Dosed { dose_ns, rates: vec![1e6; rates] };
            DoseResponse::new(2, &doses.iter().map(one).collect::<Vec<_>>()).unwrap_err()
        };
        assert_eq!(dosed(3, &[0.0, 5.0, 5.0]), "2 doses: it takes 3, as in inside=0,200ns,600ns");
        assert!(dosed(1, &[0.0, 5.0, 9.0]).starts_with("each dose ran once"));
    }
}
