//! The ledger: where each nanosecond of an operation goes. It is a tree of rows in which every level
//! adds up to its parent, in whole nanoseconds, unit by unit. The root is all the time that the
//! CPUs had. A ledger is a plain value, made from looks or from another tool's samples.

mod answer;
mod build;
mod causes;
mod chance;
mod coarse;
mod difference;
mod explained;
mod growth;
mod recording;
mod removal;
mod sampled;
mod shared_line;
mod tables;
mod trust;
mod wall;

pub use answer::{Answer, BEYOND, answer, growth_answer};
pub use build::ledger;
pub use causes::{Cause, CausePart, causes, is_mostly_count};
pub use difference::{RowChange, Split, difference};
pub use explained::{Explained, explain};
pub use growth::{Growth, Power, growth};
pub use recording::{
    LOST, Measure, Per, RecordedLedger, RecordingQuestion, UNSEEN, Whole, ledgers_from_recordings,
    recording_from_looks,
};
pub use removal::{GainBound, GainIf, gain_bound};
pub use shared_line::{HotInstruction, SharedLine};
pub use tables::{IpiSender, Ipis, LockRow, Locks, ipis, locks};
pub use trust::{CLOCK_MAX, COST_MAX, LedgerCheck, LookCost, check_ledger, look_cost};

pub use wall::{FEWER_TASKS, LOST_PARALLELISM, START_AND_END, WallTime};

use records::Obtained;
use schemars::JsonSchema;
use serde::Serialize;

use analysis::{Spread, Student};

/// Row of the CPU time that the workload's tasks used.
pub const WORK: &str = "the workload";
/// Row of the time in which CPUs were idle.
pub const IDLE: &str = "idle";
/// Row below [`IDLE`]: CPUs that the workload has no task for.
const NO_TASK: &str = "no task of the workload";
/// Row below [`IDLE`]: CPUs whose tasks wait, where nothing tells for what.
const FOR_REASONS_NOT_KNOWN: &str = "for reasons not known";
/// Row below [`IDLE`]: CPUs that waiting tasks were not allowed to use.
pub const AFFINITY: &str = "affinity to other CPUs";
/// Row of the CPU time of tasks that are neither the workload's nor knee's.
pub const OTHERS: &str = "other tasks";
/// Row of the time that the hypervisor gave to others.
pub const STOLEN: &str = "stolen by the host";
/// Row of the CPU time that knee itself used.
pub const OWN: &str = "knee itself";
/// Row below [`WORK`]: samples in user mode.
pub const USER: &str = "user code";
/// Row of the time that the CPUs took to enter the kernel for system calls and to leave it.
pub const ENTRY_AND_EXIT: &str = "system call entry and exit";
/// Row below [`WORK`], [`IDLE`] and [`OTHERS`].
pub const SPINNING: &str = "spinning for locks";
/// Row below [`WORK`], [`IDLE`] and [`OTHERS`].
pub const INTERRUPTS: &str = "interrupts";

/// Where the time of a point went.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ledger {
    /// The replicates: runs, or parts of a single run. Each row has one value for each unit.
    pub units: Vec<LedgerUnit>,
    /// All the time of the CPUs, and the rows that it consists of.
    pub root: LedgerRow,
    /// Standard deviation between runs, as a share of a row, where units are parts of one run and do not show it;
    /// 0 if units are runs.
    #[serde(skip_serializing_if = "is_zero")]
    pub between_runs: f64,
}

/// One replicate of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LedgerUnit {
    /// Operations completed in this unit.
    pub operations: u64,
    /// CPUs × time.
    pub budget_ns: u64,
    /// The block of the unit's run. In a difference, units of the same block ran next to each
    /// other. `None` if units are parts of one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
}

/// A part of the time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LedgerRow {
    /// Name, unique among its siblings and the same in every ledger.
    pub name: String,
    /// Whether the row grows with operations or with time.
    pub belongs: Belongs,
    /// How the row's share of its parent was obtained.
    pub obtained: Obtained,
    /// Time in each unit.
    pub ns: Vec<u64>,
    /// How often it happened in each unit; `None` if nothing counted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<RowEvents>,
    /// Number of samples behind the row, if it is sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The rows that it consists of; empty if they are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<LedgerRow>,
}

/// How often a row happened.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RowEvents {
    /// The counted event, in the singular: `spin`, `interrupt`, `system call`.
    pub what: String,
    /// Number of events in each unit that counted.
    pub counts: Vec<u64>,
    /// Operations of each unit that counted. These units may be other runs than those that timed.
    pub operations: Vec<u64>,
}

/// What makes a row grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Belongs {
    /// Each operation causes it.
    Operation,
    /// It takes a share of the time whatever the workload does: other tasks, the host, timers, knee.
    /// Longer operations have more of it without being made longer by it.
    Time,
}

