//! Two samples by ranks: the exact distribution of the Mann–Whitney statistic, the shift between
//! the samples and its interval. For variants that were measured separately, without pairs.
//!
//! Sources: H. B. Mann and D. R. Whitney, "On a Test of Whether one of Two Random Variables
//! is Stochastically Larger than the Other", Annals of Mathematical Statistics 18, 1947;
//! Hodges and Lehmann, 1963, for the estimate.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::pair_sums::PairSums;

/// Up to this number of pairs (one value of each sample) the distribution is exact. Beyond, it is
/// the normal approximation with continuity correction, which is off by 5 % of a probability of
/// 0.01 and by 12 % of one of 0.001, on the cautious side.
pub const EXACT_MAX: usize = 4096;

/// The differences of all pairs, one value of each sample, and the distribution of how many are
/// positive. Ties count for whichever side is against the finding, as with [`crate::Walsh`].
#[derive(Clone, Debug)]
pub struct Shifts {
    differences: PairSums,
    distribution: RankSum,
}

impl Shifts {
    /// `b` against `a`. Values must be finite.
    pub fn new(a: &[f64], b: &[f64]) -> Shifts {
        let negative = a.iter().map(|a| -a).collect();
        let differences = PairSums::between(b.to_vec(), negative);
        Shifts { differences, distribution: RankSum::new(a.len(), b.len()) }
    }

    /// The median difference (Hodges–Lehmann): the shift, if the samples have the same shape.
    pub fn estimate(&self) -> Option<f64> {
        self.differences.median()
    }

    /// The interval of the shift at level `alpha`: its excluded tails have at most that probability
    /// together. `None` if no interval is that sure.
    pub fn interval(&self, alpha: f64) -> Option<(f64, f64)> {
        let cut = self.distribution.critical(alpha)?;
        let mirrored = self.differences.len() - 1 - cut;
        Some((self.differences.nth(cut), self.differences.nth(mirrored)))
    }

    /// Probability of samples this far apart, or farther, if both are from one source.
    pub fn p(&self) -> f64 {
        let below = self.differences.at_most(-f64::from_bits(1));
        let above = self.differences.len() - self.differences.at_most(0.0);
        let zero = self.differences.len() - below - above;
        self.distribution.two_sided(below.min(above) + zero)
    }
}

/// The distribution of the Mann–Whitney statistic of two samples from one source.
#[derive(Clone, Debug)]
pub struct RankSum {
    sizes: (usize, usize),
    /// P(U <= u) from 0 to the middle; empty if approximate.
    cumulative: Vec<f64>,
}

impl RankSum {
    /// The distribution for samples of `n` and `m` values.
    pub fn new(n: usize, m: usize) -> RankSum {
        let exact = n * m <= EXACT_MAX;
        RankSum { sizes: (n, m), cumulative: if exact { cumulative(n, m) } else { Vec::new() } }
    }

    /// The critical value: the largest `C` such that, with probability `alpha` or less, the
    /// statistic is at most `C` or at least its maximum minus `C`. `None` if there is none.
    pub fn critical(&self, alpha: f64) -> Option<usize> {
        let pairs = self.sizes.0 * self.sizes.1;
        if pairs == 0 {
            return None;
        }
        let (mut fit, mut end) = (0, pairs.div_ceil(2));
        while fit < end {
            let middle = (fit + end) / 2;
            if self.two_sided(middle) <= alpha { fit = middle + 1 } else { end = middle }
        }
        fit.checked_sub(1)
    }

    /// Probability that the smaller of the statistic and its mirror image is `at_most` or
    /// less.
    pub fn two_sided(&self, at_most: usize) -> f64 {
        let tail = if self.cumulative.is_empty() {
            self.normal_lower_tail(at_most)
        } else {
            self.cumulative.get(at_most).copied().unwrap_or(1.0)
        };
        (2.0 * tail).min(1.0)
    }

