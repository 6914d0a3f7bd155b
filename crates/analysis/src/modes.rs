//! Values in two modes: a layout of memory, a core shared or not. A mean then mostly says how many values
//! fell into which mode.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Spread, imbalance};

/// The values of two sides in two modes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Modes {
    /// Values in the higher mode: the baseline's and the variant's.
    pub higher: [usize; 2],
    /// All values: the baseline's and the variant's.
    pub values: [usize; 2],
    /// How far the modes are apart, on the scale of the change.
    pub apart: f64,
    /// Probability of such unequal shares of higher values if they do not differ.
    pub p: Option<f64>,
    /// Whether the change was judged within modes.
    pub judged_within: bool,
}

/// Values divided at their widest gap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InTwo {
    /// The middle of the gap.
    pub at: f64,
    pub gap: f64,
    /// The distance of the means.
    pub apart: f64,
    /// The standard deviation within both parts.
    pub spread: f64,
}

impl InTwo {
    /// Divides values so that each part has `each_min` or more. `None` if they are too few.
    pub fn new(values: &[f64], each_min: usize) -> Option<InTwo> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let ends = sorted.len().checked_sub(each_min).filter(|end| *end >= each_min)?;
        let gap = |at: &usize| sorted[*at] - sorted[at - 1];
        let widest = (each_min.max(1)..=ends).max_by(|a, b| gap(a).total_cmp(&gap(b)))?;
        let (low, high) = sorted.split_at(widest);
        let (a, b) = (Spread::from_values(low)?, Spread::from_values(high)?);
        let squares =
            |spread: &Spread| spread.stddev.unwrap_or(0.0).powi(2) * (spread.n as f64 - 1.0);
        Some(InTwo {
            at: (low[widest - 1] + high[0]) / 2.0,
            gap: high[0] - low[widest - 1],
            apart: b.mean - a.mean,
            spread: ((squares(&a) + squares(&b)) / (sorted.len() as f64 - 2.0)).sqrt(),
        })
    }
}

/// The modes of two sides, and how far each side's values are moved to lie in the lower one.
pub struct SplitSides {
    pub modes: Modes,
    /// Where each side is divided.
    at: [f64; 2],
}

impl Modes {
    /// Two modes that both sides have, where the change is judged by all values together.
    pub fn seen(sides: [&[f64]; 2]) -> Option<Modes> {
        SplitSides::new(sides).map(|split| Modes { judged_within: false, ..split.modes })
    }
}

/// Gap over the spread within modes: with as many values as people have, noise of one mode is seldom so far apart.
const GAP: f64 = 5.0;
/// Fewer values of a side do not show modes.
const VALUES_MIN: usize = 5;
/// Modes whose shares differ this surely are themselves the change.
const UNEQUAL: f64 = 0.05;

impl SplitSides {
    /// Finds two modes that both sides have, as far apart in one as in the other.
    pub fn new(sides: [&[f64]; 2]) -> Option<SplitSides> {
        if sides.iter().any(|side| side.len() < VALUES_MIN) {
            return None;
        }
        let [a, b] = [InTwo::new(sides[0], 1)?, InTwo::new(sides[1], 1)?];
        let spread = a.spread.max(b.spread);
        let is_split = |one: &InTwo| spread > 0.0 && one.gap > GAP * one.spread;
        if !is_split(&a) || !is_split(&b) || (a.apart - b.apart).abs() > 3.0 * spread {
            return None;
        }
        let at = [a.at, b.at];
        let higher = [0, 1].map(|side| sides[side].iter().filter(|x| **x > at[side]).count());
        let values = sides.map(<[f64]>::len);
        // One far value of each side is an outlier, no mode.
        let lower = values[0] + values[1] - higher[0] - higher[1];
        if (higher[0] + higher[1]).min(lower) < 3 {
            return None;
        }
        let p = imbalance(&higher, &values);
        let judged_within = p.is_none_or(|p| p >= UNEQUAL);
        let apart = f64::midpoint(a.apart, b.apart);
        Some(SplitSides { modes: Modes { higher, values, apart, p, judged_within }, at })
    }

    /// A value of a side as if it lay in the lower mode.
    pub fn lowered(&self, is_variant: bool, value: f64) -> f64 {
        let is_higher = value > self.at[usize::from(is_variant)];
        if is_higher { value - self.modes.apart } else { value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_both_sides_are_found_and_lone_far_values_are_none() {
        let check = |a: &[f64], b: &[f64], expected: Option<([usize; 2], bool)>| {
            let found =
                SplitSides::new([a, b]).map(|one| (one.modes.higher, one.modes.judged_within));
            assert_eq!(found, expected, "{a:?} {b:?}");
        };
        let a = [0.01, 0.0, 0.10, 0.005, 0.11, -0.01];
        let b = [0.06, 0.05, 0.16, 0.055, 0.045, 0.15];
        check(&a, &b, Some(([2, 2], true)));
        check(&a, &[0.01, 0.02, 0.03, 0.04, 0.05], None);
        check(&[0.0, 0.01, 0.02, 0.01, 0.5], &[0.0, 0.01, 0.02, 0.01, 0.5], None);
        let low: Vec<f64> = (0..12).map(|i| 0.001 * f64::from(i % 4)).collect();
        let mut mostly_high: Vec<f64> = low.iter().map(|x| x + 0.1).collect();
        let mut mostly_low = low.clone();
        mostly_low[0] = 0.1;
        mostly_high[0] = 0.0;
        check(&mostly_low, &mostly_high, Some(([1, 11], false)));
        let split = SplitSides::new([&a, &b]).unwrap();
        assert!((split.lowered(true, 0.16) - 0.06).abs() < 0.01);
        assert_eq!(split.lowered(true, 0.06), 0.06);
    }
}
