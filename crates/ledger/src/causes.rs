//! Causes: the rows that make a difference, ranked.
//!
//! Rows are tested by families, from the root down. The first family is the rows below the root,
//! with the parts of those rows that only say where time went (the workload, idleness,
//! interrupts). Every other family is the parts of one row, and is tested only if that row has
//! itself changed. Holm's procedure keeps the probability of any error in one family at 1 %,
//! however its rows depend on each other. If nothing differs, an error must begin in the first
//! family, since no other is tested before. So equal loads have a cause in at most 1 of 100
//! differences, even if samples saw a hundred functions. If something differs, 1 % is the
//! probability, for each row that did change, that one of its parts is named wrongly.
//!
//! Source: D. Yekutieli, "Hierarchical False Discovery Rate-Controlling Methodology", Journal of the
//! American Statistical Association 103, 2008, for families below what was rejected.

mod folding;

use records::Obtained;
use schemars::JsonSchema;
use serde::Serialize;

use super::difference::{RowChange, SAMPLES_MIN, SHARE_MIN, Split, counting_length};
use super::{IDLE, INTERRUPTS, LOST_PARALLELISM, NO_TASK, OTHERS, USER, WORK};
use analysis::holm_adjusted;

/// A row that makes part of a difference. No cause is part of another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    /// Names of the rows from below the root down to the cause.
    pub path: Vec<String>,
    /// The time that the row adds per operation.
    pub own_ns: f64,
    /// The row's change.
    pub change: RowChange,
    /// Probability of such a change in any row of the family if nothing is different.
    pub p: f64,
    /// The rows below that make most of the change, the largest first.
    pub parts: Vec<CausePart>,
    /// Rows elsewhere whose change follows from this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub with: Vec<CausePart>,
}

/// A row that the report names with a cause: a part of it, or a row elsewhere that follows from it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CausePart {
    /// Name of the row.
    pub name: String,
    /// The time that the row adds per operation.
    pub own_ns: f64,
}

/// Probability of an error in one family.
const ALPHA: f64 = 0.01;
/// Parts that make this share of a row's change are named instead of the row.
const PART_MIN: f64 = 0.6;
/// For rows that only say where time went, this share suffices: any part says more.
const PART_OF_CONTAINER_MIN: f64 = 0.3;
/// One function of user code is named alone if it makes this share of the change of all.
const ALONE_MIN: f64 = 0.8;
/// The largest number of parts named with a cause.
const PARTS_MAX: usize = 3;
/// Parts that make a smaller share of a cause are not named with it.
const PART_NAMED_MIN: f64 = 0.1;

/// The causes of a difference. First those in the direction of the whole difference, the largest
/// first, then those against it.
pub fn causes(difference: &RowChange) -> Vec<Cause> {
    let least_ns = SHARE_MIN * difference.before.mean.max(difference.after.mean);
    let rows = tested(&difference.rows, 0.0, least_ns);
    let mut causes: Vec<Cause> = rows.iter().flat_map(|row| named(row, &mut Vec::new())).collect();
    // Without a significant change, the whole has no direction.
    let has_direction =
        difference.own_ns.abs() >= least_ns && difference.p.is_some_and(|p| p <= ALPHA);
    let is_against = |cause: &Cause| has_direction && cause.own_ns * difference.own_ns < 0.0;
    causes.sort_by(|a, b| {
        is_against(a).cmp(&is_against(b)).then(b.own_ns.abs().total_cmp(&a.own_ns.abs()))
    });
    folding::fold(causes, difference)
}

/// A row after its test.
struct TestedRow<'a> {
    row: &'a RowChange,
    /// Probability of such a change in any row of the family; 1 for a row that was not tested.
    p: f64,
    /// Changes below this do not matter, per operation.
    least_ns: f64,
    parts: Vec<TestedRow<'a>>,
}

/// Tests rows as one family, and then the parts of those that changed. No row's p is below `above`, the
/// p of the row above it. Changes below `least_ns` do not matter.
fn tested(rows: &[RowChange], above: f64, least_ns: f64) -> Vec<TestedRow<'_>> {
    let mut family = Vec::new();
    gather(rows, least_ns, &mut family);
    let testable = family.iter().filter(|(row, least_ns)| is_testable(row, *least_ns));
    let p: Vec<f64> = testable.filter_map(|(row, _)| row.p).collect();
    let adjusted = holm_adjusted(&p).into_iter().map(|p| p.max(above));
    assign(rows, least_ns, &mut adjusted.into_iter())
}

/// Gives each row its adjusted p, in the order of [`gather`].
fn assign<'a>(
    rows: &'a [RowChange],
    least_ns: f64,
    adjusted: &mut dyn Iterator<Item = f64>,
) -> Vec<TestedRow<'a>> {
    let test = |row: &'a RowChange| {
        let p = if is_testable(row, least_ns) { adjusted.next().unwrap_or(1.0) } else { 1.0 };
        let parts = if is_container(row) {
            assign(&row.rows, least_below(row, least_ns), adjusted)
        } else if is_changed(row, p, least_ns) {
            tested(&row.rows, p, least_ns)
        } else {
            Vec::new()
        };
        TestedRow { row, p, least_ns, parts }
    };
    rows.iter().map(test).collect()
}

