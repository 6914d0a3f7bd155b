//! Numbers of a ledger: one unit and as many decimals down a column, so that one can add up by
//! eye.

use text::quantity::{fixed, signed};

/// The unit of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Its name.
    pub name: &'static str,
    ns: f64,
    decimals: usize,
}

impl Unit {
    /// The unit in which `total_ns` has three to six digits before the point, and enough
    /// decimals for four in all.
    pub fn for_total(total_ns: f64) -> Unit {
        let units = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
        let fits = units.into_iter().find(|(_, ns)| total_ns >= 100.0 * ns);
        let (name, ns) = fits.unwrap_or(("ns", 1.0));
        let decimals = match total_ns / ns {
            total if total < 100.0 => 2,
            total if total < 10_000.0 => 1,
            _ => 0,
        };
        Unit { name, ns, decimals }
    }

    /// A value without its unit.
    pub fn text(&self, ns: f64) -> String {
        fixed(ns / self.ns, self.decimals)
    }

    /// A value with its sign.
    pub fn signed(&self, ns: f64) -> String {
        signed(ns / self.ns, self.decimals)
    }
}

/// How often, as people read it.
pub fn times(per_operation: f64) -> String {
    match per_operation {
        0.0 => "0".to_string(),
        n if n >= 100.0 => format!("{n:.0}"),
        n if n >= 0.01 => format!("{n:.3}"),
        n => format!("{n:.1e}"),
    }
}

/// A share of the whole.
pub fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_unit_that_fits_its_total() {
        let check = |total: f64, value: f64, expected: &str| {
            let unit = Unit::for_total(total);
            assert_eq!(format!("{} {}", unit.text(value), unit.name), expected);
        };
        check(91.25, 12.3456, "12.35 ns");
        check(2531.0, 39.94, "39.9 ns");
        check(61_000.0, 1234.5, "1234 ns");
        check(250_000.0, 1234.5, "1.2 us");
        check(3.1e9, 1e9, "1000.0 ms");
    }

    #[test]
    fn times_have_three_decimals_or_an_exponent() {
        assert_eq!(
            [0.0, 2.0, 0.2247, 0.0001, 1234.5].map(times),
            ["0", "2.000", "0.225", "1.0e-4", "1234"]
        );
    }
}
