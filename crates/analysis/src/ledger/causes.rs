//! Causes: the rows that make a difference, ranked.
//!
//! Rows are tested by families, from the root down. The first family is the rows of the whole and
//! those below rows that are only places (the workload, idleness, interrupts). Every other family
//! is the parts of one row, and is tested only if that row has itself changed. Holm's procedure
//! keeps the chance of any error in one family at 1 %, however its rows depend on each other. If
//! nothing differs, an error needs one in the first family, since no other is tested before: so
//! equal things have a cause in at most 1 of 100 differences, and it does not matter that samples
//! saw a hundred functions. If something differs, 1 % is the chance that a part of a row which did
//! change is named wrongly, row by row.
//!
//! Source: D. Yekutieli, "Hierarchical False Discovery Rate-Controlling Methodology", Journal of the
//! American Statistical Association 103, 2008, for families below what was rejected.

use serde::Serialize;

use super::difference::{Change, SHARE_MIN, Split};
use super::{IDLE, INTERRUPTS, OTHERS, WORK};
use crate::holm_adjusted;

/// What of a difference one row makes. No cause is part of another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// Names of the rows from below the root down to the cause.
    pub path: Vec<String>,
    /// What it adds per operation.
    pub own_ns: f64,
    /// The row.
    pub change: Change,
    /// How sure: the chance of as large a change in any row of its family were nothing different.
    pub p: f64,
    /// Rows below it that make most of it, the largest first.
    pub parts: Vec<Part>,
}

/// A row below a cause: where in it the change is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// What it adds per operation.
    pub own_ns: f64,
}

/// The chance of an error in one family.
const ALPHA: f64 = 0.01;
/// Parts that make so much of a row's change are better names for it.
const PART_MIN: f64 = 0.6;
/// A place says so little that parts which make less are still better names.
const PART_OF_PLACE_MIN: f64 = 0.3;
/// Rows on fewer samples, both sides together, are too uncertain to be tried.
const SAMPLES_MIN: u64 = 8;
/// Parts that are told of a cause.
const PARTS_MAX: usize = 3;
/// Parts that make less of a cause are not told.
const PART_TOLD_MIN: f64 = 0.1;

/// The causes of a difference: first those that push the way the whole went, the largest first,
/// then those that push against it.
pub fn causes(difference: &Change) -> Vec<Cause> {
    let least_ns = SHARE_MIN * difference.before.mean.max(difference.after.mean);
    let limits = Limits { least_ns };
    let rows = limits.tried(&difference.rows, 0.0);
    let mut causes: Vec<Cause> =
        rows.iter().flat_map(|row| limits.named(row, &mut Vec::new())).collect();
    // The whole has no direction unless it went somewhere.
    let went = difference.own_ns.abs() >= least_ns && difference.p.is_some_and(|p| p <= ALPHA);
    let is_against = |cause: &Cause| went && cause.own_ns * difference.own_ns < 0.0;
    causes.sort_by(|a, b| {
        is_against(a).cmp(&is_against(b)).then(b.own_ns.abs().total_cmp(&a.own_ns.abs()))
    });
    causes
}

/// A row after its test.
struct Tried<'a> {
    row: &'a Change,
    /// The chance of so large a change in any row of the family; 1 of a row that was not tried.
    p: f64,
    parts: Vec<Tried<'a>>,
}

struct Limits {
    least_ns: f64,
}

