//! How other tools decide that two samples differ, for comparison with our own rule in the
//! self-check. Written from the tools' documentation and from what their users describe, not from
//! their source. None of this decides anything in knee.

use crate::Spread;
use crate::rank_sum::RankSum;
use crate::student::Student;

/// lkp-tests, as documented. A metric has changed if one side's smallest value lies above the
/// other's median, its median lies above the other's largest value, and the means differ by more
/// than `factor` (1.01 for main metrics, 1.05 for others). One side must have at least 3 runs. Of
/// many runs, one in 32 is cut off at each end, at most three. The median of an even number of
/// values is the upper one.
pub fn lkp(a: &[f64], b: &[f64], factor: f64) -> bool {
    let (a, b) = (trimmed(a), trimmed(b));
    if a.len().max(b.len()) < 3 || a.is_empty() || b.is_empty() {
        return false;
    }
    let is_above = |high: &[f64], low: &[f64]| {
        high[0] > low[low.len() / 2] && high[high.len() / 2] > low[low.len() - 1]
    };
    let mean = |side: &[f64]| side.iter().sum::<f64>() / side.len() as f64;
    let ratio = mean(&a) / mean(&b);
    (is_above(&a, &b) || is_above(&b, &a)) && ratio.max(1.0 / ratio) > factor
}

fn trimmed(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let cut = (sorted.len() >> 5).min(3);
    sorted[cut..sorted.len() - cut].to_vec()
}

/// A rule of thumb: the means differ by more than the larger standard deviation.
pub fn beyond_larger_stddev(a: &[f64], b: &[f64]) -> bool {
    let Some(((mean_a, stddev_a), (mean_b, stddev_b))) = moments(a, b) else { return false };
    (mean_a - mean_b).abs() > stddev_a.max(stddev_b)
}

/// hyperfine, as its users read its output: the ratio of the slower to the faster mean exceeds 1
/// by more than the standard deviation printed with it, which is propagated from both sides.
pub fn hyperfine(a: &[f64], b: &[f64]) -> bool {
    let Some((a, b)) = moments(a, b) else { return false };
    let (slow, fast) = if a.0 > b.0 { (a, b) } else { (b, a) };
    let ratio = slow.0 / fast.0;
    ratio - 1.0 > ratio * (slow.1 / slow.0).hypot(fast.1 / fast.0)
}

/// mmtests, as documented: the means differ by more than the sum of both sides' 1.96 standard
/// deviations (of single values, not of the mean).
pub fn mmtests(a: &[f64], b: &[f64]) -> bool {
    let Some(((mean_a, stddev_a), (mean_b, stddev_b))) = moments(a, b) else { return false };
    (mean_a - mean_b).abs() > 1.96 * (stddev_a + stddev_b)
}

fn moments(a: &[f64], b: &[f64]) -> Option<((f64, f64), (f64, f64))> {
    let moments = |side: &[f64]| Spread::from_values(side).and_then(|s| Some((s.mean, s.stddev?)));
    Some((moments(a)?, moments(b)?))
}

/// criterion.rs, as documented: the means of two samples differ with p below 5 %, and by more than its noise threshold of
/// 1 %. It bootstraps the t statistic, for which Welch's stands here.
pub fn criterion(a: &[f64], b: &[f64]) -> bool {
    let Some(student) = Student::welch(a, b) else { return false };
    let mean = a.iter().sum::<f64>() / a.len() as f64;
    student.p() < 0.05 && student.estimate.abs() > 0.01 * mean
}

/// rustc-perf, as documented: one run against one; their relative change lies beyond the upper quartile of the changes
/// between earlier neighbours by more than three interquartile ranges.
pub fn beyond_history(history: &[f64], base: f64, head: f64) -> bool {
    let mut changes: Vec<f64> =
        history.windows(2).map(|pair| (pair[1] / pair[0] - 1.0).abs()).collect();
    changes.sort_by(f64::total_cmp);
    let at = |share: f64| changes.get((share * changes.len() as f64) as usize).copied();
    let (Some(low), Some(high)) = (at(0.25), at(0.75)) else { return false };
    (head / base - 1.0).abs() > high + 3.0 * (high - low)
}

/// benchstat: the exact Mann–Whitney test at 5 %, for samples of one fixed size.
pub struct Benchstat {
    critical: Option<usize>,
}

impl Benchstat {
    /// The test for `n` values on each side.
    pub fn new(n: usize) -> Benchstat {
        Benchstat { critical: RankSum::new(n, n).critical(0.05) }
    }

    pub fn changed(&self, a: &[f64], b: &[f64]) -> bool {
        let above: usize = a.iter().map(|a| b.iter().filter(|b| *b > a).count()).sum();
        self.changed_at(above, a.len() * b.len())
    }

    /// Decides by the number of pairs in which the value of the second sample is larger.
    pub fn changed_at(&self, above: usize, pairs: usize) -> bool {
        self.critical.is_some_and(|critical| above.min(pairs - above) <= critical)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lkp_needs_medians_outside_the_other_range_and_a_factor() {
        let a = [100.0, 101.0, 102.0];
        assert!(lkp(&a, &[103.0, 104.0, 105.0], 1.01));
        assert!(lkp(&[103.0, 104.0, 105.0], &a, 1.01));
        assert!(!lkp(&a, &[103.0, 104.0, 105.0], 1.05));
        assert!(!lkp(&a, &[100.5, 104.0, 105.0], 1.01));
        assert!(!lkp(&a[..2], &[103.0, 104.0], 1.01));
        assert!(lkp(&a, &[104.0], 1.01));
        assert!(!lkp(&a, &[], 1.01));
    }

    #[test]
    fn one_far_value_of_32_is_cut_off() {
        let mut values = vec![1.0; 31];
        values.push(9.0);
        assert_eq!(trimmed(&values), vec![1.0; 30]);
        assert_eq!(trimmed(&[1.0; 200]).len(), 194);
    }

    #[test]
    fn other_tools_decide_by_the_spread_of_single_values() {
        // Standard deviations of 1 each.
        let (a, b) = ([99.0, 100.0, 101.0], [100.5, 101.5, 102.5]);
        assert!(beyond_larger_stddev(&a, &b) && hyperfine(&a, &b) && !mmtests(&a, &b));
        let far = [103.5, 104.5, 105.5];
        assert!(mmtests(&a, &far) && !hyperfine(&a, &[100.1, 101.1, 102.1]));
        assert!(!hyperfine(&[1.0], &[2.0]));
    }

    #[test]
    fn benchstat_needs_four_of_each() {
        let low: Vec<f64> = (0..4).map(f64::from).collect();
        let high: Vec<f64> = (10..14).map(f64::from).collect();
        assert!(Benchstat::new(4).changed(&low, &high));
        assert!(Benchstat::new(4).changed(&high, &low));
        assert!(!Benchstat::new(3).changed(&low[..3], &high[..3]));
    }
}
