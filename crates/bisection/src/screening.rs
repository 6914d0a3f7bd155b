//! Options without an order: a two-level design in which every run tells about every option.
//!
//! Columns of a Hadamard matrix are orthogonal, so each option's effect is estimated from all runs, as if it
//! alone had been changed. Effects of two options together are mixed with those of others. Source: R. L. Plackett and
//! J. P. Burman, "The Design of Optimum Multifactorial Experiments", Biometrika 33, 1946.

use schemars::JsonSchema;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability that any of several options without an effect is said to have one.
pub const SCREENING_ALPHA: f64 = 0.01;

/// The effect of an option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// Value with the option minus value without, as a logarithm.
    pub size: f64,
    /// Half of the interval that holds for all options together.
    pub half: f64,
}

impl Effect {
    /// Whether the option has an effect.
    pub fn is_shown(&self) -> bool {
        self.size.abs() > self.half
    }
}

/// Which options each setting of the design turns on: Sylvester's matrix without its constant column.
pub fn settings_of(options: usize) -> Vec<Vec<bool>> {
    let order = (options + 1).next_power_of_two().max(4);
    let is_on = |row: usize, column: usize| (row & column).count_ones() % 2 == 1;
    (0..order).map(|row| (1..=options).map(|column| is_on(row, column)).collect()).collect()
}

/// The effects of all options: `logs[i][j]` is the logarithm of the run of setting i in block j. `None` without two
/// blocks that every setting has.
pub fn effects(settings: &[Vec<bool>], logs: &[Vec<f64>]) -> Option<Vec<Effect>> {
    let blocks = logs.iter().map(Vec::len).min().filter(|blocks| *blocks >= 2)?;
    let options = settings.first()?.len();
    let rows = settings.len() as f64;
    let block_mean = |block: usize| logs.iter().map(|runs| runs[block]).sum::<f64>() / rows;
    let block_means: Vec<f64> = (0..blocks).map(block_mean).collect();
    // What a block shifts for all settings is no noise of a setting.
    let centered = |runs: &Vec<f64>| -> Vec<f64> {
        runs.iter().zip(&block_means).map(|(log, mean)| log - mean).collect()
    };
    let centered: Vec<Vec<f64>> = logs.iter().map(centered).collect();
    let mean = |runs: &Vec<f64>| runs.iter().sum::<f64>() / blocks as f64;
    let means: Vec<f64> = centered.iter().map(mean).collect();
    let squares = |(runs, mean): (&Vec<f64>, &f64)| -> f64 {
        runs.iter().map(|log| (log - mean).powi(2)).sum()
    };
    let freedom = (rows - 1.0) * (blocks - 1) as f64;
    let variance = centered.iter().zip(&means).map(squares).sum::<f64>() / freedom;
    let error = (4.0 * variance / (rows * blocks as f64)).sqrt();
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    let half = error * student.inverse_cdf(1.0 - SCREENING_ALPHA / (2.0 * options as f64));
    let effect = |option: usize| {
        let sign = |on: bool| if on { 1.0 } else { -1.0 };
        let signed = settings.iter().zip(&means).map(|(row, mean)| sign(row[option]) * mean);
        Effect { size: signed.sum::<f64>() / (rows / 2.0), half }
    };
    Some((0..options).map(effect).collect())
}

#[cfg(test)]
mod tests {
    use super::{effects, settings_of};

    #[test]
    fn each_option_is_on_in_half_of_the_settings_and_every_pair_in_a_quarter() {
        let settings = settings_of(12);
        assert_eq!(settings.len(), 16);
        for a in 0..12 {
            assert_eq!(settings.iter().filter(|row| row[a]).count(), 8);
            for b in 0..a {
                assert_eq!(settings.iter().filter(|row| row[a] && row[b]).count(), 4);
            }
        }
    }

    #[test]
    fn two_culprits_are_both_seen_whatever_blocks_do() {
        let settings = settings_of(5);
        let log = |(index, row): (usize, &Vec<bool>)| {
            let on = |option: usize| f64::from(u8::from(row[option]));
            let noise = 0.001 * f64::from(index as u32 * 7 % 3);
            let level = 0.1 * on(1) - 0.03 * on(4);
            vec![level, level + 0.5 + noise, level - 0.2 - noise]
        };
        let logs: Vec<Vec<f64>> = settings.iter().enumerate().map(log).collect();
        let found = effects(&settings, &logs).unwrap();
        for (effect, expected) in found.iter().zip([0.0, 0.1, 0.0, 0.0, -0.03]) {
            assert!((effect.size - expected).abs() < 2e-3, "{found:?}");
            assert_eq!(effect.is_shown(), expected != 0.0, "{found:?}");
        }
        assert_eq!(effects(&settings, &vec![vec![0.0]; 8]), None);
    }
}
