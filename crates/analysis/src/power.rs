//! Statistical power: what a number of blocks can find, before they are run. It is the smallest
//! change that paired signed ranks find in four of five cases, by the normal approximation with
//! Student's quantiles and the signed-rank test's efficiency of 3/pi on normal noise.
//!
//! Source: E. L. Lehmann, "Nonparametrics: Statistical Methods Based on Ranks", 1975.

use std::f64::consts::PI;

use crate::student::quantile;

/// The share of cases in which a real change is to be found.
const POWER: f64 = 0.8;

/// Nobody plans more blocks than this.
const BLOCKS_MAX: usize = 100_000;

/// The smallest change, as a share, that `n` blocks find with 80 % power if single runs have the
/// coefficient of variation `cv`. `None` for fewer than 4 blocks, and if the level cannot be
/// reached. `cv` is the variation within blocks: noise that both runs of a block share does not
/// count.
pub fn detectable(n: usize, cv: f64, alpha: f64) -> Option<f64> {
    if n < 4 {
        return None;
    }
    // Ranks have only few possible levels: this is the one that the test really has.
    let critical = crate::critical(n, alpha).filter(|_| n >= 8);
    let (level, efficiency) = match critical {
        Some(cut) => (crate::signed_rank::two_sided(n, cut), 3.0 / PI),
        None => (alpha, 1.0),
    };
    let freedom = n as f64 - 1.0;
    let distance = quantile(freedom, level)? + quantile(freedom, 2.0 * (1.0 - POWER))?;
    // A difference has the noise of two runs.
    let deviation = cv * 2.0_f64.sqrt();
    Some((distance * deviation / (n as f64 * efficiency).sqrt()).exp() - 1.0)
}

/// The fewest blocks that find a change of `effect`, as a share, with 80 % power.
pub fn blocks_for(effect: f64, cv: f64, alpha: f64) -> Option<usize> {
    if !(effect > 0.0 && cv >= 0.0) {
        return None;
    }
    let is_enough = |n: usize| detectable(n, cv, alpha).is_some_and(|smallest| smallest <= effect);
    // Where ranks begin, try the numbers one by one; from there on, double and bisect.
    if let Some(n) = (4..=16).find(|n| is_enough(*n)) {
        return Some(n);
    }
    let mut end = 32;
    while !is_enough(end) {
        end *= 2;
        if end > BLOCKS_MAX {
            return None;
        }
    }
    let (mut short, mut end) = (end / 2, end);
    while end - short > 1 {
        let middle = (short + end) / 2;
        if is_enough(middle) { end = middle } else { short = middle }
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;
    use crate::noise::gaussian;

    #[test]
    fn detectable_changes_are_found_in_four_of_five_cases() {
        let (seed, trials) = (23, 4000);
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for n in [5, 8, 10, 20, 60] {
            let shift = detectable(n, 0.03, 0.05).unwrap().ln_1p();
            let rule = crate::Rule { alpha: 0.05, margin: 0.0, sequential: false, cap: 60 };
            let findings = (0..trials).filter(|_| {
                let differences: Vec<f64> = (0..n)
                    .map(|_| shift + 0.03 * (gaussian(&mut random) - gaussian(&mut random)))
                    .collect();
                let decision = crate::judge(&differences, &rule).decision;
                matches!(decision, crate::Decision::Changed { .. })
            });
            let power = findings.count() as f64 / f64::from(trials);
            assert!((0.75..0.86).contains(&power), "{n} blocks: {power}");
        }
    }

    #[test]
    fn blocks_are_the_fewest_that_suffice() {
        for (effect, cv) in [(0.02, 0.03), (0.05, 0.03), (0.01, 0.001), (0.005, 0.05)] {
            let n = blocks_for(effect, cv, 0.05).unwrap();
            assert!(detectable(n, cv, 0.05).unwrap() <= effect);
            assert!(n == 4 || detectable(n - 1, cv, 0.05).unwrap() > effect, "{effect} {cv} {n}");
        }
        assert_eq!(blocks_for(0.0, 0.03, 0.05), None);
        assert_eq!(blocks_for(1e-9, 0.03, 0.05), None);
        assert_eq!(detectable(3, 0.03, 0.05), None);
    }
}
