//! The time of an operation by the clock on the wall, as a ledger.
//!
//! CPU time alone misleads where a program leaves CPUs unused: they are idle, and nobody misses them. So for programs
//! the root is the time from start to end. In each instant some of the workload's tasks run, or none does:
//!
//!     CPU 0:  | task ...... |                | task ...
//!     CPU 1:       | task ....... |
//!             |<---- active ----->|<- gap -->|
//!
//! Active time is the CPU time of the tasks, divided by the number of CPUs that they use at a time. For two sides this is
//! the larger of both numbers, so that a side with less of it has a further row: the parallelism that it lost. A gap is
//! a wait of the whole workload, named by what the task that ends it waited for. All rows add up in whole nanoseconds.

use std::collections::BTreeMap;

use records::{
    Base, CpuState, OTHER_TASK, OWN_TASK_ON_THE_ONLY_CPUS, Obtained, Profile, ProfileKind, Run,
    Share, WALL, Window,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::build::{UNUSED, units};
use super::{
    AFFINITY, IDLE, Ledger, LedgerRow, LedgerUnit, OTHERS, OWN, RowEvents, STOLEN, WORK, split,
};

/// Row of the time that a side takes longer because its tasks use fewer CPUs at a time.
pub const LOST_PARALLELISM: &str = "lost parallelism";
/// Row below [`LOST_PARALLELISM`]: no task waits, there are fewer of them at a time.
pub const FEWER_TASKS: &str = "fewer tasks at a time";
/// Row of the time before the first task of a program has a CPU and after the last one had it.
pub const START_AND_END: &str = "start and end of the run";

/// The time of an operation by the clock on the wall.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WallTime {
    /// ns per operation, the median of the runs that were not profiled.
    pub ns: f64,
    /// CPU time of its tasks in ns per operation, the median of the same runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<f64>,
    /// Number of CPUs that its tasks used while any of them ran, on average.
    pub cpus_in_use: f64,
    /// Time that other tasks and the host had the CPUs in profiled runs while the workload had work for them, as a share.
    pub taken: f64,
    /// The profiled runs, in the order of the ledger's units.
    #[serde(skip)]
    units: Vec<WallUnit>,
}

/// The wall time of one profiled run.
#[derive(Clone, Debug, PartialEq)]
struct WallUnit {
    wall_ns: u64,
    active_ns: u64,
    /// CPU time of the tasks: their own, and what the host and samples took of it.
    work_ns: [u64; 3],
    gaps: Vec<Share>,
    /// How long tasks slept, or waited for a CPU that affinity or other tasks kept from them.
    kept: Vec<Share>,
}

impl WallTime {
    /// The wall time of a program, from its profiles and its other runs. `None` if no profile recorded when its tasks ran.
    pub(super) fn new(looks: &[&Profile], runs: &[&Run]) -> Option<WallTime> {
        let (_, windows) = units(looks, ProfileKind::Time);
        let walls = looks
            .iter()
            .filter(|look| look.kind == ProfileKind::Time && look.finished())
            .filter(|look| look.windows.iter().any(|window| window.operations > 0))
            .map(|look| look.value(WALL));
        let walls: Vec<f64> = walls.collect::<Option<_>>()?;
        let has_gaps = windows.iter().all(|windows| windows.iter().all(|w| w.active_ns > 0));
        if walls.len() != windows.len() || walls.is_empty() || !has_gaps {
            return None;
        }
        let units: Vec<WallUnit> = windows
            .iter()
            .zip(&walls)
            .map(|(windows, wall)| WallUnit::new(windows, *wall))
            .collect();
        let operations: u64 = windows.iter().flatten().map(|window| window.operations).sum();
        let per_run = operations as f64 / units.len() as f64;
        let sum = |value: &dyn Fn(&WallUnit) -> u64| units.iter().map(value).sum::<u64>() as f64;
        let clean = |value: &dyn Fn(&Run) -> Option<f64>| {
            let clean = runs.iter().filter(|run| !run.placebo);
            Some(1e9 * median(clean.filter_map(|run| value(run)).collect())? / per_run)
        };
        let cpu_s = |run: &Run| Some(run.value("time.user_time")? + run.value("time.system_time")?);
        let active = sum(&|unit| unit.active_ns);
        let wall = sum(&|unit| unit.wall_ns);
        Some(WallTime {
            ns: clean(&|run| run.value(WALL)).unwrap_or(wall / operations.max(1) as f64),
            cpu_ns: clean(&cpu_s),
            cpus_in_use: sum(&|unit| unit.work_ns.iter().sum()) / active.max(1.0),
            taken: sum(&WallUnit::taken_ns) / wall.max(1.0),
            units,
        })
    }
}

