//! Mean and spread of values, usually one for each run.

use schemars::JsonSchema;
use serde::Serialize;

/// Mean and spread of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spread {
    /// Number of values.
    pub n: usize,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (divided by n - 1); absent for one value.
    pub stddev: Option<f64>,
    /// Lowest value.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Highest value.
    pub max: f64,
}

impl Spread {
    /// The spread of values, which must be finite. `None` for no values.
    pub fn from_values(values: &[f64]) -> Option<Spread> {
        let n = values.len();
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        // Of equal values the sum may round to a mean beside them, and to a deviation.
        let mean = (values.iter().sum::<f64>() / n as f64).max(min).min(max);
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let stddev = (n > 1).then(|| (squares / (n - 1) as f64).sqrt());
        let median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        Some(Spread { n, mean, stddev, min, median, max })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn spread_of_none_one_and_four() {
        assert_eq!(Spread::from_values(&[]), None);
        let single = Spread::from_values(&[3.0]).unwrap();
        assert_eq!((single.mean, single.stddev, single.median), (3.0, None, 3.0));
        let equal = Spread::from_values(&[0.1, 0.1, 0.1]).unwrap();
        assert_eq!((equal.mean, equal.stddev), (0.1, Some(0.0)));
        let four = Spread::from_values(&[4.0, 2.0, 8.0, 6.0]).unwrap();
        assert_eq!((four.n, four.mean, four.median, four.min, four.max), (4, 5.0, 5.0, 2.0, 8.0));
        assert!((four.stddev.unwrap() - (20.0_f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
