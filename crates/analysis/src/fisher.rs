//! Whether runs of some variants were left out more often than chance explains: Fisher's exact
//! test of a table of variants by (left out, kept), with any number of variants.
//!
//! Sources: R. A. Fisher, "Statistical Methods for Research Workers", 1934; G. H. Freeman and
//! J. H. Halton, Biometrika 38, 1951, for more than two variants.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use statrs::function::factorial::ln_binomial;

/// With more tables than this, a sample of them is drawn instead.
const TABLES_MAX: f64 = 200_000.0;

/// Size of the sample of tables.
const SAMPLE: u32 = 20_000;

/// Probability of a table as rare as this, or rarer, if runs are left out whatever their
/// variant. Of variant `i`, `left_out[i]` of `runs[i]` runs were left out. `None` if there is
/// nothing to compare: fewer than two variants with runs, nothing left out, or everything.
pub fn imbalance(left_out: &[usize], runs: &[usize]) -> Option<f64> {
    let (out, all) = (left_out.iter().sum::<usize>(), runs.iter().sum::<usize>());
    let variants = runs.iter().filter(|runs| **runs > 0).count();
    let is_table = left_out.len() == runs.len() && left_out.iter().zip(runs).all(|(x, n)| x <= n);
    if variants < 2 || out == 0 || out == all || !is_table {
        return None;
    }
    let observed = weight(left_out, runs);
    // Equally rare tables must count in spite of rounding.
    let limit = observed + 1e-9;
    let tables = runs.iter().map(|n| n.min(&out) + 1).map(|n| n as f64).product::<f64>();
    if tables > TABLES_MAX {
        return Some(sampled(left_out, runs, limit));
    }
    let total = ln_binomial(all as u64, out as u64);
    Some(rarer(runs, out, 0.0, limit, total).min(1.0))
}

/// Logarithm of the number of ways to get this table.
fn weight(left_out: &[usize], runs: &[usize]) -> f64 {
    left_out.iter().zip(runs).map(|(x, n)| ln_binomial(*n as u64, *x as u64)).sum()
}

/// Probability of all tables of these variants with `out` runs left out whose weight is at most
/// `limit`. `begun` is the weight of the variants before.
fn rarer(runs: &[usize], out: usize, begun: f64, limit: f64, total: f64) -> f64 {
    let Some((&first, rest)) = runs.split_first() else {
        return if out == 0 && begun <= limit { (begun - total).exp() } else { 0.0 };
    };
    let room: usize = rest.iter().sum();
    let fewest = out.saturating_sub(room);
    let with =
        |x: usize| rarer(rest, out - x, begun + ln_binomial(first as u64, x as u64), limit, total);
    (fewest..=first.min(out)).map(with).sum()
}

/// Estimates the probability by drawing which runs are left out. The first table is the observed
/// one, so the estimate is never too small.
fn sampled(left_out: &[usize], runs: &[usize], limit: f64) -> f64 {
    // A fixed seed, so that the same runs always get the same verdict.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let out: usize = left_out.iter().sum();
    let mut variant_of_run: Vec<usize> =
        runs.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i, *n)).collect();
    let mut as_rare = 1;
    for _ in 0..SAMPLE {
        let mut drawn = vec![0; runs.len()];
        for index in 0..out {
            let other = random.random_range(index..variant_of_run.len());
            variant_of_run.swap(index, other);
            drawn[variant_of_run[index]] += 1;
        }
        as_rare += u32::from(weight(&drawn, runs) <= limit);
    }
    f64::from(as_rare) / f64::from(SAMPLE + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(left_out: &[usize], runs: &[usize], expected: f64) {
        let p = imbalance(left_out, runs).unwrap();
        assert!((p - expected).abs() < 1e-4, "{left_out:?} of {runs:?}: {p}, not {expected}");
    }

    #[test]
    fn two_variants_as_in_textbooks() {
        // The lady tasting tea, 3 of 4: 34/70 two-sided.
        check(&[3, 1], &[4, 4], 34.0 / 70.0);
        check(&[4, 0], &[4, 4], 2.0 / 70.0);
        check(&[1, 9], &[12, 12], 0.002759);
        check(&[5, 5], &[20, 20], 1.0);
    }

    #[test]
    fn three_variants_by_counting() {
        // 3 of 6 runs, two of each variant: 20 ways; both of one variant and one other: 12.
        check(&[2, 1, 0], &[2, 2, 2], 12.0 / 20.0);
        check(&[1, 1, 1], &[2, 2, 2], 1.0);
    }

    #[test]
    fn a_sample_of_tables_comes_near_all_of_them() {
        let (left_out, runs) = ([9, 2, 3], [30, 30, 30]);
        let exact = imbalance(&left_out, &runs).unwrap();
        let limit = weight(&left_out, &runs) + 1e-9;
        assert!((sampled(&left_out, &runs, limit) - exact).abs() < 0.01, "{exact}");
        let many = imbalance(&[40, 10, 10, 10, 10, 10], &[100; 6]).unwrap();
        assert!(many < 0.001, "{many}");
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(imbalance(&[], &[]), None);
        assert_eq!(imbalance(&[0, 0], &[5, 5]), None);
        assert_eq!(imbalance(&[5, 5], &[5, 5]), None);
        assert_eq!(imbalance(&[2], &[5]), None);
        assert_eq!(imbalance(&[6, 0], &[5, 5]), None);
    }
}
