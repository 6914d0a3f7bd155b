//! Noise like that of measurements, for checking the rules: normal, bimodal, with heavy tails, and
//! drifting over time.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

/// The noise of single runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Noise {
    /// Normal, standard deviation 3 %.
    Gaussian,
    /// Normal with a standard deviation of 1 %; three of ten runs are in a mode 10 % higher.
    Bimodal,
    /// Student's t with 3 degrees of freedom, scaled to a standard deviation of 3 %.
    HeavyTailed,
    /// The level drifts: autoregressive, 0.95 from run to run, standard deviation 3 %.
    Drifting,
}

/// The deviations of successive runs, as logarithms.
pub struct NoisyRuns {
    noise: Noise,
    level: f64,
}

impl Noise {
    pub const ALL: [Noise; 4] =
        [Noise::Gaussian, Noise::Bimodal, Noise::HeavyTailed, Noise::Drifting];

    /// A description in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Noise::Gaussian => "normal, 3 %",
            Noise::Bimodal => "bimodal: 1 %, and 30 % of the runs 10 % higher",
            Noise::HeavyTailed => "heavy tails: Student's t with 3 degrees of freedom, 3 %",
            Noise::Drifting => "drift of 3 %, correlated 0.95 from run to run",
        }
    }

    /// Starts a series of runs.
    pub fn start(self, random: &mut Xoshiro256PlusPlus) -> NoisyRuns {
        NoisyRuns { noise: self, level: gaussian(random) }
    }
}

impl NoisyRuns {
    /// The deviation of the next run.
    pub fn next(&mut self, random: &mut Xoshiro256PlusPlus) -> f64 {
        match self.noise {
            Noise::Gaussian => 0.03 * gaussian(random),
            Noise::Bimodal => {
                let mode = if random.random::<f64>() < 0.3 { 1.1_f64.ln() } else { 0.0 };
                mode + 0.01 * gaussian(random)
            }
            Noise::HeavyTailed => {
                let squares: f64 = (0..3).map(|_| gaussian(random).powi(2)).sum();
                0.03 * gaussian(random) / squares.sqrt()
            }
            Noise::Drifting => {
                const KEPT: f64 = 0.95;
                self.level = KEPT * self.level + (1.0 - KEPT * KEPT).sqrt() * gaussian(random);
                0.03 * self.level
            }
        }
    }
}

/// A random number of the standard normal distribution (Marsaglia's polar method).
pub(crate) fn gaussian(random: &mut Xoshiro256PlusPlus) -> f64 {
    loop {
        let (x, y) = (2.0 * random.random::<f64>() - 1.0, 2.0 * random.random::<f64>() - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn deviations_are_as_large_as_they_say() {
        let seed = 2;
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for (noise, expected) in
            [(Noise::Gaussian, 0.03), (Noise::Bimodal, 0.0448), (Noise::HeavyTailed, 0.03)]
        {
            let mut runs = noise.start(&mut random);
            let values: Vec<f64> = (0..200_000).map(|_| runs.next(&mut random)).collect();
            let stddev = crate::Spread::from_values(&values).unwrap().stddev.unwrap();
            assert!((stddev / expected - 1.0).abs() < 0.1, "{noise:?} {stddev}");
        }
    }

    #[test]
    fn a_drift_is_small_from_run_to_run_and_large_over_time() {
        let seed = 3;
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut runs = Noise::Drifting.start(&mut random);
        let values: Vec<f64> = (0..100_000).map(|_| runs.next(&mut random)).collect();
        let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let deviation =
            |values: &[f64]| crate::Spread::from_values(values).unwrap().stddev.unwrap();
        assert!((deviation(&values) / 0.03 - 1.0).abs() < 0.1);
        assert!((deviation(&steps) / (0.03 * 0.1_f64.sqrt()) - 1.0).abs() < 0.05);
    }
}
