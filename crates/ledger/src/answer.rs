//! The answer to "why does B take longer than A?": the causes of a difference, weighed against what
//! profiling itself changed.
//!
//! Profiling makes operations longer, and by more on one side than on the other. That part of the
//! difference is the profiler's doing. A cause counts if it is at least [`BEYOND`] times as large; it
//! need not be small on both sides, as a slow-down that is the same on both cancels.

use schemars::JsonSchema;
use serde::Serialize;

use super::causes::{Cause, causes, is_mostly_count};
use super::difference::{RowChange, Split, difference};
use super::explained::Explained;
use super::shared_line::SharedLine;
use super::wall::{WallTime, wall_ledger};
use super::{Ledger, OTHERS, USER, WORK};

/// A cause this many times the size of the disturbance is shown even where profiling cost too much.
pub const BEYOND: f64 = 3.0;

/// Runs of two sides whose lengths differ by less than this share look bound by time, if they are
/// as regular.
const SAME_LENGTH: f64 = 0.01;

/// Runs shorter than this are mostly the start and the end of a program.
const RUN_MIN_S: f64 = 0.02;

/// A judged difference of two points.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Answer {
    /// The difference, row by row.
    pub change: RowChange,
    /// The time by the clock on the wall before and after, if `change` is of that: both sides are programs. Otherwise
    /// it is of CPUs x time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<(WallTime, WallTime)>,
    /// The causes that count.
    pub causes: Vec<Cause>,
    /// How much of the difference may be due to profiling, in ns per unit of work; `None` if no run
    /// that was not profiled tells.
    pub disturbance_ns: Option<f64>,
    /// Number of causes that are left out: they are smaller than [`BEYOND`] disturbances.
    pub causes_within_disturbance: usize,
    /// Whether profiling slowed a side too much, and no cause stands out from that.
    pub refused: bool,
    /// Length in seconds of the shorter side's runs, if a run is the unit of work and they are too short
    /// to profile: starting a program takes about as long.
    pub too_short_s: Option<f64>,
    /// A cache line that the first cause may wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_line: Option<SharedLine>,
    /// Whether the runs of both sides took the same time whatever they did, so that a time per run
    /// says nothing about an operation.
    pub bound_by_time: bool,
}

/// Judges a difference. `force` lets all causes count. `None` if a side has no ledger.
pub fn answer(before: &Explained, after: &Explained, force: bool) -> Option<Answer> {
    let ledgers = (before.ledger.as_ref()?, after.ledger.as_ref()?);
    judged(before, after, by_wall(ledgers, (before, after)), force)
}

/// Judges how a point differs from one with fewer CPUs, by CPUs x time. Profiling costs most where tasks contend, so its
/// cost refuses nothing there unless the causes are within it.
pub fn growth_answer(before: &Explained, after: &Explained, force: bool) -> Option<Answer> {
    let free = |one: &Explained| Explained { costs: Vec::new(), ..one.clone() };
    let change = difference(before.ledger.as_ref()?, after.ledger.as_ref()?);
    let disturbance_ns = disturbance(before, after, &change);
    let mut answer = judged(&free(before), &free(after), None, force)?;
    let is_large = |cause: &Cause| disturbance_ns.is_none_or(|ns| cause.own_ns.abs() >= ns);
    if !force && answer.causes.iter().any(is_large) {
        let found = answer.causes.len();
        answer.causes.retain(is_large);
        answer.causes_within_disturbance = found - answer.causes.len();
    }
    Some(Answer { disturbance_ns, ..answer })
}

/// Judges two ledgers, those of wall time if there are any.
fn judged(
    before: &Explained,
    after: &Explained,
    by_wall: Option<(Ledger, Ledger)>,
    force: bool,
) -> Option<Answer> {
    let (a, b) = (before.ledger.as_ref()?, after.ledger.as_ref()?);
    let (a, b) = by_wall.as_ref().map_or((a, b), |(a, b)| (a, b));
    let change = difference(a, b);
    let disturbance_ns = disturbance(before, after, &change);
    let cost_too_much = before.refused().is_some() || after.refused().is_some();
    let mut causes = causes(&change);
    causes.retain(|cause| {
        cause.path[0] != OTHERS || by_wall.is_some() || held_back(before, after, cause)
    });
    let found = causes.len();
    if cost_too_much && !force {
        // Without a clean run beside it, nothing says how much of a cause is profiling.
        let limit = disturbance_ns.map_or(f64::INFINITY, |ns| BEYOND * ns);
        // How often something happens does not depend on how long it takes.
        causes.retain(|cause| is_made_by_count(cause) || cause.own_ns.abs() >= limit);
    }
    Some(Answer {
        disturbance_ns,
        causes_within_disturbance: found - causes.len(),
        refused: cost_too_much && !force && causes.is_empty(),
        too_short_s: too_short_s(before, after),
        bound_by_time: bound_by_time(before, after),
        shared_line: shared_line(before, after, &causes),
        wall: by_wall.and_then(|_| Some((before.wall.clone()?, after.wall.clone()?))),
        change,
        causes,
    })
}

