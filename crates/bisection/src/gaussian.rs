//! Unknown numbers with normal priors, and what observed sums of them say: by information matrices, which are small here.

/// A normal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    pub mean: f64,
    pub variance: f64,
}

impl Normal {
    /// Two independent pieces of knowledge of one number.
    pub fn and(self, other: Normal) -> Normal {
        if !self.variance.is_finite() {
            return other;
        }
        if !other.variance.is_finite() {
            return self;
        }
        let variance = 1.0 / (1.0 / self.variance + 1.0 / other.variance);
        let mean = variance * (self.mean / self.variance + other.mean / other.variance);
        Normal { mean, variance }
    }

    /// A number that is this one and a disturbance of this variance.
    pub fn disturbed(self, variance: f64) -> Normal {
        Normal { variance: self.variance + variance, ..self }
    }

    /// Nothing is known.
    pub fn unknown() -> Normal {
        Normal { mean: 0.0, variance: f64::INFINITY }
    }
}

/// An observed sum of unknowns.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The unknowns, each with its factor.
    pub parts: Vec<(usize, f64)>,
    pub value: f64,
    /// Variance of the noise.
    pub variance: f64,
}

/// What observations say of unknowns.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The logarithm of the probability density of what was observed.
    pub log_likelihood: f64,
    pub means: Vec<f64>,
    /// The lower triangle of the Cholesky factor of the information.
    factor: Vec<f64>,
}

/// Fits unknowns with these priors to observations.
pub fn fitted(priors: &[Normal], observed: &[Observed]) -> Fitted {
    let n = priors.len();
    let mut information = vec![0.0; n * n];
    let mut vector = vec![0.0; n];
    let mut log = 0.0;
    for (at, prior) in priors.iter().enumerate() {
        information[at * n + at] = 1.0 / prior.variance;
        log -= 0.5 * prior.variance.ln();
    }
    for one in observed {
        let expected: f64 = one.parts.iter().map(|(at, factor)| factor * priors[*at].mean).sum();
        let value = one.value - expected;
        log -=
            0.5 * (std::f64::consts::TAU * one.variance).ln() + value * value / one.variance / 2.0;
        for (row, of_row) in &one.parts {
            vector[*row] += of_row * value / one.variance;
            for (column, of_column) in &one.parts {
                information[row * n + column] += of_row * of_column / one.variance;
            }
        }
    }
    let factor = cholesky(information, n);
    log -= (0..n).map(|at| factor[at * n + at].ln()).sum::<f64>();
    let half = forward(&factor, vector, n);
    log += 0.5 * half.iter().map(|x| x * x).sum::<f64>();
    let mut means = backward(&factor, half, n);
    means.iter_mut().zip(priors).for_each(|(mean, prior)| *mean += prior.mean);
    Fitted { log_likelihood: log, means, factor }
}

impl Fitted {
    /// What is known of one unknown.
    pub fn of(&self, at: usize) -> Normal {
        let n = self.means.len();
        let mut unit = vec![0.0; n];
        unit[at] = 1.0;
        let half = forward(&self.factor, unit, n);
        Normal { mean: self.means[at], variance: half.iter().map(|x| x * x).sum() }
    }
}

fn cholesky(mut matrix: Vec<f64>, n: usize) -> Vec<f64> {
    for column in 0..n {
        for row in column..n {
            let sum: f64 = (0..column).map(|k| matrix[row * n + k] * matrix[column * n + k]).sum();
            let rest = matrix[row * n + column] - sum;
            matrix[row * n + column] =
                if row == column { rest.sqrt() } else { rest / matrix[column * n + column] };
        }
    }
    matrix
}

fn forward(factor: &[f64], mut vector: Vec<f64>, n: usize) -> Vec<f64> {
    for row in 0..n {
        let sum: f64 = (0..row).map(|k| factor[row * n + k] * vector[k]).sum();
        vector[row] = (vector[row] - sum) / factor[row * n + row];
    }
    vector
}

fn backward(factor: &[f64], mut vector: Vec<f64>, n: usize) -> Vec<f64> {
    for row in (0..n).rev() {
        let sum: f64 = (row + 1..n).map(|k| factor[k * n + row] * vector[k]).sum();
        vector[row] = (vector[row] - sum) / factor[row * n + row];
    }
    vector
}

#[cfg(test)]
mod tests {
    use super::{Normal, Observed, fitted};

    #[test]
    fn a_sum_and_a_part_tell_the_other_part() {
        let wide = Normal { mean: 1.0, variance: 100.0 };
        let observed = |parts: &[(usize, f64)], value| Observed {
            parts: parts.to_vec(),
            value,
            variance: 0.01,
        };
        let fit = fitted(
            &[wide, wide],
            &[observed(&[(0, 1.0), (1, 1.0)], 5.0), observed(&[(0, 1.0)], 2.0)],
        );
        let of = [fit.of(0), fit.of(1)];
        assert!((of[0].mean - 2.0).abs() < 0.01 && (of[1].mean - 3.0).abs() < 0.01, "{of:?}");
        assert!(
            (of[0].variance - 0.01).abs() < 1e-4 && (of[1].variance - 0.02).abs() < 1e-4,
            "{of:?}"
        );
    }

    #[test]
    fn the_likelihood_of_one_observation_is_that_of_prior_and_noise_together() {
        let prior = Normal { mean: 0.5, variance: 3.0 };
        let observed = Observed { parts: vec![(0, 2.0)], value: 4.0, variance: 1.0 };
        let variance = 4.0 * 3.0 + 1.0;
        let expected =
            -0.5 * (std::f64::consts::TAU * variance).ln() - 3.0_f64.powi(2) / variance / 2.0;
        assert!((fitted(&[prior], &[observed]).log_likelihood - expected).abs() < 1e-12);
    }
}