impl Limits {
    /// Tests rows as one family, and below those that changed their parts. No row is surer than the
    /// one above it, whose chance is `above`.
    fn tried<'a>(&self, rows: &'a [Change], above: f64) -> Vec<Tried<'a>> {
        let mut family = Vec::new();
        gather(rows, &mut family);
        let tries: Vec<f64> =
            family.iter().filter(|row| self.is_try(row)).filter_map(|row| row.p).collect();
        let adjusted = holm_adjusted(&tries).into_iter().map(|p| p.max(above));
        self.below(rows, &mut adjusted.into_iter())
    }

    /// Gives each row its chance, in the order of [`gather`].
    fn below<'a>(&self, rows: &'a [Change], ps: &mut dyn Iterator<Item = f64>) -> Vec<Tried<'a>> {
        let one = |row: &'a Change| {
            let p = if self.is_try(row) { ps.next().unwrap_or(1.0) } else { 1.0 };
            let parts = match is_place(row) {
                true => self.below(&row.rows, ps),
                false if self.is_changed(row, p) => self.tried(&row.rows, p),
                false => Vec::new(),
            };
            Tried { row, p, parts }
        };
        rows.iter().map(one).collect()
    }

    /// Whether a row is large enough on either side to be a cause.
    fn is_try(&self, row: &Change) -> bool {
        let sampled = row.samples.is_none_or(|(a, b)| a + b >= SAMPLES_MIN);
        sampled && row.p.is_some() && row.before.mean.max(row.after.mean) >= self.least_ns
    }

    fn is_changed(&self, row: &Change, p: f64) -> bool {
        p <= ALPHA && row.own_ns.abs() >= self.least_ns
    }

    /// The causes in a row: parts that say more, or else the row.
    fn named(&self, tried: &Tried, path: &mut Vec<String>) -> Vec<Cause> {
        let row = tried.row;
        path.push(row.name.clone());
        let mut parts: Vec<Cause> =
            tried.parts.iter().flat_map(|part| self.named(part, path)).collect();
        let here = path.clone();
        path.pop();
        if !self.is_changed(row, tried.p) || is_better(row, &parts) {
            return parts;
        }
        parts.retain(|part| part.own_ns / row.own_ns >= PART_TOLD_MIN);
        parts.sort_by(|a, b| b.own_ns.abs().total_cmp(&a.own_ns.abs()));
        let told = |cause: Cause| Part { name: cause.change.name, own_ns: cause.own_ns };
        let parts = parts.into_iter().take(PARTS_MAX).map(told).collect();
        let (own_ns, p) = (row.own_ns, tried.p);
        vec![Cause { path: here, own_ns, change: row.clone(), p, parts }]
    }
}

/// Rows of one family: these, and those below rows that are only places.
fn gather<'a>(rows: &'a [Change], family: &mut Vec<&'a Change>) {
    for row in rows {
        family.push(row);
        if is_place(row) {
            gather(&row.rows, family);
        }
    }
}

/// Whether a row says where time went but not what for, so that its parts have nothing in common.
fn is_place(row: &Change) -> bool {
    matches!(row.name.as_str(), WORK | IDLE | INTERRUPTS)
}

/// Whether parts are better names for a row's change than the row.
fn is_better(row: &Change, parts: &[Cause]) -> bool {
    let with = parts.iter().filter(|part| part.own_ns * row.own_ns > 0.0);
    let explained: f64 = with.map(|part| part.own_ns).sum::<f64>() / row.own_ns;
    if is_place(row) {
        return explained >= PART_OF_PLACE_MIN;
    }
    // One neighbour more or less is still the neighbours' doing. Functions below a call or a fault
    // happen as often as that is made, which is counted, and they are not.
    let is_told_by_row = row.name == OTHERS
        || (is_counted(row) && parts.iter().any(|part| !is_counted(&part.change)));
    let agree = parts.iter().all(|part| part.own_ns * row.own_ns > 0.0);
    !is_told_by_row && agree && explained >= PART_MIN
}

fn is_counted(row: &Change) -> bool {
    matches!(row.split, Split::CountAndCost { .. })
}

/// Whether a change is of how often rather than of how dear; nothing where nobody counted.
pub fn is_count(split: &Split) -> Option<bool> {
    match split {
        Split::CountAndCost { count_ns, cost_ns, .. } => Some(count_ns.abs() >= cost_ns.abs()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