/// The ledgers of wall time, if both sides are programs. CPUs in use are those of the side that uses more.
fn by_wall(
    (a, b): (&Ledger, &Ledger),
    (before, after): (&Explained, &Explained),
) -> Option<(Ledger, Ledger)> {
    let (was, is) = (before.wall.as_ref()?, after.wall.as_ref()?);
    let most = was.cpus_in_use.max(is.cpus_in_use);
    Some((wall_ledger(a, was, most)?, wall_ledger(b, is, most)?))
}

/// Whether the time of other tasks can be a cause: the workload's runnable tasks waited for a CPU by that much
/// longer, at least by half. Otherwise other tasks had CPUs that the workload left to them, because its tasks
/// slept or were fewer.
fn held_back(before: &Explained, after: &Explained, others: &Cause) -> bool {
    let waited_ns = |side: &Explained| side.waits.values().sum::<f64>();
    let is_known = !before.waits.is_empty() || !after.waits.is_empty();
    !is_known || (waited_ns(after) - waited_ns(before)) / others.own_ns >= 0.5
}

/// Whether the number of events makes a cause, and what profiling adds to each does not: they hardly happened on
/// one side, or at least half as often again.
fn is_made_by_count(cause: &Cause) -> bool {
    const MORE_MIN: f64 = 1.5;
    let Split::CountAndCost { per_operation: (was, is), .. } = cause.change.split else {
        return false;
    };
    let more = was.max(is) / was.min(is).max(f64::MIN_POSITIVE);
    is_mostly_count(&cause.change.split) == Some(true) && more >= MORE_MIN
}

/// The most by which profiling may have changed the difference, in ns per unit of work: between the
/// quartiles of what it added to either side.
fn disturbance(before: &Explained, after: &Explained, change: &RowChange) -> Option<f64> {
    let added = |side: &Explained, profiled_ns: f64| {
        let (low, high) = side.cost_of_time()?.quartiles;
        let added = |share: f64| profiled_ns * share / (1.0 + share);
        Some((added(low), added(high)))
    };
    let was = added(before, change.before.mean)?;
    let is = added(after, change.after.mean)?;
    Some((is.1 - was.0).abs().max((is.0 - was.1).abs()))
}

/// The cache line that the first cause may wait for, if it is user code of tasks that run at the same time.
fn shared_line(before: &Explained, after: &Explained, causes: &[Cause]) -> Option<SharedLine> {
    let cause = causes.first()?;
    let [work, user, ..] = &cause.path[..] else { return None };
    let slower = if cause.own_ns > 0.0 { after } else { before };
    if work != WORK || user != USER || !slower.parallel {
        return None;
    }
    let function = cause.path.get(2).or(cause.parts.first().map(|part| &part.name))?;
    let at = slower.hot_instructions.get(function).filter(|at| at.is_clear())?;
    Some(SharedLine { function: function.clone(), at: at.clone() })
}

fn too_short_s(before: &Explained, after: &Explained) -> Option<f64> {
    let lengths = [before, after].into_iter().filter_map(|side| side.run_lengths.as_ref());
    let shortest = lengths.map(|lengths| lengths.median).fold(f64::INFINITY, f64::min);
    (shortest < RUN_MIN_S).then_some(shortest)
}

fn bound_by_time(before: &Explained, after: &Explained) -> bool {
    let (Some(a), Some(b)) = (&before.run_lengths, &after.run_lengths) else { return false };
    // A busy host makes some runs longer, but never one shorter.
    let regular = |lengths: &analysis::Spread| 1.0 - lengths.min / lengths.median;
    let apart = (b.median / a.median).ln().abs();
    a.n >= 3 && b.n >= 3 && [regular(a), regular(b), apart].iter().all(|d| *d < SAME_LENGTH)
}

#[cfg(test)]
mod tests;
