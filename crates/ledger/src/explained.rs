//! One point of a record, explained: its ledger, and how far to trust it.

use std::collections::{BTreeMap, BTreeSet};

use records::{Opened, Profile, ProfileKind, Run, UnitOfWork};
use schemars::JsonSchema;
use serde::Serialize;

use super::Ledger;
use super::build::ledger;
use super::coarse::coarse;
use super::shared_line::{HotInstruction, hot_instructions, ran_in_parallel};
use super::trust::{LedgerCheck, LookCost, check_ledger, look_cost};
use super::wall::WallTime;
use analysis::Spread;

/// A point with its ledger.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    /// Index of the point in its record.
    pub point: usize,
    /// Where the time goes; `None` if it is unknown.
    pub ledger: Option<Ledger>,
    /// Whether the ledger is only the coarse one of /proc, of runs that were not watched.
    pub coarse: bool,
    /// Counts per operation by name; names that were not counted are absent.
    pub counts: BTreeMap<String, f64>,
    /// How long runnable tasks waited for a CPU: ns per operation, by what kept them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<String, f64>,
    /// The time of an operation by the clock on the wall, of programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<WallTime>,
    /// How much each kind of look slowed operations.
    pub costs: Vec<LookCost>,
    /// Whether the looks at time are consistent in themselves.
    pub check: LedgerCheck,
    /// Probes that were not available, and why.
    #[serde(rename = "blind")]
    pub unavailable_probes: BTreeMap<String, String>,
    /// The reasons why looks failed, each once.
    pub failures: BTreeSet<String>,
    /// Whether the point ran in an emulated guest.
    pub emulated: bool,
    /// The hottest instruction of each function of the workload's user code.
    #[serde(skip)]
    pub hot_instructions: BTreeMap<String, HotInstruction>,
    /// Whether tasks of the workload ran on several CPUs at the same time.
    #[serde(skip)]
    pub parallel: bool,
    /// Lengths in seconds of the runs that were not profiled, if a run is the unit of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_lengths: Option<Spread>,
}

impl Explained {
    /// The cost of looks at time, if they slowed the point so much that they explain something
    /// else. The number of calls and faults does not depend on how long they take, so looks at
    /// counts and names are used even then, with their cost shown.
    pub fn refused(&self) -> Option<&LookCost> {
        self.cost_of_time().filter(|cost| cost.is_too_high())
    }

    /// How much looks at time slowed operations.
    pub fn cost_of_time(&self) -> Option<&LookCost> {
        self.costs.iter().find(|cost| cost.kind == ProfileKind::Time)
    }
}

/// Counts per operation, all looks at counts together.
fn counts(looks: &[&Profile]) -> BTreeMap<String, f64> {
    let counting = looks.iter().filter(|look| look.kind == ProfileKind::Counts && look.finished());
    let windows: Vec<&records::Window> = counting.flat_map(|look| &look.windows).collect();
    let names: BTreeSet<&String> = windows.iter().flat_map(|window| window.counted()).collect();
    let per_operation = |name: &String| {
        let counts = windows.iter().filter_map(|window| window.count(name));
        let (times, operations) = counts.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        (name.clone(), times as f64 / operations.max(1) as f64)
    };
    names.into_iter().map(per_operation).collect()
}

/// How long runnable tasks waited for a CPU, in ns per operation, all looks at time together.
fn waits(looks: &[&Profile]) -> BTreeMap<String, f64> {
    let timing = looks.iter().filter(|look| look.kind == ProfileKind::Time && look.finished());
    let windows: Vec<&records::Window> = timing.flat_map(|look| &look.windows).collect();
    let operations: u64 = windows.iter().map(|window| window.operations).sum();
    let mut waits = BTreeMap::new();
    for wait in windows.iter().flat_map(|window| &window.waits) {
        *waits.entry(wait.name.clone()).or_default() += wait.ns as f64 / operations.max(1) as f64;
    }
    waits
}

/// Explains a point by the looks of its record.
pub fn explain(opened: &Opened, looks: &[Profile], point: usize) -> Explained {
    let all: Vec<&Profile> = looks.iter().collect();
    let looks: Vec<&Profile> = looks.iter().filter(|look| look.point as usize == point).collect();
    let runs: Vec<&Run> = opened.runs_of(point).filter(|run| run.finished()).collect();
    let is_run = opened.record.unit_of_work(&opened.record.points[point]) == UnitOfWork::Run;
    let metric = if is_run { records::WALL } else { records::RATE };
    let kinds = [ProfileKind::Time, ProfileKind::Counts, ProfileKind::Names];
    let costs = kinds
        .into_iter()
        .filter_map(|kind| look_cost(&looks, &runs, kind, metric, is_run))
        .collect();
    let unavailable_probes =
        looks.iter().flat_map(|look| look.unavailable_probes.clone()).collect();
    let failures = looks.iter().filter_map(|look| match &look.outcome {
        records::Outcome::Failed { reason } => Some(reason.clone()),
        records::Outcome::Finished { .. } => None,
    });
    let watched = ledger(&looks, &all);
    let counted = runs.iter().filter(|run| !run.placebo);
    let lengths: Vec<f64> = counted.filter_map(|run| run.value(records::WALL)).collect();
    Explained {
        point,
        coarse: watched.is_none(),
        ledger: watched.or_else(|| coarse(&runs, &opened.record.points[point])),
        counts: counts(&looks),
        waits: waits(&looks),
        wall: opened.record.points[point]
            .command
            .as_ref()
            .and_then(|_| WallTime::new(&looks, &runs)),
        costs,
        check: check_ledger(&looks),
        unavailable_probes,
        failures: failures.collect(),
        emulated: opened.record.emulated(),
        hot_instructions: hot_instructions(&looks),
        parallel: ran_in_parallel(&looks),
        run_lengths: Spread::from_values(&lengths).filter(|_| is_run),
    }
}
