//! The difference between two variants whose values were taken one by one on a host that drifts. The
//! model is a level, a difference, a straight trend over the order of the values, a random walk of the
//! host from each value to the next, and noise of each value by itself:
//!
//!     value(i) = level + difference (if it is the variant's) + trend i + walk(i) + noise(i)
//!
//! How large the walk is beside the noise is not known. The result is averaged over ratios of the two,
//! each weighted by how well it explains the values (restricted likelihood). If the variants were
//! taken in turn, trend and walk hardly touch the difference. If one came after the other, both can
//! look like a difference, and the interval is as much wider.
//!
//! Sources: H. D. Patterson and R. Thompson, "Recovery of Inter-Block Information When Block Sizes
//! Are Unequal", Biometrika 58, 1971; A. C. Harvey, "Forecasting, Structural Time Series Models and
//! the Kalman Filter", 1989.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Variances of a step of the walk over that of the noise.
const RATIOS: [f64; 9] = [0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0];
/// The probability, beforehand, that the host does not walk at all.
const NO_WALK: f64 = 0.3;
/// Level, difference and trend.
const PARAMETERS: usize = 3;

/// A value in the order of time: whether it is the variant's, and the value.
pub type Taken = (bool, f64);

/// The difference by one ratio of walk to noise.
struct Part {
    weight: f64,
    estimate: f64,
    error: f64,
}

/// The difference, averaged over the ratios.
pub struct DriftFit {
    parts: Vec<Part>,
    law: StudentsT,
}

impl DriftFit {
    /// Fits values in the order in which they were taken. `None` if they are too few, of one side, or
    /// without any noise.
    pub fn new(taken: &[Taken]) -> Option<DriftFit> {
        let freedom = taken.len().checked_sub(PARAMETERS).filter(|freedom| *freedom > 0)? as f64;
        let n = taken.len() as f64;
        let columns = [
            vec![1.0; taken.len()],
            taken.iter().map(|(is_variant, _)| if *is_variant { 0.5 } else { -0.5 }).collect(),
            (0..taken.len()).map(|i| (i as f64 - (n - 1.0) / 2.0) / n).collect(),
        ];
        let middle = taken.iter().map(|(_, value)| value).sum::<f64>() / n;
        let values: Vec<f64> = taken.iter().map(|(_, value)| value - middle).collect();
        let fits: Vec<(f64, Part)> = RATIOS
            .iter()
            .map(|ratio| fit(&values, &columns, *ratio, freedom))
            .collect::<Option<_>>()?;
        let best = fits.iter().map(|(log, _)| *log).fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = fits.iter().map(|(log, _)| (log - best).exp()).sum();
        let weighted =
            |(log, part): (f64, Part)| Part { weight: (log - best).exp() / total, ..part };
        let law = StudentsT::new(0.0, 1.0, freedom).ok()?;
        Some(DriftFit { parts: fits.into_iter().map(weighted).collect(), law })
    }

    pub fn estimate(&self) -> f64 {
        self.parts.iter().map(|part| part.weight * part.estimate).sum()
    }

    /// Probability that the difference is below a value.
    fn below(&self, value: f64) -> f64 {
        let one = |part: &Part| part.weight * self.law.cdf((value - part.estimate) / part.error);
        self.parts.iter().map(one).sum()
    }

    /// Probability of a difference on the other side of 0, twice.
    pub fn p(&self) -> f64 {
        let above = |part: &Part| part.weight * self.law.sf(-part.estimate / part.error);
        let above: f64 = self.parts.iter().map(above).sum();
        (2.0 * self.below(0.0).min(above)).min(1.0)
    }

    /// The interval that misses with probability `alpha`.
    pub fn interval(&self, alpha: f64) -> (f64, f64) {
        (self.quantile(alpha / 2.0), self.quantile(1.0 - alpha / 2.0))
    }

    fn quantile(&self, share: f64) -> f64 {
        let start = self.estimate();
        let mut width = self.parts.iter().map(|part| part.error).fold(0.0, f64::max);
        while width.is_finite()
            && (self.below(start - width) > share || self.below(start + width) < share)
        {
            width *= 2.0;
        }
        let (mut low, mut high) = (start - width, start + width);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.below(middle) < share { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }
}

/// The logarithm of a ratio's weight, and the difference by it.
fn fit(
    values: &[f64],
    columns: &[Vec<f64>; PARAMETERS],
    ratio: f64,
    freedom: f64,
) -> Option<(f64, Part)> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let walk = Walk::new(ratio, values.len());
    let weighted_values = walk.weighted(values);
    let weighted = columns.each_ref().map(|column| walk.weighted(column));
    let matrix = columns.each_ref().map(|a| weighted.each_ref().map(|b| dot(a, b)));
    let right = columns.each_ref().map(|column| dot(column, &weighted_values));
    let (inverse, log_determinant) = inverse(matrix)?;
    let parameters = inverse.map(|row| dot(&row, &right));
    let all = dot(values, &weighted_values);
    let left = all - dot(&parameters, &right);
    // Rounding alone leaves this much.
    if left.is_nan() || left <= 1e-13 * all {
        return None;
    }
    let beforehand =
        if ratio == 0.0 { NO_WALK } else { (1.0 - NO_WALK) / (RATIOS.len() - 1) as f64 };
    let log =
        beforehand.ln() - (walk.log_determinant + log_determinant + freedom * left.ln()) / 2.0;
    let error = (left / freedom * inverse[1][1]).sqrt();
    (log.is_finite() && error > 0.0)
        .then_some((log, Part { weight: 1.0, estimate: parameters[1], error }))
}

