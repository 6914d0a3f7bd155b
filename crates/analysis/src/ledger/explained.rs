//! One point of a record, explained: its ledger and what it may be trusted with.

use std::collections::{BTreeMap, BTreeSet};

use records::{Look, LookKind, Opened, Run};
use serde::Serialize;

use super::Ledger;
use super::build::ledger;
use super::trust::{Cost, SelfCheck, cost, self_check};

/// A point and its ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explained {
    /// Index of the point in its record.
    pub point: usize,
    /// Where the time goes; nothing where no look saw it.
    pub ledger: Option<Ledger>,
    /// What each kind of look cost.
    pub costs: Vec<Cost>,
    /// What the looks at time say about themselves.
    pub check: SelfCheck,
    /// Probes that could not see, and why.
    pub blind: BTreeMap<String, String>,
    /// Why looks failed, each reason once.
    pub failures: BTreeSet<String>,
}

impl Explained {
    /// The first kind of look that slowed its point so much that it explains something else.
    pub fn refused(&self) -> Option<&Cost> {
        self.costs.iter().find(|cost| cost.is_too_high())
    }
}

/// Explains a point by the looks of its record.
pub fn explain(opened: &Opened, looks: &[Look], point: usize) -> Explained {
    let looks: Vec<&Look> = looks.iter().filter(|look| look.point as usize == point).collect();
    let runs: Vec<&Run> = opened.runs_of(point).filter(|run| run.finished()).collect();
    let is_command = opened.record.points[point].command.is_some();
    let metric = if is_command { records::WALL } else { "operations_per_s" };
    let kinds = [LookKind::Time, LookKind::Counts, LookKind::Names];
    let costs = kinds.into_iter().filter_map(|kind| cost(&looks, &runs, kind, metric, is_command));
    let costs: Vec<Cost> = costs.collect();
    // Counts and names of a look that cost too much are left out; a ledger without time is none.
    let too_dear: Vec<LookKind> =
        costs.iter().filter(|cost| cost.is_too_high()).map(|cost| cost.kind).collect();
    let kept = looks
        .iter()
        .copied()
        .filter(|look| look.kind == LookKind::Time || !too_dear.contains(&look.kind));
    let kept: Vec<&Look> = kept.collect();
    let blind = looks.iter().flat_map(|look| look.blind.clone()).collect();
    let failures = looks.iter().filter_map(|look| match &look.outcome {
        records::Outcome::Failed { reason } => Some(reason.clone()),
        records::Outcome::Finished { .. } => None,
    });
    Explained {
        point,
        ledger: ledger(&kept),
        costs,
        check: self_check(&looks),
        blind,
        failures: failures.collect(),
    }
}