/// Whether a row has enough samples, and enough time on either side, to be a cause.
fn is_testable(row: &RowChange, least_ns: f64) -> bool {
    let has_samples = row.samples.is_none_or(|(a, b)| a + b >= SAMPLES_MIN);
    // What a recording leaves of idle time after its waits is no cause.
    let is_rest = row.name == NO_TASK && row.obtained == Obtained::Apportioned;
    has_samples && !is_rest && row.p.is_some() && row.before.mean.max(row.after.mean) >= least_ns
}

fn is_changed(row: &RowChange, p: f64, least_ns: f64) -> bool {
    p <= ALPHA && size(row) >= least_ns
}

/// The size of a change: of all of it, or of what its count makes. The count is exact where the cost of an
/// event is noise.
fn size(row: &RowChange) -> f64 {
    match row.split {
        Split::CountAndCost { count_ns, .. } if count_ns * row.own_ns > 0.0 => {
            row.own_ns.abs().max(count_ns.abs())
        }
        _ => row.own_ns.abs(),
    }
}

/// What matters in the parts of a row where changes of `least_ns` matter in the row.
fn least_below(row: &RowChange, least_ns: f64) -> f64 {
    if row.name != WORK {
        return least_ns;
    }
    let work_ns = row.before.mean.max(row.after.mean);
    SHARE_MIN * counting_length(work_ns, least_ns / SHARE_MIN)
}

/// The causes in a row: parts that say more, else the row itself.
fn named(tested: &TestedRow, path: &mut Vec<String>) -> Vec<Cause> {
    let row = tested.row;
    path.push(row.name.clone());
    let mut parts: Vec<Cause> = tested.parts.iter().flat_map(|part| named(part, path)).collect();
    let row_path = path.clone();
    path.pop();
    if !is_changed(row, tested.p, tested.least_ns) || parts_say_more(row, &parts) {
        return parts;
    }
    if row.name == LOST_PARALLELISM {
        return vec![lost_parallelism(row, tested.p)];
    }
    parts.retain(|part| part.own_ns / row.own_ns >= PART_NAMED_MIN);
    parts.sort_by(|a, b| b.own_ns.abs().total_cmp(&a.own_ns.abs()));
    let part = |cause: Cause| CausePart { name: cause.change.name, own_ns: cause.own_ns };
    let parts = parts.into_iter().take(PARTS_MAX).map(part).collect();
    let (own_ns, p) = (row.own_ns, tested.p);
    vec![Cause { path: row_path, own_ns, change: row.clone(), p, parts, with: Vec::new() }]
}

/// Lost parallelism as one cause of its whole size, named by what most of it was lost to.
fn lost_parallelism(row: &RowChange, p: f64) -> Cause {
    const MOST: f64 = 0.5;
    let own_ns = row.own_ns;
    let part = row.rows.iter().max_by(|a, b| (a.own_ns / own_ns).total_cmp(&(b.own_ns / own_ns)));
    let part = part.filter(|part| part.own_ns / own_ns >= MOST).map(|part| part.name.clone());
    let path = [Some(row.name.clone()), part.clone()].into_iter().flatten().collect();
    let change = RowChange { name: part.unwrap_or_else(|| row.name.clone()), ..row.clone() };
    Cause { path, own_ns, change, p, parts: Vec::new(), with: Vec::new() }
}

/// Gathers the rows of one family, each with the change that matters in it: `rows`, and the parts of those
/// that only say where time went.
fn gather<'a>(rows: &'a [RowChange], least_ns: f64, family: &mut Vec<(&'a RowChange, f64)>) {
    for row in rows {
        family.push((row, least_ns));
        if is_container(row) {
            gather(&row.rows, least_below(row, least_ns), family);
        }
    }
}

/// Whether a row says where time went but not what for, so that its parts have nothing in common.
fn is_container(row: &RowChange) -> bool {
    matches!(row.name.as_str(), WORK | IDLE | INTERRUPTS)
}

/// Whether to name the parts of a row instead of the row.
fn parts_say_more(row: &RowChange, parts: &[Cause]) -> bool {
    let agreeing = parts.iter().filter(|part| part.own_ns * row.own_ns > 0.0);
    let explained: f64 = agreeing.map(|part| part.own_ns).sum::<f64>() / row.own_ns;
    if is_container(row) {
        return explained >= PART_OF_CONTAINER_MIN;
    }
    if row.name == LOST_PARALLELISM {
        return false;
    }
    // Several functions that change together are one change of what they are parts of, however its time is divided
    // among them.
    let largest = parts.iter().map(|part| part.own_ns / row.own_ns).fold(0.0, f64::max);
    if row.name == USER && parts.len() > 1 && largest < ALONE_MIN {
        return false;
    }
    // One other task more or less is still the other tasks' doing. Functions below a system call or
    // a fault run as often as it happens; it is counted and they are not, so it says more.
    let row_says_more = row.name == OTHERS
        || (is_counted(row) && parts.iter().any(|part| !is_counted(&part.change)));
    let agree = parts.iter().all(|part| part.own_ns * row.own_ns > 0.0);
    !row_says_more && agree && explained >= PART_MIN
}

fn is_counted(row: &RowChange) -> bool {
    matches!(row.split, Split::CountAndCost { .. })
}

/// Whether a change comes more from the number of events than from the cost per event. `None` if
/// nothing counted the events.
pub fn is_mostly_count(split: &Split) -> Option<bool> {
    match split {
        Split::CountAndCost { count_ns, cost_ns, .. } => Some(count_ns.abs() >= cost_ns.abs()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
