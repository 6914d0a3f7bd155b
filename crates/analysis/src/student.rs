//! Student's t for a few values. If there are too few values for ranks, normality must be assumed,
//! and the caller reports that. For paired differences, and in Welch's form for two samples.
//!
//! Sources: "Student", "The Probable Error of a Mean", Biometrika 6, 1908; B. L. Welch, "The
//! Generalization of 'Student's' Problem when Several Different Population Variances are
//! Involved", Biometrika 34, 1947.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::Spread;

/// An estimate with its standard error, and the degrees of freedom of the error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Student {
    /// The mean, or the difference of two means.
    pub estimate: f64,
    /// Standard error of the estimate, above 0.
    pub error: f64,
    /// Degrees of freedom; in Welch's form not a whole number.
    pub freedom: f64,
}

impl Student {
    /// The mean of paired differences. `None` if no error can be estimated: for fewer than two
    /// values, and for values that are all equal, because normal noise never is.
    pub fn paired(differences: &[f64]) -> Option<Student> {
        let spread = Spread::from_values(differences)?;
        let error = deviation(&spread)? / (spread.n as f64).sqrt();
        Student { estimate: spread.mean, error, freedom: spread.n as f64 - 1.0 }.checked()
    }

    /// The mean of `b` minus the mean of `a`, by Welch. `None` if no error can be estimated: if a
    /// side has fewer than two values, and if the values of each side are all equal.
    pub fn welch(a: &[f64], b: &[f64]) -> Option<Student> {
        let (a, b) = (Spread::from_values(a)?, Spread::from_values(b)?);
        if deviation(&a).is_none() && deviation(&b).is_none() {
            return None;
        }
        let part = |side: &Spread| Some(side.stddev?.powi(2) / side.n as f64);
        let (part_a, part_b) = (part(&a)?, part(&b)?);
        let sum = part_a + part_b;
        let term = |part: f64, side: &Spread| part * part / (side.n as f64 - 1.0);
        let freedom = sum * sum / (term(part_a, &a) + term(part_b, &b));
        Student { estimate: b.mean - a.mean, error: sum.sqrt(), freedom }.checked()
    }

    /// The interval that misses with probability `alpha`.
    pub fn interval(&self, alpha: f64) -> Option<(f64, f64)> {
        let half = quantile(self.freedom, alpha)? * self.error;
        Some((self.estimate - half, self.estimate + half))
    }

    /// Probability of an estimate this far from 0, or farther, if nothing is different.
    pub fn p(&self) -> f64 {
        let t = (self.estimate / self.error).abs();
        distribution(self.freedom).map_or(1.0, |law| (2.0 * law.sf(t)).min(1.0))
    }

    /// This estimate, or `None` if sums of huge values have become infinite or NaN, or if there is no error.
    pub fn checked(self) -> Option<Student> {
        let numbers = [self.estimate, self.error, self.freedom];
        (numbers.iter().all(|x| x.is_finite()) && self.error > 0.0).then_some(self)
    }
}

/// The distance from 0, in standard errors, that is exceeded with probability `alpha`. `None` unless
/// `alpha` is a probability.
pub fn quantile(freedom: f64, alpha: f64) -> Option<f64> {
    // Nobody is surer of normality than 1e-12.
    if !(alpha > 1e-12 && alpha < 1.0) {
        return None;
    }
    let law = distribution(freedom)?;
    // Bisection: the inverse that statrs has is wrong, and takes minutes, below 1e-7.
    let (mut low, mut high) = (0.0, 1.0);
    while 2.0 * law.sf(high) > alpha {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if 2.0 * law.sf(middle) > alpha { low = middle } else { high = middle }
    }
    Some(high)
}

fn distribution(freedom: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, freedom).ok()
}

/// The standard deviation, if the values differ by more than rounding errors.
fn deviation(spread: &Spread) -> Option<f64> {
    let rounding = 1e-12 * spread.min.abs().max(spread.max.abs());
    spread.stddev.filter(|_| spread.max - spread.min > rounding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-3 * b.abs(), "{a} is not {b}");
    }

    #[test]
    fn quantiles_are_those_of_printed_tables() {
        for (freedom, alpha, expected) in [
            (3.0, 0.05, 3.182),
            (4.0, 0.01, 4.604),
            (6.0, 0.10, 1.943),
            (59.0, 0.05, 2.001),
            (5.0, 0.001, 6.869),
        ] {
            near(quantile(freedom, alpha).unwrap(), expected);
        }
        assert_eq!(quantile(5.0, 0.0), None);
        for freedom in [1.0, 2.5, 3.0, 7.0, 59.0, 10_000.0] {
            for exponent in 1..12 {
                let alpha = 10_f64.powi(-exponent);
                let far =
                    Student { estimate: quantile(freedom, alpha).unwrap(), error: 1.0, freedom };
                near(far.p(), alpha);
            }
        }
        assert_eq!(quantile(5.0, f64::NAN), None);
    }

    #[test]
    fn students_own_sleep_data_come_out() {
        // Additional hours of sleep by two drugs, Biometrika 1908: t = 4.062 with 9 degrees.
        let differences = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4];
        let student = Student::paired(&differences).unwrap();
        near(student.estimate / student.error, 4.0621);
        near(student.p(), 0.002833);
        let (low, high) = student.interval(0.05).unwrap();
        near(low, 0.7001);
        near(high, 2.4599);
    }

    #[test]
    fn welch_on_the_same_data_unpaired() {
        let a = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let b = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let student = Student::welch(&a, &b).unwrap();
        near(student.freedom, 17.776);
        near(student.p(), 0.07939);
    }

    #[test]
    fn equal_values_and_overflows_have_no_error() {
        assert_eq!(Student::paired(&[]), None);
        assert_eq!(Student::paired(&[1.0]), None);
        assert_eq!(Student::paired(&[2.5; 5]), None);
        assert_eq!(Student::paired(&[1.0, 1.0 + 1e-15, 1.0]), None);
        assert_eq!(Student::paired(&[f64::MAX, -f64::MAX, 1.0]), None);
        assert_eq!(Student::welch(&[1.0; 4], &[2.0; 4]), None);
        assert!(Student::welch(&[1.0; 4], &[2.0, 2.1, 2.2, 2.0]).is_some());
    }
}
