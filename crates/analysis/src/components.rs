//! Where variance comes from when units are nested (boots, mounts in them, runs in these).
//! Analysis-of-variance estimators, which for units of unequal size are those of Henderson's
//! first method.
//!
//! Source: S. R. Searle, G. Casella, C. E. McCulloch, "Variance Components", 1992.

use std::collections::BTreeMap;

/// One level of nesting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Component {
    /// Units of it.
    pub units: usize,
    /// Variance between units of this level within one of the level above; an estimate below
    /// 0 is 0.
    pub variance: f64,
}

/// Variance at each level, the outermost first and that of single values last. `values` are
/// (unit at each level but the last, outermost first; value): `([boot, mount], rate)` gives
/// three components. Numbers of units need to differ only within the unit above. `None`
/// where some level has no repetition, or the depths differ.
pub fn components(values: &[(Vec<u32>, f64)]) -> Option<Vec<Component>> {
    let depth = values.first()?.0.len();
    if values.iter().any(|(path, value)| path.len() != depth || !value.is_finite()) {
        return None;
    }
    let levels: Vec<Vec<Unit>> = (0..=depth + 1).map(|level| units(values, level)).collect();
    // mean_square[l] = sum over m >= l of weight[l][m] * variance[m], for levels below the
    // whole; solved from the innermost outwards.
    let mut found: Vec<Component> = Vec::new();
    for level in (1..=depth + 1).rev() {
        let freedom = levels[level].len().checked_sub(levels[level - 1].len());
        let freedom = freedom.filter(|freedom| *freedom > 0)? as f64;
        let squares = sum_of_squares(&levels[level]) - sum_of_squares(&levels[level - 1]);
        let weight = |inner: usize| {
            let of = |outer: usize| concentration(values, &levels[inner], outer, inner);
            (of(level) - of(level - 1)) / freedom
        };
        // `found` has the innermost first.
        let inner = (level + 1..=depth + 1).rev().zip(&found);
        let explained: f64 = inner.map(|(inner, c)| weight(inner) * c.variance).sum();
        let variance = ((squares / freedom - explained) / weight(level)).max(0.0);
        found.push(Component { units: levels[level].len(), variance });
    }
    found.reverse();
    Some(found)
}

/// The values of one unit, together.
struct Unit {
    path: Vec<usize>,
    n: f64,
    sum: f64,
}

/// The units of a level: 0 is the whole, the last are single values.
fn units(values: &[(Vec<u32>, f64)], level: usize) -> Vec<Unit> {
    let mut units: BTreeMap<Vec<usize>, (f64, f64)> = BTreeMap::new();
    for (index, (path, value)) in values.iter().enumerate() {
        let whole = path.iter().map(|unit| *unit as usize).chain([index]);
        let unit = units.entry(whole.take(level).collect()).or_default();
        *unit = (unit.0 + 1.0, unit.1 + value);
    }
    units.into_iter().map(|(path, (n, sum))| Unit { path, n, sum }).collect()
}

fn sum_of_squares(units: &[Unit]) -> f64 {
    units.iter().map(|unit| unit.sum * unit.sum / unit.n).sum()
}

/// Sum over inner units of n², each over the size of the outer unit it lies in.
fn concentration(values: &[(Vec<u32>, f64)], inner: &[Unit], outer: usize, level: usize) -> f64 {
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
        let found = components(&values).unwrap();
        let variances: Vec<f64> = found.iter().map(|c| c.variance).collect();
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
    fn two_levels_of_nesting_are_told_apart() {
        // Boots differ by 100, mounts by ± 10, runs by ± 1, as exact effects.
        let mut values = Vec::new();
        for (boot, far) in [(0, -50.0), (1, 50.0)] {
            for (mount, middle) in [(0, -10.0), (1, 10.0)] {
                values.extend([-1.0, 1.0].map(|near| (vec![boot, mount], far + middle + near)));
            }
        }
        let found = components(&values).unwrap();
        let variances: Vec<f64> = found.iter().map(|c| c.variance).collect();
        // MS: runs 8/4 = 2, mounts 800/2 = 400, boots 20000.
        let expected = [(20_000.0 - 400.0) / 4.0, (400.0 - 2.0) / 2.0, 2.0];
        assert!(variances.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        assert_eq!(found.iter().map(|c| c.units).collect::<Vec<_>>(), [2, 4, 8]);
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
