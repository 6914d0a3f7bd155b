//! The signed-rank statistic of paired differences: its exact distribution, with the estimate and
//! the interval that belong to it. The only assumption: if nothing is different, a difference of
//! either sign is equally likely. Random order within blocks makes that true.
//!
//! Sources: F. Wilcoxon, "Individual Comparisons by Ranking Methods", Biometrics Bulletin 1,
//! 1945; J. L. Hodges and E. L. Lehmann, "Estimates of Location Based on Rank Tests", Annals
//! of Mathematical Statistics 34, 1963.

use std::sync::OnceLock;

use statrs::distribution::{ContinuousCDF, Normal};

use crate::pair_sums::PairSums;

/// Up to this number of differences the distribution is exact. Beyond, it is the normal
/// approximation with continuity correction. For tail probabilities above 0.0005 that is off by
/// less than 3 % of the probability, on the cautious side; a test checks it at this number.
pub const EXACT_MAX: usize = 500;

/// The averages of all pairs of differences, including each difference with itself (Walsh
/// averages).
///
/// The statistic is the number of positive averages, so that the interval between two of them
/// excludes 0 exactly when the test rejects. Differences of 0, and averages of 0 by ties, count
/// for whichever side is against the finding, so a claim holds with at least the promised
/// probability. (Breaking the ties at random, in any way, has the exact distribution; this is at
/// least as cautious as each of these ways.)
#[derive(Clone, Debug)]
pub struct Walsh {
    n: usize,
    /// Each average is the sum of two halves of differences: halves first, so that no sum overflows.
    averages: PairSums,
}

impl Walsh {
    /// The averages of `differences`, which must be finite.
    pub fn new(differences: &[f64]) -> Walsh {
        let halves = differences.iter().map(|difference| difference / 2.0).collect();
        Walsh { n: differences.len(), averages: PairSums::within(halves) }
    }

    /// The Hodges–Lehmann estimate: the median of the averages.
    pub fn estimate(&self) -> Option<f64> {
        self.averages.median()
    }

    /// The interval at level `alpha`: its excluded tails have at most that probability together.
    /// `None` if no interval between averages is that sure.
    pub fn interval(&self, alpha: f64) -> Option<(f64, f64)> {
        let cut = critical(self.n, alpha)?;
        Some((self.averages.nth(cut), self.averages.nth(pairs(self.n) - 1 - cut)))
    }

    /// Probability of differences this one-sided, or more, if nothing is different.
    pub fn p(&self) -> f64 {
        let below = self.averages.at_most(-f64::from_bits(1));
        let above = pairs(self.n) - self.averages.at_most(0.0);
        let zero = pairs(self.n) - below - above;
        two_sided(self.n, below.min(above) + zero)
    }
}

/// The Hodges–Lehmann estimate of the location of differences: the median of the averages of all
/// pairs. `None` for no differences.
pub fn hodges_lehmann(differences: &[f64]) -> Option<f64> {
    Walsh::new(differences).estimate()
}

/// The critical value for `n` differences: the largest `C` such that, with probability `alpha` or
/// less, the statistic is at most `C` or at least its maximum minus `C`. `None` if even 0 is
/// likelier.
pub fn critical(n: usize, alpha: f64) -> Option<usize> {
    if n == 0 {
        return None;
    }
    // At the middle and beyond, the interval would be empty.
    let half = pairs(n).div_ceil(2) - 1;
    let (mut fit, mut end) = (0, half + 1);
    while fit < end {
        let middle = (fit + end) / 2;
        if two_sided(n, middle) <= alpha { fit = middle + 1 } else { end = middle }
    }
    fit.checked_sub(1)
}

/// Probability that the smaller of the statistic and its mirror image is `at_most` or less.
pub fn two_sided(n: usize, at_most: usize) -> f64 {
    (2.0 * lower_tail(n, at_most)).min(1.0)
}

fn pairs(n: usize) -> usize {
    n * (n + 1) / 2
}

/// Probability that the statistic is `at_most` or less.
fn lower_tail(n: usize, at_most: usize) -> f64 {
    if n > EXACT_MAX {
        return normal_lower_tail(n, at_most);
    }
    // The same distributions are needed again and again: some MiB if all of them are.
    static DISTRIBUTIONS: [OnceLock<Vec<f64>>; EXACT_MAX + 1] =
        [const { OnceLock::new() }; EXACT_MAX + 1];
    let distribution = DISTRIBUTIONS[n].get_or_init(|| cumulative(n));
    distribution.get(at_most).copied().unwrap_or(1.0)
}

/// P(T <= k) for k from 0 to the middle; the distribution is symmetric. Each rank joins the sum of
/// positive ranks with probability one half, so 500 ranks stay far from underflow.
fn cumulative(n: usize) -> Vec<f64> {
    let mut distribution = vec![0.0; pairs(n) / 2 + 1];
    distribution[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..distribution.len()).rev() {
            let with = sum.checked_sub(rank).map_or(0.0, |rest| distribution[rest]);
            distribution[sum] = (distribution[sum] + with) / 2.0;
        }
    }
    let mut total = 0.0;
    for mass in &mut distribution {
        total += *mass;
        *mass = total;
    }
    distribution
}

