//! Causes: the rows that make a difference, the largest first. A row is one only if its change is
//! beyond chance for as many rows as were looked at, and large enough to matter.

use serde::Serialize;

use super::difference::{Change, Split};

/// What of a difference one row makes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Names of the rows from below the root down to the cause.
    pub path: Vec<String>,
    /// What it adds per operation.
    pub own_ns: f64,
    /// The row.
    pub change: Change,
    /// How sure: the chance of as large a change somewhere in the ledger were nothing different.
    pub p: f64,
}

/// The chance that a difference of equals has a cause.
const ALPHA: f64 = 0.01;
/// Smaller changes, as a share of an operation, are not worth a sentence.
const SHARE_MIN: f64 = 0.01;
/// A part that makes so much of its parent's change is the better name for it.
const PART_MIN: f64 = 0.6;

/// The causes of a difference.
pub fn causes(difference: &Change) -> Vec<Cause> {
    let long = difference.before.mean.max(difference.after.mean);
    let least_ns = SHARE_MIN * long;
    // Rows too small to be a cause on either side are no tries.
    let is_try = |row: &&Change| row.before.mean.max(row.after.mean) >= least_ns;
    let rows = difference.walk().into_iter().filter(is_try).count() as f64;
    let limits = Limits { rows, least_ns };
    let mut causes = Vec::new();
    for row in &difference.rows {
        limits.collect(row, &mut Vec::new(), &mut causes);
    }
    causes.sort_by(|a, b| b.own_ns.abs().total_cmp(&a.own_ns.abs()));
    causes
}

struct Limits {
    rows: f64,
    least_ns: f64,
}

impl Limits {
    /// The chance of so large a change in any of all rows; nothing if it is too high or the change
    /// too small.
    fn significance(&self, row: &Change) -> Option<f64> {
        // Bonferroni: rows that contain each other are tested together, in no known dependence.
        let p = (row.p? * self.rows).min(1.0);
        (p <= ALPHA && row.own_ns().abs() >= self.least_ns).then_some(p)
    }

    /// Finds causes in a row: parts that differ by themselves, or else the row.
    fn collect(&self, row: &Change, path: &mut Vec<String>, causes: &mut Vec<Cause>) {
        path.push(row.name.clone());
        let before = causes.len();
        for part in &row.rows {
            self.collect(part, path, causes);
        }
        let explained: f64 = causes[before..].iter().map(|cause| cause.own_ns).sum();
        if let Some(p) = self.significance(row) {
            let own_ns = row.own_ns();
            // Parts that leave most of the change unexplained are details of one cause.
            if causes.len() == before || explained.abs() < PART_MIN * own_ns.abs() {
                causes.truncate(before);
                causes.push(Cause { path: path.clone(), own_ns, change: row.clone(), p });
            }
        }
        path.pop();
    }
}

/// Whether a change is of how often rather than of how dear; nothing where nobody counted.
pub fn is_count(split: &Split) -> Option<bool> {
    match split {
        Split::CountAndCost { count_ns, cost_ns, .. } => Some(count_ns.abs() >= cost_ns.abs()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use records::Obtained;

    use super::super::{Events, Ledger, Row, Unit, difference};
    use super::*;

    /// A ledger of so many units of 1000 operations: rows by name, ns per operation, times.
    fn ledger(rows: &[(&str, f64, Option<f64>)], noise: f64, seed: u64) -> Ledger {
        const OPERATIONS: u64 = 1000;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut uniform = || random.random::<f64>() - 0.5;
        let rows: Vec<Row> = rows
            .iter()
            .map(|(name, ns, times)| {
                let noisy = |_| ((ns * (1.0 + noise * uniform())) * OPERATIONS as f64) as u64;
                let row = Row::new(*name, Obtained::Exact, (0..5).map(noisy).collect());
                match times {
                    Some(times) => row.with_events(Events {
                        what: "spin".to_string(),
                        counts: vec![(times * OPERATIONS as f64) as u64; 5],
                        operations: vec![OPERATIONS; 5],
                    }),
                    None => row,
                }
            })
            .map(|row| if row.name == "other tasks" { row.of_time() } else { row })
            .collect();
        let root = Row::sum_of("all", Obtained::Exact, rows);
        let unit = |budget_ns: &u64| Unit { operations: OPERATIONS, budget_ns: *budget_ns };
        let ledger = Ledger { units: root.ns.iter().map(unit).collect(), root };
        assert_eq!(ledger.broken(), None);
        ledger
    }

    #[test]
    fn a_doubled_row_is_count_and_a_slowed_one_is_cost_and_both_add_up() {
        let before = ledger(&[("a", 100.0, Some(1.0)), ("b", 300.0, Some(2.0))], 0.01, 1);
        let after = ledger(&[("a", 200.0, Some(2.0)), ("b", 600.0, Some(2.0))], 0.01, 2);
        let difference = difference(&before, &after);
        for row in difference.walk() {
            if let Split::CountAndCost { count_ns, cost_ns, .. } = row.split {
                assert!((count_ns + cost_ns - row.change).abs() < 1e-9);
            }
            let parts: f64 = row.rows.iter().map(|part| part.change).sum();
            assert!(row.rows.is_empty() || (parts - row.change).abs() < 1e-6);
        }
        let causes = causes(&difference);
        let told: Vec<_> =
            causes.iter().map(|c| (c.path[0].as_str(), is_count(&c.change.split))).collect();
        assert_eq!(told, [("b", Some(false)), ("a", Some(true))]);
    }

    #[test]
    fn a_row_that_is_new_or_gone_is_count() {
        let with = ledger(&[("a", 100.0, None), ("b", 300.0, Some(2.0))], 0.01, 1);
        let without = ledger(&[("a", 100.0, None)], 0.01, 2);
        for (before, after, sign) in [(&without, &with, 1.0), (&with, &without, -1.0)] {
            let causes = causes(&difference(before, after));
            assert_eq!(causes.len(), 1);
            assert_eq!(is_count(&causes[0].change.split), Some(true));
            assert_eq!(causes[0].own_ns.signum(), sign);
        }
    }

    #[test]
    fn a_neighbour_is_not_blamed_for_longer_operations() {
        // A third of the time before and after: what is added is the workload's alone.
        let before = ledger(&[("work", 600.0, None), ("other tasks", 300.0, None)], 0.002, 1);
        let after = ledger(&[("work", 1600.0, None), ("other tasks", 800.0, None)], 0.002, 2);
        let causes = causes(&difference(&before, &after));
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].path, ["work"]);
        let before = ledger(&[("work", 600.0, None), ("other tasks", 30.0, None)], 0.002, 3);
        let after = ledger(&[("work", 600.0, None), ("other tasks", 300.0, None)], 0.002, 4);
        let blamed = super::causes(&difference(&before, &after));
        assert_eq!(blamed[0].path, ["other tasks"]);
    }

    #[test]
    fn equal_things_have_no_cause() {
        let rows = [("a", 100.0, Some(1.0)), ("b", 300.0, None), ("other tasks", 50.0, None)];
        let invented = (0..1000).filter(|seed| {
            let before = ledger(&rows, 0.2, 2 * seed + 10);
            let after = ledger(&rows, 0.2, 2 * seed + 11);
            !causes(&difference(&before, &after)).is_empty()
        });
        assert!(invented.count() <= 20, "at most 1 % and some luck");
    }
}
