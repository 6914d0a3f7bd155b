//! How the rows of one load grow with the number of CPUs: each as a power of that number. The
//! exponent is split without remainder into count and cost per event. The time of a queue for one
//! lock grows with an exponent of 1 or more; work that each operation does by itself, with 0.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Ledger, LedgerRow, PerOperation};

/// A row over CPU counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Growth {
    pub name: String,
    /// Time per operation in ns at each CPU count; 0 if a ledger has no such row.
    pub ns: Vec<PerOperation>,
    /// The power of the CPU count that the row follows. `None` if the row is 0 at some count, or if
    /// there is only one count.
    pub power: Option<Power>,
    /// The parts of the row, all of any of the ledgers.
    pub rows: Vec<Growth>,
}

/// An exponent by least squares over the logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Power {
    /// The exponent of the time per operation.
    pub of_time: f64,
    /// Half of its 95 % interval, from those of the times; `None` with fewer than two units.
    pub half: Option<f64>,
    /// The exponent of the events per operation; `None` if some ledger did not count them.
    pub of_count: Option<f64>,
    /// The exponent of the cost per event.
    pub of_cost: Option<f64>,
}

/// How the rows of a load grow, from its ledgers by CPU count.
pub fn growth(points: &[(u32, &Ledger)]) -> Growth {
    let roots: Vec<Option<&LedgerRow>> =
        points.iter().map(|(_, ledger)| Some(&ledger.root)).collect();
    row_growth(points, &roots)
}

fn row_growth<'a>(points: &[(u32, &'a Ledger)], rows: &[Option<&'a LedgerRow>]) -> Growth {
    let value = |(row, (_, ledger)): (&Option<&LedgerRow>, &(u32, &Ledger))| {
        row.map_or(PerOperation { mean: 0.0, half: None }, |row| ledger.ns_per_operation(row))
    };
    let ns: Vec<PerOperation> = rows.iter().zip(points).map(value).collect();
    // The order of the largest CPU count, then rows that only smaller counts have.
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().rev().flatten().flat_map(|row| &row.rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let part_growth = |name: &&str| {
        let part = |row: &Option<&'a LedgerRow>| row.and_then(|row| row.part(name));
        row_growth(points, &rows.iter().map(part).collect::<Vec<_>>())
    };
    Growth {
        name: rows.iter().flatten().next().map_or_else(String::new, |row| row.name.clone()),
        power: power(points, rows, &ns),
        ns,
        rows: names.iter().map(part_growth).collect(),
    }
}

fn power(
    points: &[(u32, &Ledger)],
    rows: &[Option<&LedgerRow>],
    ns: &[PerOperation],
) -> Option<Power> {
    let logs: Vec<f64> = points.iter().map(|(cpus, _)| f64::from(*cpus).ln()).collect();
    let middle = logs.iter().sum::<f64>() / logs.len() as f64;
    let square: f64 = logs.iter().map(|log| (log - middle).powi(2)).sum();
    let weights: Vec<f64> = logs.iter().map(|log| (log - middle) / square).collect();
    let slope = |values: &[f64]| {
        let has_slope = square > 0.0 && values.iter().all(|value| *value > 0.0);
        has_slope.then(|| weights.iter().zip(values).map(|(w, v)| w * v.ln()).sum::<f64>())
    };
    let of_time = slope(&ns.iter().map(|ns| ns.mean).collect::<Vec<_>>())?;
    let error = |(w, ns): (&f64, &PerOperation)| Some((w * ns.half? / ns.mean).powi(2));
    let errors: Option<Vec<f64>> = weights.iter().zip(ns).map(error).collect();
    let counts = rows.iter().map(|row| Some(row.as_ref()?.events.as_ref()?.per_operation().mean));
    let of_count = counts.collect::<Option<Vec<f64>>>().and_then(|counts| slope(&counts));
    Some(Power {
        of_time,
        half: errors.map(|errors| errors.iter().sum::<f64>().sqrt()),
        of_count,
        of_cost: of_count.map(|of_count| of_time - of_count),
    })
}

#[cfg(test)]
mod tests {
    use records::Obtained;

    use super::*;
    use crate::{LedgerUnit, RowEvents};

    /// A ledger of two units with `times` spins per operation, which take `ns` together.
    fn ledger(times: f64, ns: f64) -> Ledger {
        const OPERATIONS: u64 = 1_000_000;
        let in_units = |value: f64| vec![(value * OPERATIONS as f64) as u64; 2];
        let spinning =
            LedgerRow::new("spinning", Obtained::Exact, in_units(ns)).with_events(RowEvents {
                what: "spin".to_string(),
                counts: in_units(times),
                operations: vec![OPERATIONS; 2],
            });
        let user = LedgerRow::new("user", Obtained::Exact, in_units(100.0));
        let root = LedgerRow::from_parts("all", Obtained::Exact, vec![user, spinning]);
        let unit = |ns: &u64| LedgerUnit { operations: OPERATIONS, budget_ns: *ns, block: None };
        Ledger::of_runs(root.ns.iter().map(unit).collect(), root)
    }

    #[track_caller]
    fn check(ledgers: &[(u32, Ledger)], row: &str, expected: Option<(f64, Option<f64>)>) {
        let points: Vec<(u32, &Ledger)> = ledgers.iter().map(|(n, l)| (*n, l)).collect();
        let growth = growth(&points);
        let row = growth.rows.iter().find(|part| part.name == row).unwrap();
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let rounded = row.power.map(|p| (round(p.of_time), p.of_count.map(round)));
        assert_eq!(rounded, expected);
        if let Some(Power { of_time, of_count: Some(count), of_cost: Some(cost), .. }) = row.power {
            assert!((count + cost - of_time).abs() < 1e-12, "the parts add up");
        }
    }

    #[test]
    fn a_queue_grows_by_cost_and_not_by_count() {
        // Half of the operations wait, each of them for all other CPUs.
        let queue = [2, 4, 8].map(|n| (n, ledger(0.5, 20.0 * f64::from(n))));
        check(&queue, "spinning", Some((1.0, Some(0.0))));
        check(&queue, "user", Some((0.0, None)));
        let square = [1, 4].map(|n| (n, ledger(0.1 * f64::from(n), f64::from(n * n))));
        check(&square, "spinning", Some((2.0, Some(1.0))));
    }

    #[test]
    fn a_row_that_is_zero_at_some_count_follows_no_power() {
        check(&[(1, ledger(0.0, 0.0)), (2, ledger(1.0, 9.0))], "spinning", None);
        check(&[(2, ledger(1.0, 9.0))], "spinning", None);
    }

    #[test]
    fn uncertain_times_make_an_uncertain_power() {
        let mut points = [(1, ledger(1.0, 100.0)), (4, ledger(1.0, 400.0))];
        points[1].1.root.rows[1].ns = vec![300_000_000, 500_000_000];
        let borrowed: Vec<(u32, &Ledger)> = points.iter().map(|(n, l)| (*n, l)).collect();
        let power = growth(&borrowed).rows[1].power.unwrap();
        // Two units: 12.7 standard errors, each 100 ns of 400 ns, divided by the logarithm of 4.
        assert!((power.half.unwrap() - 12.706 * 0.25 / 4_f64.ln()).abs() < 1e-3, "{power:?}");
    }
}
