//! How the rows of one load grow with the number of CPUs: each as a power of it, split without
//! remainder into how often and how dear. Time that a queue for one lock takes grows as the CPUs
//! to the first power or more; what each operation does by itself, to the power 0.

use serde::Serialize;

use super::{Ledger, PerOperation, Row};

/// A row over CPU counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// What it is.
    pub name: String,
    /// Time per operation in ns at each CPU count; 0 where a ledger has no such row.
    pub ns: Vec<PerOperation>,
    /// The power of the CPU count that it follows; nothing where it is 0 at some count, or there
    /// is one count.
    pub power: Option<Power>,
    /// What it consists of: all rows of any of the ledgers.
    pub rows: Vec<Growth>,
}

/// A power by least squares over the logarithms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Power {
    /// The power.
    pub of_time: f64,
    /// Half of its 95 % interval, by those of the times; nothing with fewer than two units.
    pub half: Option<f64>,
    /// The part that comes of how often; nothing where a ledger did not count.
    pub of_count: Option<f64>,
    /// The part that comes of how dear.
    pub of_cost: Option<f64>,
}

/// The ledgers of one load by their CPU counts.
pub fn growth(points: &[(u32, &Ledger)]) -> Growth {
    let roots: Vec<Option<&Row>> = points.iter().map(|(_, ledger)| Some(&ledger.root)).collect();
    of(points, &roots)
}

fn of<'a>(points: &[(u32, &'a Ledger)], rows: &[Option<&'a Row>]) -> Growth {
    let value = |(row, (_, ledger)): (&Option<&Row>, &(u32, &Ledger))| {
        row.map_or(PerOperation { mean: 0.0, half: None }, |row| ledger.ns_per_operation(row))
    };
    let ns: Vec<PerOperation> = rows.iter().zip(points).map(value).collect();
    // The order of the largest count, then what only smaller ones have.
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().rev().flatten().flat_map(|row| &row.rows) {
        if !names.contains(&row.name.as_str()) {
            names.push(&row.name);
        }
    }
    let part = |name: &&str| {
        let of_each = |row: &Option<&'a Row>| row.and_then(|row| row.part(name));
        of(points, &rows.iter().map(of_each).collect::<Vec<_>>())
    };
    Growth {
        name: rows.iter().flatten().next().map_or_else(String::new, |row| row.name.clone()),
        power: power(points, rows, &ns),
        ns,
        rows: names.iter().map(part).collect(),
    }
}

fn power(points: &[(u32, &Ledger)], rows: &[Option<&Row>], ns: &[PerOperation]) -> Option<Power> {
    let logs: Vec<f64> = points.iter().map(|(cpus, _)| f64::from(*cpus).ln()).collect();
    let middle = logs.iter().sum::<f64>() / logs.len() as f64;
    let square: f64 = logs.iter().map(|log| (log - middle).powi(2)).sum();
    let weights: Vec<f64> = logs.iter().map(|log| (log - middle) / square).collect();
    let slope = |values: &[f64]| {
        let is_possible = square > 0.0 && values.iter().all(|value| *value > 0.0);
        is_possible.then(|| weights.iter().zip(values).map(|(w, v)| w * v.ln()).sum::<f64>())
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
    use crate::ledger::{Events, Unit};

    /// A ledger of two units in which spinning happens `times` an operation and takes `ns`.
    fn ledger(times: f64, ns: f64) -> Ledger {
        const OPERATIONS: u64 = 1_000_000;
        let in_units = |value: f64| vec![(value * OPERATIONS as f64) as u64; 2];
        let spinning = Row::new("spinning", Obtained::Exact, in_units(ns)).with_events(Events {
            what: "spin".to_string(),
            counts: in_units(times),
            operations: vec![OPERATIONS; 2],
        });
        let user = Row::new("user", Obtained::Exact, in_units(100.0));
        let root = Row::sum_of("all", Obtained::Exact, vec![user, spinning]);
        let unit = |ns: &u64| Unit { operations: OPERATIONS, budget_ns: *ns, block: None };
        Ledger { units: root.ns.iter().map(unit).collect(), root }
    }

    #[track_caller]
    fn check(ledgers: &[(u32, Ledger)], row: &str, expected: Option<(f64, Option<f64>)>) {
        let points: Vec<(u32, &Ledger)> = ledgers.iter().map(|(n, l)| (*n, l)).collect();
        let growth = growth(&points);
        let row = growth.rows.iter().find(|part| part.name == row).unwrap();
        let round = |value: f64| (value * 1000.0).round() / 1000.0;
        let found = row.power.map(|p| (round(p.of_time), p.of_count.map(round)));
        assert_eq!(found, expected);
        if let Some(Power { of_time, of_count: Some(count), of_cost: Some(cost), .. }) = row.power {
            assert!((count + cost - of_time).abs() < 1e-12, "the parts add up");
        }
    }

    #[test]
    fn a_queue_grows_by_its_length_and_not_by_how_often() {
        // Half of the operations wait, each for all other CPUs.
        let queue = [2, 4, 8].map(|n| (n, ledger(0.5, 20.0 * f64::from(n))));
        check(&queue, "spinning", Some((1.0, Some(0.0))));
        check(&queue, "user", Some((0.0, None)));
        let square = [1, 4].map(|n| (n, ledger(0.1 * f64::from(n), f64::from(n * n))));
        check(&square, "spinning", Some((2.0, Some(1.0))));
    }

    #[test]
    fn what_is_nothing_somewhere_follows_no_power() {
        check(&[(1, ledger(0.0, 0.0)), (2, ledger(1.0, 9.0))], "spinning", None);
        check(&[(2, ledger(1.0, 9.0))], "spinning", None);
    }

    #[test]
    fn uncertain_times_make_an_uncertain_power() {
        let mut points = [(1, ledger(1.0, 100.0)), (4, ledger(1.0, 400.0))];
        points[1].1.root.rows[1].ns = vec![300_000_000, 500_000_000];
        let borrowed: Vec<(u32, &Ledger)> = points.iter().map(|(n, l)| (*n, l)).collect();
        let power = growth(&borrowed).rows[1].power.unwrap();
        // Two units: 12.7 standard errors of 100 ns, of 400 ns, over the logarithm of 4.
        assert!((power.half.unwrap() - 12.706 * 0.25 / 4_f64.ln()).abs() < 1e-3, "{power:?}");
    }
}