impl WallTime {
    /// The ledger of wall time of one side by itself, from that of CPU time.
    pub fn alone(&self, ledger: &Ledger) -> Option<Ledger> {
        wall_ledger(ledger, self, self.cpus_in_use)
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get((values.len().max(1) - 1) / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Shares of the same name as one.
fn sums(shares: impl Iterator<Item = Share>) -> Vec<Share> {
    let mut sums: BTreeMap<String, Share> = BTreeMap::new();
    for share in shares {
        let none = || Share { ns: 0, times: 0, ..share.clone() };
        let sum = sums.entry(share.name.clone()).or_insert_with(none);
        sum.ns += share.ns;
        sum.times += share.times;
    }
    sums.into_values().collect()
}

impl WallUnit {
    fn new(windows: &[&Window], wall_s: f64) -> WallUnit {
        let time = |is_wanted: &dyn Fn(CpuState) -> bool| -> u64 {
            let of_work = |base, state| base == Base::Work && is_wanted(state);
            windows.iter().map(|window| window.time_ns(of_work)).sum()
        };
        let is_taken = |state| matches!(state, CpuState::Steal | CpuState::Sampling);
        let waits = windows.iter().flat_map(|window| &window.waits).filter_map(|wait| {
            let name = match wait.name.as_str() {
                OWN_TASK_ON_THE_ONLY_CPUS => AFFINITY,
                OTHER_TASK => OTHER_TASK,
                _ => return None,
            };
            Some(Share { name: name.to_string(), ..wait.clone() })
        });
        let sleeps = windows.iter().flat_map(|window| window.sleeps.clone());
        WallUnit {
            wall_ns: (1e9 * wall_s) as u64,
            active_ns: windows.iter().map(|window| window.active_ns).sum(),
            work_ns: [
                time(&|state| !is_taken(state)),
                time(&|state| state == CpuState::Steal),
                time(&|state| state == CpuState::Sampling),
            ],
            gaps: sums(windows.iter().flat_map(|window| window.gaps.clone())),
            kept: sums(sleeps.chain(waits)),
        }
    }

    fn gap(&self, name: &str) -> u64 {
        self.gaps.iter().filter(|gap| gap.name == name).map(|gap| gap.ns).sum()
    }

    /// Wall time that others took: gaps behind other tasks, and what the host took of the CPUs in use.
    fn taken_ns(&self) -> u64 {
        let work: u64 = self.work_ns.iter().sum();
        let of_host = split(self.active_ns, &[self.work_ns[1], work - self.work_ns[1]])[0];
        self.gap(OTHER_TASK) + if work > 0 { of_host } else { 0 }
    }

    /// Active time as that of the tasks, of the host and of samples, and what is lost against `cpus_in_use`.
    fn active(&self, cpus_in_use: f64) -> ([u64; 3], u64) {
        let work: u64 = self.work_ns.iter().sum();
        let running = ((work as f64 / cpus_in_use.max(1e-9)) as u64).min(self.active_ns);
        let parts = split(running, &self.work_ns);
        ([parts[0], parts[1], parts[2]], self.active_ns - running)
    }
}

/// A ledger of the wall time of each run, from one of CPU time and at least as many CPUs in use as it has.
pub(super) fn wall_ledger(ledger: &Ledger, wall: &WallTime, cpus_in_use: f64) -> Option<Ledger> {
    let units = &wall.units;
    if units.len() != ledger.units.len() {
        return None;
    }
    let each = |value: &dyn Fn(&WallUnit) -> u64| units.iter().map(value).collect::<Vec<u64>>();
    let active: Vec<([u64; 3], u64)> = units.iter().map(|u| u.active(cpus_in_use)).collect();
    let part = |index: usize| active.iter().map(|(parts, _)| parts[index]).collect::<Vec<u64>>();
    let exact = |name: &str, ns| LedgerRow::new(name, Obtained::Exact, ns);
    let work = ledger.root.part(WORK)?;
    let lost: Vec<u64> = active.iter().map(|(_, lost)| *lost).collect();
    let spent = |unit: &WallUnit| unit.active_ns + unit.gaps.iter().map(|gap| gap.ns).sum::<u64>();
    let nobodys = |unit: &WallUnit| unit.gap(UNUSED[0]);
    let rest = |unit: &WallUnit| unit.wall_ns.saturating_sub(spent(unit)) + nobodys(unit);
    let rows = vec![
        scaled(work, &part(0)),
        waits(units, ledger),
        lost_parallelism(units, lost, cpus_in_use),
        exact(OTHERS, each(&|unit| unit.gap(OTHER_TASK))).belonging_to_time(),
        exact(STOLEN, part(1)).belonging_to_time(),
        exact(OWN, part(2)).belonging_to_time(),
        exact(START_AND_END, each(&rest)),
    ];
    let rows = rows.into_iter().filter(|row| row.total_ns() > 0 || row.name == WORK).collect();
    let root = LedgerRow::from_parts("all", Obtained::Exact, rows);
    let own = ledger.units.iter().zip(&root.ns);
    let units = own.map(|(unit, ns)| LedgerUnit { budget_ns: *ns, ..*unit }).collect();
    Some(Ledger { units, root, between_runs: ledger.between_runs })
}

/// A row with all its parts, made to take these times.
fn scaled(row: &LedgerRow, ns: &[u64]) -> LedgerRow {
    let mut rows: Vec<Vec<u64>> = vec![Vec::new(); row.rows.len()];
    for (unit, ns) in ns.iter().enumerate() {
        let weights: Vec<u64> = row.rows.iter().map(|part| part.ns[unit]).collect();
        rows.iter_mut().zip(split(*ns, &weights)).for_each(|(part, ns)| part.push(ns));
    }
    let rows = row.rows.iter().zip(&rows).map(|(part, ns)| scaled(part, ns)).collect();
    LedgerRow { ns: ns.to_vec(), rows, ..row.clone() }
}

/// What the whole workload waited for.
fn waits(units: &[WallUnit], ledger: &Ledger) -> LedgerRow {
    let is_wait = |name: &&str| *name != OTHER_TASK && *name != UNUSED[0];
    let mut names: Vec<&str> =
        units.iter().flat_map(|unit| &unit.gaps).map(|gap| gap.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let row = |name: &str| {
        let sum = |unit: &WallUnit, value: fn(&Share) -> u64| {
            unit.gaps.iter().filter(|gap| gap.name == name).map(value).sum::<u64>()
        };
        let each = |value| units.iter().map(|unit| sum(unit, value)).collect::<Vec<u64>>();
        LedgerRow::new(name, Obtained::Exact, each(|gap| gap.ns)).with_events(RowEvents {
            what: "wait".to_string(),
            counts: each(|gap| gap.times),
            operations: ledger.units.iter().map(|unit| unit.operations).collect(),
        })
    };
    let mut rows: Vec<LedgerRow> = names.into_iter().filter(is_wait).map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    let idle = LedgerRow::from_parts(IDLE, Obtained::Exact, rows);
    let ns = if idle.ns.is_empty() { vec![0; units.len()] } else { idle.ns.clone() };
    LedgerRow { ns, ..idle }
}

/// The time that tasks run for longer because they use fewer CPUs at a time, divided by what other tasks of the workload
/// slept and waited for meanwhile.
fn lost_parallelism(units: &[WallUnit], lost: Vec<u64>, cpus_in_use: f64) -> LedgerRow {
    // Who waits for a child, or for a time to come, has no work for a CPU meanwhile.
    let has_work = |name: &&str| {
        let no_work = ["wait for a child", "sleep", "poll", "signal"];
        !no_work.iter().any(|no| name.starts_with(no)) && !UNUSED.contains(name)
    };
    let mut names: Vec<&str> =
        units.iter().flat_map(|unit| &unit.kept).map(|share| share.name.as_str()).collect();
    names.retain(has_work);
    names.sort_unstable();
    names.dedup();
    names.push(FEWER_TASKS);
    let mut parts: Vec<Vec<u64>> = vec![Vec::new(); names.len()];
    for (unit, lost) in units.iter().zip(&lost) {
        let kept = |name: &&str| {
            let kept = unit.kept.iter().filter(|share| share.name == **name).map(|share| share.ns);
            kept.sum::<u64>().saturating_sub(unit.gap(name))
        };
        let mut weights: Vec<u64> = names[..names.len() - 1].iter().map(kept).collect();
        // CPU time that is missing and that no task waited for.
        let missing = (*lost as f64 * (cpus_in_use - 1.0).max(0.0)) as u64;
        weights.push(missing.saturating_sub(weights.iter().sum()));
        parts.iter_mut().zip(split(*lost, &weights)).for_each(|(part, ns)| part.push(ns));
    }
    let rows = names.into_iter().zip(parts);
    let rows = rows.map(|(name, ns)| LedgerRow::new(name, Obtained::Apportioned, ns));
    let mut rows: Vec<LedgerRow> = rows.filter(|row| row.total_ns() > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    LedgerRow { ns: lost, ..LedgerRow::from_parts(LOST_PARALLELISM, Obtained::Exact, rows) }
}

#[cfg(test)]
mod tests;
