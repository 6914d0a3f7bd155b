//! One point of a record, explained: its ledger and what it may be trusted with.

use std::collections::{BTreeMap, BTreeSet};

use records::{Opened, Profile, ProfileKind, Run};
use serde::Serialize;

use super::Ledger;
use super::build::ledger;
use super::coarse::coarse;
use super::trust::{Cost, SelfCheck, cost, self_check};

/// A point and its ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// Index of the point in its record.
    pub point: usize,
    /// Where the time goes; nothing where it is not known.
    pub ledger: Option<Ledger>,
    /// Whether the ledger is only what /proc tells of runs that nobody watched.
    pub coarse: bool,
    /// How often things happened per operation, by name; absent: not counted.
    pub counts: BTreeMap<String, f64>,
    /// What each kind of look cost.
    pub costs: Vec<Cost>,
    /// What the looks at time say about themselves.
    pub check: SelfCheck,
    /// Probes that could not see, and why.
    #[serde(rename = "blind")]
    pub unavailable_probes: BTreeMap<String, String>,
    /// Why looks failed, each reason once.
    pub failures: BTreeSet<String>,
    /// Whether the guest that it ran in was emulated.
    pub emulated: bool,
}

impl Explained {
    /// The cost of looks at time, if they slowed the point so much that they explain something
    /// else. How often a task calls and faults does not depend on how long that takes, so looks
    /// at counts and names are used all the same, with their cost beside them.
    pub fn refused(&self) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.kind == ProfileKind::Time && cost.is_too_high())
    }
}

/// How often things happened per operation, all looks at counts together.
fn counts(looks: &[&Profile]) -> BTreeMap<String, f64> {
    let counted = looks.iter().filter(|look| look.kind == ProfileKind::Counts && look.finished());
    let windows: Vec<&records::Window> = counted.flat_map(|look| &look.windows).collect();
    let names: BTreeSet<&String> = windows.iter().flat_map(|window| window.counted()).collect();
    let each = |name: &String| {
        let counts = windows.iter().filter_map(|window| window.count(name));
        let (times, operations) = counts.fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1));
        (name.clone(), times as f64 / operations.max(1) as f64)
    };
    names.into_iter().map(each).collect()
}

/// Explains a point by the looks of its record.
pub fn explain(opened: &Opened, looks: &[Profile], point: usize) -> Explained {
    let looks: Vec<&Profile> = looks.iter().filter(|look| look.point as usize == point).collect();
    let runs: Vec<&Run> = opened.runs_of(point).filter(|run| run.finished()).collect();
    let is_command = opened.record.points[point].command.is_some();
    let metric = if is_command { records::WALL } else { "operations_per_s" };
    let kinds = [ProfileKind::Time, ProfileKind::Counts, ProfileKind::Names];
    let costs = kinds.into_iter().filter_map(|kind| cost(&looks, &runs, kind, metric, is_command));
    let costs: Vec<Cost> = costs.collect();
    let unavailable_probes =
        looks.iter().flat_map(|look| look.unavailable_probes.clone()).collect();
    let failures = looks.iter().filter_map(|look| match &look.outcome {
        records::Outcome::Failed { reason } => Some(reason.clone()),
        records::Outcome::Finished { .. } => None,
    });
    let seen = ledger(&looks);
    Explained {
        point,
        coarse: seen.is_none(),
        ledger: seen.or_else(|| coarse(&runs, &opened.record.points[point])),
        counts: counts(&looks),
        costs,
        check: self_check(&looks),
        unavailable_probes,
        failures: failures.collect(),
        emulated: opened.record.emulated(),
    }
}
