//! The ledger: where each nanosecond of an operation goes. A tree of rows in which every level
//! adds up to its parent, in whole nanoseconds, unit by unit; its root is all the time that the
//! CPUs had. A plain value: made of looks or of other tools' samples, shown by every report.

mod build;
mod causes;
mod chance;
mod coarse;
mod difference;
mod explained;
mod growth;
mod recording;
mod sampled;
mod tables;
mod trust;

pub use build::{IDLE, INTERRUPTS, OTHERS, OWN, SPINNING, STOLEN, WORK, ledger};
pub use causes::{Cause, Part, causes, is_count};
pub use difference::{Change, Split, difference};
pub use explained::{Explained, explain};
pub use growth::{Growth, Power, growth};
pub use recording::{LOST, Measure, Per, Question, Recorded, UNSEEN, Whole, looked, recorded};
pub use tables::{Ipis, LockRow, Locks, Sender, ipis, locks};
pub use trust::{CLOCK_MAX, COST_MAX, Cost, SelfCheck, cost, self_check};

use records::Obtained;
use serde::Serialize;

use crate::Spread;
use crate::student::quantile;

/// Where the time of a point went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ledger {
    /// What the rows have a value of, each: runs, or windows of a single run.
    pub units: Vec<Unit>,
    /// All the time, and what it consists of.
    pub root: Row,
}

/// One replicate of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// Operations done meanwhile.
    pub operations: u64,
    /// CPUs × time.
    pub budget_ns: u64,
    /// The block of its run, which is that of a run next to it on the other side of a difference;
    /// nothing where units are windows of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
}

/// A part of the time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is, unique among its siblings and the same in every ledger.
    pub name: String,
    /// Whether operations make it, or time does.
    pub belongs: Belongs,
    /// How its share of its parent was obtained.
    pub obtained: Obtained,
    /// The time, one number a unit.
    pub ns: Vec<u64>,
    /// How often it happened, one number a unit; nothing where nobody counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Events>,
    /// Samples that it rests on, where it is sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// What it consists of; empty where that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Row>,
}

/// How often a row happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Events {
    /// What was counted, in the singular: `spin`, `interrupt`, `system call`.
    pub what: String,
    /// How often in each unit that counted.
    pub counts: Vec<u64>,
    /// Operations of the units that counted, which may be other runs than those that timed.
    pub operations: Vec<u64>,
}

/// What makes a row grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Belongs {
    /// Each operation does it.
    Operation,
    /// It happens so much a second whatever is done: other tasks, the host, timers, knee. Longer
    /// operations have more of it without being made longer by it.
    Time,
}

/// A value per operation with its 95 % interval over units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerOperation {
    /// The sum over all units, divided by all operations: these add up as the rows do.
    pub mean: f64,
    /// Half the width of the interval; nothing with fewer than two units.
    pub half: Option<f64>,
}

impl Ledger {
    /// A row's time per operation.
    pub fn ns_per_operation(&self, row: &Row) -> PerOperation {
        let operations: Vec<u64> = self.units.iter().map(|unit| unit.operations).collect();
        per_operation(&row.ns, &operations)
    }

    /// The row at this path of names below the root.
    pub fn find(&self, path: &[&str]) -> Option<&Row> {
        path.iter().try_fold(&self.root, |row, name| row.part(name))
    }

    /// The first row whose parts do not add up to it, or the root that is not the budget.
    pub fn broken(&self) -> Option<String> {
        let budgets: Vec<u64> = self.units.iter().map(|unit| unit.budget_ns).collect();
        match self.root.ns == budgets {
            true => self.root.broken(),
            false => Some(format!("{} is {:?}, not {budgets:?} ns", self.root.name, self.root.ns)),
        }
    }
}

impl Row {
    /// A row without parts, that operations make.
    pub fn new(name: impl Into<String>, obtained: Obtained, ns: Vec<u64>) -> Row {
        Row {
            name: name.into(),
            belongs: Belongs::Operation,
            obtained,
            ns,
            events: None,
            samples: None,
            rows: Vec::new(),
        }
    }

    /// A row that is the sum of its parts.
    pub fn sum_of(name: impl Into<String>, obtained: Obtained, rows: Vec<Row>) -> Row {
        let units = rows.iter().map(|row| row.ns.len()).max().unwrap_or(0);
        let sum = |unit: usize| rows.iter().map(|row| row.ns[unit]).sum();
        Row { rows: Vec::new(), ..Row::new(name, obtained, (0..units).map(sum).collect()) }
            .with_rows(rows)
    }

    /// The same row, with parts.
    pub fn with_rows(self, rows: Vec<Row>) -> Row {
        Row { rows, ..self }
    }

