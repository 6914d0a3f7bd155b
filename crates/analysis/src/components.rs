//! Variance components of nested units (boots, mounts within boots, runs within mounts), by
//! analysis of variance. For units of unequal size, these estimators are Henderson's first method.
//!
//! Source: S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components", 1992.

use std::collections::BTreeMap;

/// One level of nesting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Component {
    /// Number of units at this level.
    pub units: usize,
    /// Variance between units of this level within one unit of the level above. A negative
    /// estimate is reported as 0.
    pub variance: f64,
}

/// Variance at each level, the outermost first and that of single values last. Each of `values` has
/// its path, the unit at each level but the last, outermost first: `([boot, mount], rate)` gives
/// three components. Numbers of units need to be unique only within the unit above. `None` if
/// some level has no repetition, or if the depths differ.
pub fn components(values: &[(Vec<u32>, f64)]) -> Option<Vec<Component>> {
    let depth = values.first()?.0.len();
    if values.iter().any(|(path, value)| path.len() != depth || !value.is_finite()) {
        return None;
    }
    let levels: Vec<Vec<NestedUnit>> = (0..=depth + 1).map(|level| units(values, level)).collect();
    // mean_square[l] = sum over m >= l of weight[l][m] * variance[m], for levels below the
    // whole; solved from the innermost outwards.
    let mut innermost_first: Vec<Component> = Vec::new();
    for level in (1..=depth + 1).rev() {
        let freedom = levels[level].len().checked_sub(levels[level - 1].len());
        let freedom = freedom.filter(|freedom| *freedom > 0)? as f64;
        let squares = sum_of_squares(&levels[level]) - sum_of_squares(&levels[level - 1]);
        let weight = |inner: usize| {
            let within = |outer: usize| concentration(values, &levels[inner], outer, inner);
            (within(level) - within(level - 1)) / freedom
        };
        let inner = (level + 1..=depth + 1).rev().zip(&innermost_first);
        let explained: f64 = inner.map(|(inner, c)| weight(inner) * c.variance).sum();
        let variance = ((squares / freedom - explained) / weight(level)).max(0.0);
        innermost_first.push(Component { units: levels[level].len(), variance });
    }
    innermost_first.reverse();
    Some(innermost_first)
}

/// The values of one unit, summed.
struct NestedUnit {
    path: Vec<usize>,
    n: f64,
    sum: f64,
}

/// The units of a level. Level 0 is all values in one unit; at the last level, each value is a unit.
fn units(values: &[(Vec<u32>, f64)], level: usize) -> Vec<NestedUnit> {
    let mut units: BTreeMap<Vec<usize>, (f64, f64)> = BTreeMap::new();
    for (index, (path, value)) in values.iter().enumerate() {
        let full_path = path.iter().map(|unit| *unit as usize).chain([index]);
        let unit = units.entry(full_path.take(level).collect()).or_default();
        *unit = (unit.0 + 1.0, unit.1 + value);
    }
    units.into_iter().map(|(path, (n, sum))| NestedUnit { path, n, sum }).collect()
}

fn sum_of_squares(units: &[NestedUnit]) -> f64 {
    units.iter().map(|unit| unit.sum * unit.sum / unit.n).sum()
}

/// Sum over inner units of n², each divided by the size of the outer unit that contains it.
fn concentration(
    values: &[(Vec<u32>, f64)],
    inner: &[NestedUnit],
    outer: usize,
    level: usize,
) -> f64 {
    let outer = outer.min(level);
    let sizes: BTreeMap<Vec<usize>, f64> =
        units(values, outer).into_iter().map(|unit| (unit.path, unit.n)).collect();
    inner.iter().map(|unit| unit.n * unit.n / sizes[&unit.path[..outer]]).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[(&[u32], f64)], expected: &[f64]) {
        let values: Vec<_> = values.iter().map(|(path, value)| (path.to_vec(), *value)).collect();
        let components = components(&values).unwrap();
        let variances: Vec<f64> = components.iter().map(|c| c.variance).collect();
        let near = variances.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near && variances.len() == expected.len(), "{variances:?}");
    }

    #[test]
    fn balanced_units_by_the_formula() {
        // Means 2, 6, 7; within each ± 1: MS within 2, MS between 2 * 7 = 14.
        check(
            &[(&[0], 1.0), (&[0], 3.0), (&[1], 5.0), (&[1], 7.0), (&[2], 6.0), (&[2], 8.0)],
            &[(14.0 - 2.0) / 2.0, 2.0],
        );
    }

    #[test]
    fn unbalanced_units_by_the_formula() {
        // Sizes 1 and 3, n0 = (4 - 10/4) / 1 = 1.5; SS between 4 * 1/4 * 3/4 * 36 = 27.
        check(&[(&[0], 0.0), (&[1], 5.0), (&[1], 6.0), (&[1], 7.0)], &[(27.0 - 1.0) / 1.5, 1.0]);
    }

    #[test]
    fn two_levels_of_nesting_are_separated() {
        // Boots differ by 100, mounts by ± 10, runs by ± 1, as exact effects.
        let mut values = Vec::new();
        for (boot, far) in [(0, -50.0), (1, 50.0)] {
            for (mount, middle) in [(0, -10.0), (1, 10.0)] {
                values.extend([-1.0, 1.0].map(|near| (vec![boot, mount], far + middle + near)));
            }
        }
        let components = components(&values).unwrap();
        let variances: Vec<f64> = components.iter().map(|c| c.variance).collect();
        // MS: runs 8/4 = 2, mounts 800/2 = 400, boots 20000.
        let expected = [(20_000.0 - 400.0) / 4.0, (400.0 - 2.0) / 2.0, 2.0];
        assert!(
            variances.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9),
            "{components:?}"
        );
        assert_eq!(components.iter().map(|c| c.units).collect::<Vec<_>>(), [2, 4, 8]);
    }

    #[test]
    fn equal_units_have_no_variance_and_no_repetition_has_no_estimate() {
        check(&[(&[0], 1.0), (&[0], 3.0), (&[1], 3.0), (&[1], 1.0)], &[0.0, 2.0]);
        check(&[(&[], 1.0), (&[], 3.0)], &[2.0]);
        assert_eq!(components(&[]), None);
        assert_eq!(components(&[(vec![0], 1.0), (vec![1], 2.0)]), None);
        assert_eq!(components(&[(vec![0], 1.0), (vec![0], 2.0)]), None);
        assert_eq!(components(&[(vec![0], 1.0), (vec![0, 1], 2.0)]), None);
    }
}
