//! One change is one cause. Rows that change because of a cause are reported with it, not as further causes:
//!
//!     a call that is made more often   the CPU enters and leaves the kernel more often
//!     a call that waits longer         its CPUs are idle for longer, in that call
//!     a call that is made more often   the user code around it runs more often, too
//!
//! Otherwise one doubled call would be two causes, and a reader would look for a second change.

use super::super::difference::{RowChange, Split};
use super::super::{ENTRY_AND_EXIT, IDLE, USER};
use super::{Cause, CausePart, is_mostly_count};

/// Calls that make this share of all calls that came or went explain the entries and exits.
const EXPLAINED_MIN: f64 = 0.8;

/// User code that changed by up to this many times as much as a call goes with the call: an interpreter takes
/// longer to make a call than the kernel takes for it.
const AROUND_MAX: f64 = 3.0;

/// Folds causes that follow from others into these. Keeps the order.
pub(super) fn fold(causes: Vec<Cause>, difference: &RowChange) -> Vec<Cause> {
    fold_user_code(fold_waits(name_call(fold_entries(causes), difference)))
}

/// User code runs more often if it makes a call more often. The count of the call is exact; nothing counts user
/// code, so that it says less.
fn fold_user_code(mut causes: Vec<Cause>) -> Vec<Cause> {
    let is_user = |cause: &Cause| cause.path.iter().any(|row| row == USER);
    let user_ns: f64 = causes.iter().filter(|cause| is_user(cause)).map(|cause| cause.own_ns).sum();
    let makes = |cause: &Cause| {
        let is_count = is_mostly_count(&cause.change.split) == Some(true);
        call(cause).is_some() && is_count && user_ns / whole_ns(cause) > 0.0
    };
    let largest =
        |a: &usize, b: &usize| whole_ns(&causes[*a]).abs().total_cmp(&whole_ns(&causes[*b]).abs());
    let Some(at) = (0..causes.len()).filter(|at| makes(&causes[*at])).max_by(largest) else {
        return causes;
    };
    if user_ns / whole_ns(&causes[at]) > AROUND_MAX {
        return causes;
    }
    let path = causes[at].path.clone();
    let (around, mut rest): (Vec<Cause>, Vec<Cause>) = causes.drain(..).partition(is_user);
    let at = rest.iter().position(|cause| cause.path == path);
    around.into_iter().for_each(|cause| tell_with(&mut rest, at, cause));
    rest
}

/// The time that a cause adds per operation, with what follows from it.
fn whole_ns(cause: &Cause) -> f64 {
    cause.own_ns + cause.with.iter().map(|part| part.own_ns).sum::<f64>()
}

/// If no cause explains the entries, the call whose count changed by as much is the cause. Its own row may be
/// too small to test: a call can take less time than the way into the kernel and back.
fn name_call(mut causes: Vec<Cause>, difference: &RowChange) -> Vec<Cause> {
    let is_entries = |cause: &Cause| cause.change.name == ENTRY_AND_EXIT;
    let Some(at) = causes.iter().position(is_entries) else { return causes };
    let Some(entered) = more(&causes[at].change) else { return causes };
    let is_enough = |row: &&RowChange| {
        call_of(row).is_some() && more(row).is_some_and(|called| called / entered >= EXPLAINED_MIN)
    };
    let Some(row) = difference.walk().into_iter().find(is_enough) else { return causes };
    let mut path = causes[at].path.clone();
    path.pop();
    path.push(row.name.clone());
    let (own_ns, p) = (row.own_ns, causes[at].p);
    let called =
        Cause { path, own_ns, change: row.clone(), p, parts: Vec::new(), with: Vec::new() };
    let entries = std::mem::replace(&mut causes[at], called);
    tell_with(&mut causes, Some(at), entries);
    causes
}

/// Entries into the kernel and exits from it follow from the calls that are made.
fn fold_entries(mut causes: Vec<Cause>) -> Vec<Cause> {
    let is_entries = |cause: &Cause| cause.change.name == ENTRY_AND_EXIT;
    let Some(at) = causes.iter().position(is_entries) else { return causes };
    let Some(entered) = more_events(&causes[at]) else { return causes };
    let called = |cause: &Cause| match call(cause) {
        Some(_) => more_events(cause).filter(|more| more * entered > 0.0),
        None => None,
    };
    let explained: f64 = causes.iter().filter_map(called).sum();
    if explained / entered < EXPLAINED_MIN {
        return causes;
    }
    let entries = causes.remove(at);
    let most = (0..causes.len()).filter(|at| called(&causes[*at]).is_some());
    let most = most.max_by(|a, b| {
        let more = |at: usize| called(&causes[at]).unwrap_or(0.0).abs();
        more(*a).total_cmp(&more(*b))
    });
    tell_with(&mut causes, most, entries);
    causes
}

/// A CPU that is idle in a call waits for that call. The report names the smaller of both with the larger.
fn fold_waits(mut causes: Vec<Cause>) -> Vec<Cause> {
    let waits: Vec<String> = causes.iter().filter_map(wait).map(str::to_string).collect();
    for name in waits {
        let of_call = causes.iter().position(|cause| call(cause) == Some(&name));
        let of_wait = causes.iter().position(|cause| wait(cause) == Some(&name));
        let (Some(a), Some(b)) = (of_call, of_wait) else { continue };
        if causes[a].own_ns * causes[b].own_ns < 0.0 {
            continue;
        }
        let smaller = if causes[a].own_ns.abs() < causes[b].own_ns.abs() { a } else { b };
        let larger = a + b - smaller;
        let folded = causes.remove(smaller);
        tell_with(&mut causes, Some(larger - usize::from(smaller < larger)), folded);
    }
    causes
}

fn tell_with(causes: &mut [Cause], at: Option<usize>, folded: Cause) {
    if let Some(cause) = at.and_then(|at| causes.get_mut(at)) {
        cause.with.push(CausePart { name: folded.path.join(" > "), own_ns: folded.own_ns });
        cause.with.extend(folded.with);
    }
}

fn more_events(cause: &Cause) -> Option<f64> {
    more(&cause.change)
}

/// How many more events there are per operation; `None` if they are not counted.
fn more(row: &RowChange) -> Option<f64> {
    match &row.split {
        Split::CountAndCost { per_operation: (was, is), .. } if was != is => Some(is - was),
        _ => None,
    }
}

/// The call that a cause is about.
fn call(cause: &Cause) -> Option<&str> {
    call_of(&cause.change)
}

/// The call that a row is about.
fn call_of(row: &RowChange) -> Option<&str> {
    row.name.strip_prefix("system call ").filter(|_| row.name != ENTRY_AND_EXIT)
}

/// The call in which CPUs wait, if a cause is about that: "read" of "in read" or of "pipe (read)".
fn wait(cause: &Cause) -> Option<&str> {
    let name = cause.change.name.as_str();
    if cause.path.first().is_none_or(|row| row != IDLE) || name == IDLE {
        return None;
    }
    let in_parentheses = name.split_once(" (").and_then(|(_, call)| call.strip_suffix(')'));
    in_parentheses.or(name.strip_prefix("in ")).or(Some(name))
}