fn normal_lower_tail(n: usize, at_most: usize) -> f64 {
    let n = n as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    Normal::standard().cdf((at_most as f64 + 0.5 - mean) / deviation)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// All 2^n ways to give signs to `sizes`.
    fn all_signs(sizes: &[f64]) -> impl Iterator<Item = Vec<f64>> + '_ {
        (0..1_u32 << sizes.len()).map(move |signs| {
            let signed = |(i, size): (usize, &f64)| if signs >> i & 1 == 1 { *size } else { -size };
            sizes.iter().enumerate().map(signed).collect()
        })
    }

    #[test]
    fn the_distribution_is_what_counting_all_signs_gives() {
        for n in 1..=12 {
            let sizes: Vec<f64> = (1..=n).map(|rank| rank as f64).collect();
            let mut counts = vec![0_u32; pairs(n) + 1];
            for signed in all_signs(&sizes) {
                let positive: f64 = signed.iter().filter(|d| **d > 0.0).sum();
                counts[positive as usize] += 1;
            }
            let mut below = 0;
            for (sum, count) in counts.iter().enumerate().take(pairs(n) / 2 + 1) {
                below += count;
                let expected = below as f64 / f64::from(1_u32 << n);
                assert!((lower_tail(n, sum) - expected).abs() < 1e-12, "n {n}, sum {sum}");
            }
        }
    }

    #[test]
    fn critical_values_are_those_of_printed_tables() {
        // Two-sided 5 %: the tables' 3, 8, 52, 434 are for sums of ranks.
        let table = [(5, None), (6, Some(0)), (8, Some(3)), (10, Some(8)), (20, Some(52))];
        for (n, expected) in table {
            assert_eq!(critical(n, 0.05), expected, "{n}");
        }
        assert_eq!(critical(50, 0.05), Some(434));
        assert_eq!(critical(0, 0.05), None);
        assert_eq!(critical(10, 0.0), None);
    }

    #[test]
    fn the_interval_excludes_zero_exactly_when_the_test_rejects() {
        let seed = 7;
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..2000 {
            let n = random.random_range(1..30);
            // Coarse values, for ties and zeros.
            let shift = random.random_range(-2..=2);
            let value = |_| f64::from(random.random_range(-4..=4) + shift);
            let walsh = Walsh::new(&(0..n).map(value).collect::<Vec<_>>());
            for alpha in [0.003, 0.05, 0.2] {
                let excludes = walsh.interval(alpha).is_some_and(|(low, high)| {
                    assert!(low <= high);
                    low > 0.0 || high < 0.0
                });
                assert_eq!(excludes, walsh.p() <= alpha, "{walsh:?} {alpha}");
            }
        }
    }

    #[test]
    fn with_ties_and_zeros_a_claim_is_at_most_as_frequent_as_promised() {
        let sizes: [&[f64]; 4] = [
            &[1.0; 10],
            &[0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0],
            &[0.0; 6],
            &[1.0, 2.0, 2.0, 9.0],
        ];
        for sizes in sizes {
            let ps: Vec<f64> = all_signs(sizes).map(|signed| Walsh::new(&signed).p()).collect();
            for p in &ps {
                let as_small = ps.iter().filter(|other| *other <= p).count();
                assert!(as_small as f64 / ps.len() as f64 <= p + 1e-12, "{sizes:?} {p}");
            }
        }
    }

    #[test]
    fn without_ties_p_is_exact() {
        let sizes = [0.1, 0.25, 0.7, 1.9, 3.1, 4.0, 7.5, 11.0, 20.0];
        let ps: Vec<f64> = all_signs(&sizes).map(|signed| Walsh::new(&signed).p()).collect();
        for p in &ps {
            let as_small = ps.iter().filter(|other| *other <= p).count();
            assert!((as_small as f64 / ps.len() as f64 - p).abs() < 1e-12);
        }
    }

    #[test]
    fn the_approximation_is_close_and_cautious_where_the_exact_distribution_ends() {
        for tail in [0.0005, 0.001, 0.01, 0.05, 0.2] {
            let cut = critical(EXACT_MAX, 2.0 * tail).unwrap();
            let ratio = normal_lower_tail(EXACT_MAX, cut) / lower_tail(EXACT_MAX, cut);
            assert!((0.999..1.03).contains(&ratio), "{tail} {ratio}");
        }
        assert!(critical(EXACT_MAX + 1, 0.05) > critical(EXACT_MAX, 0.05));
    }

    #[test]
    fn the_estimate_is_the_median_of_averages() {
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann(&[3.0]), Some(3.0));
        // Averages 1, 1.5, 2, 5.5, 6, 10.
        assert_eq!(hodges_lehmann(&[1.0, 10.0, 2.0]), Some(3.75));
        assert_eq!(hodges_lehmann(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    }
}
