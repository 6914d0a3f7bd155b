//! The median of some values, and the range of the middle half of them.

use schemars::JsonSchema;
use serde::Serialize;

/// Quartiles of some values; JSON writes what is infinite or no number as null.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Quartiles {
    /// A quarter of the values lies below.
    #[schemars(with = "Option<f64>")]
    pub low: f64,
    /// Half of the values lie below.
    #[schemars(with = "Option<f64>")]
    pub median: f64,
    /// Three quarters of the values lie below.
    #[schemars(with = "Option<f64>")]
    pub high: f64,
    /// Number of values.
    pub n: usize,
}

impl Quartiles {
    /// The quartiles of values, which must be finite, by linear interpolation between neighbours.
    /// `None` for no values.
    pub fn from_values(values: &[f64]) -> Option<Quartiles> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |share: f64| {
            let rank = share * last as f64;
            let (below, above) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
            below + (above - below) * rank.fract()
        };
        Some(Quartiles {
            low: quantile(0.25),
            median: quantile(0.5),
            high: quantile(0.75),
            n: values.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_none_one_and_five() {
        assert_eq!(Quartiles::from_values(&[]), None);
        let single = Quartiles::from_values(&[3.0]).unwrap();
        assert_eq!((single.low, single.median, single.high), (3.0, 3.0, 3.0));
        let five = Quartiles::from_values(&[50.0, 10.0, 20.0, 40.0, 30.0]).unwrap();
        assert_eq!((five.low, five.median, five.high, five.n), (20.0, 30.0, 40.0, 5));
        assert_eq!(Quartiles::from_values(&[1.0, 2.0]).unwrap().low, 1.25);
    }
}
