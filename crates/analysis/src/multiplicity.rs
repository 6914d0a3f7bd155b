//! Several tests on the same data: how sure each must be so that all together are as sure as
//! promised (Holm), or so that only a small share of the findings is false (Benjamini and
//! Hochberg).
//!
//! Sources: S. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian
//! Journal of Statistics 6, 1979; Y. Benjamini and Y. Hochberg, "Controlling the False
//! Discovery Rate", Journal of the Royal Statistical Society B 57, 1995.

/// The level at which Holm's procedure tests each hypothesis: `alpha` divided by the number of
/// hypotheses not yet rejected, the smallest p first. All after the first that is not rejected are
/// tested at that one's level. So an interval at its level excludes 0 exactly when Holm rejects.
/// The intervals repeat the tests; they do not cover simultaneously.
pub fn holm_levels(p: &[f64], alpha: f64) -> Vec<f64> {
    let mut levels = vec![alpha; p.len()];
    let mut level = 0.0;
    let mut rejecting = true;
    for (step, index) in ascending(p).into_iter().enumerate() {
        if rejecting {
            level = alpha / (p.len() - step) as f64;
            rejecting = p[index] <= level;
        }
        levels[index] = level;
    }
    levels
}

/// Adjusts each p so that comparing it with alpha is Holm's test at alpha.
pub fn holm_adjusted(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p.len()];
    let mut largest: f64 = 0.0;
    for (step, index) in ascending(p).into_iter().enumerate() {
        largest = largest.max(p[index] * (p.len() - step) as f64);
        adjusted[index] = largest.min(1.0);
    }
    adjusted
}

/// Adjusts each p so that, of the findings with p at most q, a share of about q is expected to be
/// false.
pub fn benjamini_hochberg(p: &[f64]) -> Vec<f64> {
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest: f64 = 1.0;
    for (step, index) in ascending(p).into_iter().enumerate().rev() {
        smallest = smallest.min(p[index] * p.len() as f64 / (step + 1) as f64);
        adjusted[index] = smallest;
    }
    adjusted
}

/// Indexes by p, ascending; NaN comes last.
fn ascending(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: &[f64], b: &[f64]) {
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?} is not {b:?}");
    }

    #[test]
    fn holm_tests_the_smallest_first_and_stops_at_the_first_that_stands() {
        let p = [0.04, 0.001, 0.02, 0.03];
        near(&holm_levels(&p, 0.05), &[0.05 / 3.0, 0.0125, 0.05 / 3.0, 0.05 / 3.0]);
        near(&holm_adjusted(&p), &[0.06, 0.004, 0.06, 0.06]);
        near(&holm_levels(&[0.03, 0.01], 0.05), &[0.05, 0.025]);
        assert!(holm_levels(&[], 0.05).is_empty());
    }

    #[test]
    fn levels_and_adjusted_p_agree() {
        for step in 0..5000_u32 {
            let p: Vec<f64> = (0..4)
                .map(|i| f64::from(step.wrapping_mul(2_654_435_761) >> (8 * i) & 15) / 200.0)
                .collect();
            let (levels, adjusted) = (holm_levels(&p, 0.05), holm_adjusted(&p));
            for i in 0..4 {
                // Not where rounding decides.
                if (adjusted[i] - 0.05).abs() > 1e-9 {
                    assert_eq!(p[i] <= levels[i], adjusted[i] <= 0.05, "{p:?}");
                }
            }
        }
    }

    #[test]
    fn the_adjusted_p_of_a_textbook_example() {
        let p = [0.01, 0.04, 0.03, 0.005, 0.55];
        near(&benjamini_hochberg(&p), &[0.025, 0.05, 0.05, 0.025, 0.55]);
        near(&benjamini_hochberg(&[1.0, 1.0]), &[1.0, 1.0]);
    }

    #[test]
    fn nan_is_never_rejected() {
        assert_eq!(holm_adjusted(&[f64::NAN, 0.01])[1], 0.02);
        assert!(holm_adjusted(&[f64::NAN, 0.01])[0] >= 0.02);
        assert_eq!(holm_levels(&[f64::NAN, 0.01], 0.05), [0.05, 0.025]);
    }
}