    fn normal_lower_tail(&self, at_most: usize) -> f64 {
        let (n, m) = (self.sizes.0 as f64, self.sizes.1 as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        Normal::standard().cdf((at_most as f64 + 0.5 - n * m / 2.0) / deviation)
    }
}

/// P(U <= u) for u from 0 to the middle. The largest of all values is of the first sample with
/// probability n / (n + m), and then exceeds all m of the other (recurrence of Mann and Whitney).
fn cumulative(n: usize, m: usize) -> Vec<f64> {
    let length = n * m / 2 + 1;
    // distributions[j]: for samples of i and j values, with i growing.
    let mut distributions = vec![vec![0.0; length]; m + 1];
    for distribution in &mut distributions {
        distribution[0] = 1.0;
    }
    for i in 1..=n {
        for j in 1..=m {
            let of_first = i as f64 / (i + j) as f64;
            let (fewer, this) = distributions.split_at_mut(j);
            // Downwards, so that the entries for i - 1 and j values are still there when needed.
            for u in (0..length).rev() {
                let with = u.checked_sub(j).map_or(0.0, |rest| this[0][rest]);
                this[0][u] = of_first * with + (1.0 - of_first) * fewer[j - 1][u];
            }
        }
    }
    let mut total = 0.0;
    let add = |mass: f64| {
        total += mass;
        total
    };
    distributions.swap_remove(m).into_iter().map(add).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    /// All ways to split `values` into `n` values and the rest.
    fn all_splits(values: &[f64], n: usize) -> Vec<(Vec<f64>, Vec<f64>)> {
        (0..1_u32 << values.len())
            .filter(|chosen| chosen.count_ones() as usize == n)
            .map(|chosen| {
                let indexed = values.iter().enumerate();
                let (a, b): (Vec<_>, Vec<_>) = indexed.partition(|(i, _)| chosen >> i & 1 == 1);
                let plain = |side: Vec<(usize, &f64)>| side.into_iter().map(|(_, v)| *v).collect();
                (plain(a), plain(b))
            })
            .collect()
    }

    #[test]
    fn p_is_what_counting_all_splits_gives() {
        let values = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4];
        for (n, m) in [(1, 1), (1, 5), (2, 3), (4, 4), (3, 8), (6, 5), (8, 3)] {
            let splits = all_splits(&values[..n + m], n);
            let ps: Vec<f64> = splits.iter().map(|(a, b)| Shifts::new(a, b).p()).collect();
            for p in &ps {
                let as_small = ps.iter().filter(|other| **other <= p + 1e-12).count();
                assert!((as_small as f64 / ps.len() as f64 - p).abs() < 1e-9, "{n} {m}: {p}");
            }
        }
    }

    #[test]
    fn with_ties_a_claim_is_at_most_as_frequent_as_promised() {
        for values in [vec![1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0], vec![5.0; 8]] {
            let splits = all_splits(&values, 4);
            let ps: Vec<f64> = splits.iter().map(|(a, b)| Shifts::new(a, b).p()).collect();
            for p in &ps {
                let as_small = ps.iter().filter(|other| *other <= p).count();
                assert!(as_small as f64 / ps.len() as f64 <= p + 1e-12);
            }
        }
    }

    #[test]
    fn critical_values_are_those_of_printed_tables() {
        for (n, m, expected) in [(3, 3, None), (4, 4, Some(0)), (5, 5, Some(2)), (10, 10, Some(23))]
        {
            assert_eq!(RankSum::new(n, m).critical(0.05), expected, "{n} {m}");
        }
        assert_eq!(RankSum::new(20, 20).critical(0.05), Some(127));
        assert_eq!(RankSum::new(0, 4).critical(0.05), None);
    }

    #[test]
    fn the_interval_excludes_zero_exactly_when_the_test_rejects() {
        let seed = 11;
        println!("seed {seed}");
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        for _ in 0..1000 {
            let mut side = |shift: i32| -> Vec<f64> {
                let n = random.random_range(3..12);
                (0..n).map(|_| f64::from(random.random_range(-5..=5) + shift)).collect()
            };
            let shifts = Shifts::new(&side(0), &side(2));
            for alpha in [0.01, 0.05, 0.2] {
                let excludes =
                    shifts.interval(alpha).is_some_and(|(low, high)| low > 0.0 || high < 0.0);
                assert_eq!(excludes, shifts.p() <= alpha, "{shifts:?}");
            }
        }
    }

    #[test]
    fn the_approximation_agrees_where_the_exact_distribution_ends() {
        let exact = RankSum::new(64, 64);
        for (alpha, off) in [(0.001, 0.12), (0.01, 0.05), (0.05, 0.02), (0.2, 0.01)] {
            let cut = exact.critical(alpha).unwrap();
            let ratio = 2.0 * exact.normal_lower_tail(cut) / exact.two_sided(cut);
            assert!((0.99..1.0 + off).contains(&ratio), "{alpha} {ratio}");
        }
        assert!(RankSum::new(65, 64).critical(0.05) > exact.critical(0.05));
    }
}