    /// The same row, with how often it happened.
    pub fn with_events(self, events: Events) -> Row {
        Row { events: Some(events), ..self }
    }

    /// The same row, made by time and not by operations, with all its parts.
    pub fn of_time(mut self) -> Row {
        self.belongs = Belongs::Time;
        self.rows = self.rows.into_iter().map(Row::of_time).collect();
        self
    }

    /// The part of this name.
    pub fn part(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Time in all units.
    pub fn total_ns(&self) -> u64 {
        self.ns.iter().sum()
    }

    fn broken(&self) -> Option<String> {
        if self.rows.is_empty() {
            return None;
        }
        let sum = |unit| self.rows.iter().map(|row| row.ns[unit]).sum::<u64>();
        let sums: Vec<u64> = (0..self.ns.len()).map(sum).collect();
        if sums != self.ns {
            return Some(format!(
                "parts of {} add up to {sums:?}, not {:?} ns",
                self.name, self.ns
            ));
        }
        self.rows.iter().find_map(Row::broken)
    }
}

impl Events {
    /// How often per operation.
    pub fn per_operation(&self) -> PerOperation {
        per_operation(&self.counts, &self.operations)
    }
}

/// Values over operations, unit by unit.
fn per_operation(values: &[u64], operations: &[u64]) -> PerOperation {
    let ratio = |value: u64, operations: u64| value as f64 / operations.max(1) as f64;
    let mean = ratio(values.iter().sum(), operations.iter().sum());
    let ratios: Vec<f64> = values.iter().zip(operations).map(|(v, o)| ratio(*v, *o)).collect();
    let half = Spread::of(&ratios).filter(|spread| spread.n > 1).and_then(|spread| {
        let error = spread.stddev? / (spread.n as f64).sqrt();
        Some(quantile(spread.n as f64 - 1.0, 0.05)? * error)
    });
    PerOperation { mean, half }
}

/// Splits `whole` by `weights` in whole numbers that add up to it: the largest remainders get
/// what rounding down leaves. All of it goes to the first where no weight is above 0.
pub fn split(whole: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|w| *w as u128).sum();
    if sum == 0 {
        let mut parts = vec![0; weights.len()];
        parts.iter_mut().take(1).for_each(|part| *part = whole);
        return parts;
    }
    let exact = |weight: &u64| whole as u128 * *weight as u128;
    let mut parts: Vec<u64> = weights.iter().map(|w| (exact(w) / sum) as u64).collect();
    let mut left = whole - parts.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(exact(&weights[i]) % sum));
    for index in order {
        if left == 0 {
            break;
        }
        parts[index] += 1;
        left -= 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn splits_add_up_and_are_fair_to_one_nanosecond() {
        assert_eq!(split(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(split(7, &[0, 0]), [7, 0]);
        assert_eq!(split(7, &[]), [] as [u64; 0]);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        for _ in 0..1000 {
            let n = random.random_range(1..40);
            let weights: Vec<u64> = (0..n).map(|_| random.random_range(0..1000)).collect();
            let whole: u64 = random.random_range(0..u64::MAX >> 20);
            let parts = split(whole, &weights);
            assert_eq!(parts.iter().sum::<u64>(), whole);
            let sum = weights.iter().sum::<u64>() as f64;
            for (part, weight) in parts.iter().zip(&weights).filter(|_| sum > 0.0) {
                let fair = whole as f64 * *weight as f64 / sum;
                assert!((*part as f64 - fair).abs() <= 1.0 + fair * 1e-12);
            }
        }
    }

    #[test]
    fn a_row_that_does_not_add_up_is_found() {
        let exact = |name: &str, ns: [u64; 2]| Row::new(name, Obtained::Exact, ns.to_vec());
        let rows = vec![exact("work", [70, 80]), exact("idle", [30, 20])];
        let unit = |operations| Unit { operations, budget_ns: 100, block: None };
        let root = Row::sum_of("all", Obtained::Exact, rows);
        let mut ledger = Ledger { units: vec![unit(10), unit(20)], root };
        assert_eq!(ledger.broken(), None);
        let total = ledger.ns_per_operation(&ledger.root);
        assert_eq!(total.mean, 200.0 / 30.0);
        let parts = ["work", "idle"].map(|name| {
            let row = ledger.find(&[name]).unwrap();
            ledger.ns_per_operation(row).mean
        });
        assert!((parts[0] + parts[1] - total.mean).abs() < 1e-12);
        ledger.root.rows[1].ns[1] += 1;
        let says = "parts of all add up to [100, 101], not [100, 100] ns";
        assert_eq!(ledger.broken().as_deref(), Some(says));
        ledger.units[0].budget_ns = 99;
        assert!(ledger.broken().unwrap().starts_with("all is [100, 100], not [99, 100] ns"));
    }
}
