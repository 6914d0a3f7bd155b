//! The middle of some values, and where the middle half of them lies.

use serde::Serialize;

/// Quartiles of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    /// A quarter of the values is below it.
    pub low: f64,
    /// Half of them.
    pub median: f64,
    /// Three quarters.
    pub high: f64,
    /// How many values.
    pub n: usize,
}

impl Quartiles {
    /// Of these values, by linear interpolation between the two beside each; nothing for none.
    /// Values must be finite.
    pub fn of(values: &[f64]) -> Option<Quartiles> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let at = |share: f64| {
            let place = share * last as f64;
            let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Quartiles { low: at(0.25), median: at(0.5), high: at(0.75), n: values.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_none_one_and_five() {
        assert_eq!(Quartiles::of(&[]), None);
        let one = Quartiles::of(&[3.0]).unwrap();
        assert_eq!((one.low, one.median, one.high), (3.0, 3.0, 3.0));
        let five = Quartiles::of(&[50.0, 10.0, 20.0, 40.0, 30.0]).unwrap();
        assert_eq!((five.low, five.median, five.high, five.n), (20.0, 30.0, 40.0, 5));
        assert_eq!(Quartiles::of(&[1.0, 2.0]).unwrap().low, 1.25);
    }
}