/// A value per operation with its 95 % interval over units.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PerOperation {
    /// The sum over all units, divided by all operations. These means add up as the rows do.
    pub mean: f64,
    /// Half the width of the interval; `None` with fewer than two units.
    pub half: Option<f64>,
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Ledger {
    /// A ledger whose units are runs.
    pub fn of_runs(units: Vec<LedgerUnit>, root: LedgerRow) -> Ledger {
        Ledger { units, root, between_runs: 0.0 }
    }

    /// A row's time per operation.
    pub fn ns_per_operation(&self, row: &LedgerRow) -> PerOperation {
        let operations: Vec<u64> = self.units.iter().map(|unit| unit.operations).collect();
        per_operation(&row.ns, &operations)
    }

    /// The row at this path of names below the root.
    pub fn find(&self, path: &[&str]) -> Option<&LedgerRow> {
        path.iter().try_fold(&self.root, |row, name| row.part(name))
    }

    /// What is wrong with the first row whose parts do not add up to it, or with a root that is not
    /// the budget. `None` for a correct ledger.
    pub fn broken(&self) -> Option<String> {
        let budgets: Vec<u64> = self.units.iter().map(|unit| unit.budget_ns).collect();
        if self.root.ns != budgets {
            return Some(format!("{} is {:?}, not {budgets:?} ns", self.root.name, self.root.ns));
        }
        self.root.broken()
    }
}

impl LedgerRow {
    /// A row without parts that grows with operations.
    pub fn new(name: impl Into<String>, obtained: Obtained, ns: Vec<u64>) -> LedgerRow {
        LedgerRow {
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
    pub fn from_parts(
        name: impl Into<String>,
        obtained: Obtained,
        rows: Vec<LedgerRow>,
    ) -> LedgerRow {
        let units = rows.iter().map(|row| row.ns.len()).max().unwrap_or(0);
        let sum = |unit: usize| rows.iter().map(|row| row.ns[unit]).sum();
        LedgerRow {
            rows: Vec::new(),
            ..LedgerRow::new(name, obtained, (0..units).map(sum).collect())
        }
        .with_rows(rows)
    }

    pub fn with_rows(self, rows: Vec<LedgerRow>) -> LedgerRow {
        LedgerRow { rows, ..self }
    }

    pub fn with_events(self, events: RowEvents) -> LedgerRow {
        LedgerRow { events: Some(events), ..self }
    }

    /// This row and all its parts, as growing with time instead of with operations.
    pub fn belonging_to_time(mut self) -> LedgerRow {
        self.belongs = Belongs::Time;
        self.rows = self.rows.into_iter().map(LedgerRow::belonging_to_time).collect();
        self
    }

    /// The part with this name.
    pub fn part(&self, name: &str) -> Option<&LedgerRow> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// Time in all units together.
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
        self.rows.iter().find_map(LedgerRow::broken)
    }
}

impl RowEvents {
    /// Number of events per operation.
    pub fn per_operation(&self) -> PerOperation {
        per_operation(&self.counts, &self.operations)
    }
}

/// Values per operation, with the interval over units.
fn per_operation(values: &[u64], operations: &[u64]) -> PerOperation {
    let ratio = |value: u64, operations: u64| value as f64 / operations.max(1) as f64;
    let mean = ratio(values.iter().sum(), operations.iter().sum());
    let ratios: Vec<f64> = values.iter().zip(operations).map(|(v, o)| ratio(*v, *o)).collect();
    let half = Spread::from_values(&ratios).filter(|spread| spread.n > 1).and_then(|spread| {
        let error = spread.stddev? / (spread.n as f64).sqrt();
        let of_mean = Student { estimate: 0.0, error, freedom: spread.n as f64 - 1.0 };
        Some(of_mean.interval(0.05)?.1)
    });
    PerOperation { mean, half }
}

/// Splits `whole` in proportion to `weights`, into whole numbers that add up to it: the largest
/// remainders get what rounding down leaves. If all weights are 0, the first part gets all of it.
pub fn split(whole: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|w| *w as u128).sum();
    if sum == 0 {
        let mut parts = vec![0; weights.len()];
        parts.iter_mut().take(1).for_each(|part| *part = whole);
        return parts;
    }
    let product = |weight: &u64| whole as u128 * *weight as u128;
    let mut parts: Vec<u64> = weights.iter().map(|w| (product(w) / sum) as u64).collect();
    let mut left = whole - parts.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(product(&weights[i]) % sum));
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
        let exact = |name: &str, ns: [u64; 2]| LedgerRow::new(name, Obtained::Exact, ns.to_vec());
        let rows = vec![exact("work", [70, 80]), exact("idle", [30, 20])];
        let unit = |operations| LedgerUnit { operations, budget_ns: 100, block: None };
        let root = LedgerRow::from_parts("all", Obtained::Exact, rows);
        let mut ledger = Ledger::of_runs(vec![unit(10), unit(20)], root);
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