/// The covariance of noise and walk, in units of the noise: 1 + ratio K with K(i, j) = min(i, j). The
/// inverse of K is tridiagonal, with 2 (the last: 1) on its diagonal and -1 beside it.
struct Walk {
    ratio: f64,
    pivots: Vec<f64>,
    log_determinant: f64,
}

impl Walk {
    fn new(ratio: f64, n: usize) -> Walk {
        let mut pivots: Vec<f64> = Vec::with_capacity(n);
        for i in 0..n {
            let before = pivots.last().map_or(0.0, |before: &f64| 1.0 / before);
            pivots.push(diagonal(i, n) + ratio - before);
        }
        let log_determinant =
            if ratio == 0.0 { 0.0 } else { pivots.iter().map(|pivot| pivot.ln()).sum() };
        Walk { ratio, pivots, log_determinant }
    }

    /// The inverse of the covariance times a vector.
    fn weighted(&self, vector: &[f64]) -> Vec<f64> {
        if self.ratio == 0.0 {
            return vector.to_vec();
        }
        let n = vector.len();
        let at = |i: usize| vector.get(i).copied().unwrap_or(0.0);
        let mut solved: Vec<f64> =
            (0..n).map(|i| diagonal(i, n) * at(i) - at(i.wrapping_sub(1)) - at(i + 1)).collect();
        for i in 1..n {
            solved[i] += solved[i - 1] / self.pivots[i - 1];
        }
        for i in (0..n).rev() {
            let after = solved.get(i + 1).copied().unwrap_or(0.0);
            solved[i] = (solved[i] + after) / self.pivots[i];
        }
        solved
    }
}

fn diagonal(i: usize, n: usize) -> f64 {
    if i + 1 == n { 1.0 } else { 2.0 }
}

/// The inverse of a positive definite matrix, and the logarithm of its determinant. `None` if a column
/// depends on the others.
fn inverse<const N: usize>(mut matrix: [[f64; N]; N]) -> Option<([[f64; N]; N], f64)> {
    const LEAST: f64 = 1e-10;
    let mut inverse = [[0.0; N]; N];
    (0..N).for_each(|i| inverse[i][i] = 1.0);
    let scale = matrix;
    let mut log_determinant = 0.0;
    for i in 0..N {
        let pivot = matrix[i][i];
        if pivot.is_nan() || pivot <= LEAST * scale[i][i] {
            return None;
        }
        log_determinant += pivot.ln();
        for j in 0..N {
            matrix[i][j] /= pivot;
            inverse[i][j] /= pivot;
        }
        let (row, inverse_row) = (matrix[i], inverse[i]);
        for k in (0..N).filter(|k| *k != i) {
            let factor = matrix[k][i];
            for j in 0..N {
                matrix[k][j] -= factor * row[j];
                inverse[k][j] -= factor * inverse_row[j];
            }
        }
    }
    Some((inverse, log_determinant))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(order: &str, host: impl Fn(usize) -> f64) -> (f64, (f64, f64)) {
        let noise =
            [0.01, -0.02, 0.015, -0.005, 0.02, -0.01, 0.0, -0.015, 0.005, 0.01, -0.01, 0.02];
        let value = |(i, side): (usize, char)| {
            let is_variant = side == 'b';
            (is_variant, host(i) + noise[i] + if is_variant { 0.1 } else { 0.0 })
        };
        let taken: Vec<Taken> = order.chars().enumerate().map(value).collect();
        let fit = DriftFit::new(&taken).unwrap();
        (fit.estimate(), fit.interval(0.05))
    }

    #[test]
    fn a_trend_does_not_look_like_a_difference_and_order_sets_the_width() {
        let width = |(_, (low, high)): (f64, (f64, f64))| high - low;
        for slope in [0.0, 0.05, -0.3] {
            let trend = |i: usize| slope * i as f64;
            for order in ["abababababab", "aaaaaabbbbbb", "abbaabbabaab"] {
                let (estimate, (low, high)) = fitted(order, trend);
                assert!(
                    low < 0.1 && 0.1 < high && (estimate - 0.1).abs() < 0.06,
                    "{order} {slope}"
                );
            }
        }
        let flat = |_: usize| 0.0;
        assert!(width(fitted("aaaaaabbbbbb", flat)) > 1.5 * width(fitted("abababababab", flat)));
        let walk = |i: usize| 0.1 * [0., 1., 0., 2., 3., 2., 1., 2., 4., 3., 2., 3.][i];
        assert!(width(fitted("aaaaaabbbbbb", walk)) > 0.3);
    }

    #[test]
    fn values_without_noise_or_of_one_side_have_no_fit() {
        let taken = |values: &[Taken]| DriftFit::new(values).is_none();
        assert!(taken(&[(false, 1.0), (true, 2.0), (false, 1.0)]));
        assert!(taken(&[(false, 1.0), (true, 2.0), (false, 1.0), (true, 2.0), (false, 1.0)]));
        assert!(taken(&[(false, 1.0), (false, 2.0), (false, 1.5), (false, 1.7), (false, 1.1)]));
    }
}
