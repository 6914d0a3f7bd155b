//! One change is one cause. Rows that change because of a cause are reported with it, not as further causes:
//!
//!     a call that is made more often   the CPU enters and leaves the kernel more often
//!     a call that waits longer         its CPUs are idle for longer, in that call
//!     a call that is made more often   the user code around it runs more often, too
//!     a call that is made more often   another call of the same loop is, as often
//!
//!     a process that is started        its faults, its calls and its end
//!
//! Otherwise one doubled call would be two causes, and a reader would look for a second change.

use super::super::difference::{RowChange, Split};
use super::super::sampled::{FAULTS, GONE, OTHER as OUTSIDE};
use super::super::{ENTRY_AND_EXIT, IDLE, PerOperation, USER, WORK};
use super::{Cause, CausePart, PARTS_MAX, is_mostly_count};

/// Rows of calls begin with this.
const CALL: &str = "system call ";

/// Calls that make this share of all calls that came or went explain the entries and exits.
const EXPLAINED_MIN: f64 = 0.8;

/// A call whose change is at most this probable by chance may have made entries that nothing counts.
const LIKELY_P: f64 = 0.05;

/// User code that changed by up to this many times as much as a call goes with the call: an interpreter takes
/// longer to make a call than the kernel takes for it, and it does so in many functions.
const AROUND_MAX: f64 = 3.0;
/// A single function of user code goes with a call only if it changed by no more than this many times as much: it
/// may well have changed by itself.
const FUNCTION_MAX: f64 = 1.0;

/// Folds causes that follow from others into these. Keeps the order.
pub(super) fn fold(causes: Vec<Cause>, difference: &RowChange) -> Vec<Cause> {
    let causes = fold_processes(causes, difference);
    fold_user_code(fold_waits(fold_loops(name_call(fold_entries(causes), difference))))
}

/// Additional calls of two kinds whose numbers differ by at most this share are made by one loop.
const IN_STEP: f64 = 0.02;

/// Calls of which as many came, or went, are one change: a program that copies with a smaller buffer reads and writes
/// more often. The largest keeps its name.
fn fold_loops(causes: Vec<Cause>) -> Vec<Cause> {
    let calls = |cause: &Cause| {
        let is_count = is_mostly_count(&cause.change.split) == Some(true);
        call(cause).filter(|_| is_count).and_then(|_| more_events(cause))
    };
    let mut folded: Vec<Cause> = Vec::new();
    for cause in causes {
        let in_step = |other: &Cause| {
            let times = calls(&cause)? / calls(other)?;
            Some((times - 1.0).abs() <= IN_STEP && cause.own_ns * other.own_ns > 0.0)
        };
        let at = folded.iter().position(|other| in_step(other) == Some(true));
        match at {
            Some(_) => tell_with(&mut folded, at, cause),
            None => folded.push(cause),
        }
    }
    folded
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
    let is_function = |cause: &Cause| is_user(cause) && cause.change.name != USER;
    let most = if causes.iter().any(is_function) { FUNCTION_MAX } else { AROUND_MAX };
    if user_ns / whole_ns(&causes[at]) > most {
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
    let Some(at) = causes.iter().position(is_entries) else { return causes };
    let calls = difference.walk().into_iter().filter(|row| call_of(row).is_some());
    let row = match more(&causes[at].change) {
        Some(entered) => {
            let share = |row: &RowChange| more(row).map_or(0.0, |called| called / entered);
            calls.into_iter().find(|row| share(row) >= EXPLAINED_MIN)
        }
        None => likeliest(calls, &causes[at]),
    };
    let Some(row) = row else { return causes };
    let above = causes[at].path.iter().take_while(|name| *name != ENTRY_AND_EXIT);
    let path = above.chain([&row.name]).cloned().collect();
    let (own_ns, p) = (row.own_ns, causes[at].p);
    let called =
        Cause { path, own_ns, change: row.clone(), p, parts: Vec::new(), with: Vec::new() };
    let entries = std::mem::replace(&mut causes[at], called);
    tell_with(&mut causes, Some(at), entries);
    causes
}

/// The call that most likely makes the entries, where nothing counts them: the one that surely changed most with
/// them.
fn likeliest<'a>(
    calls: impl Iterator<Item = &'a RowChange>,
    entries: &Cause,
) -> Option<&'a RowChange> {
    let p = |row: &RowChange| row.p.unwrap_or(1.0);
    calls
        .filter(|row| row.own_ns * entries.own_ns > 0.0 && p(row) <= LIKELY_P)
        .min_by(|a, b| p(a).total_cmp(&p(b)))
}

/// Entries into the kernel and exits from it follow from the calls that are made.
fn fold_entries(mut causes: Vec<Cause>) -> Vec<Cause> {
    let Some(at) = causes.iter().position(is_entries) else { return causes };
    // Where nothing counts, time has to do.
    let entered = more_events(&causes[at]).unwrap_or(causes[at].own_ns);
    let is_counted = more_events(&causes[at]).is_some();
    let called = |cause: &Cause| {
        call(cause)?;
        let more = if is_counted { more_events(cause)? } else { cause.own_ns };
        Some(more).filter(|more| more * entered > 0.0)
    };
    let explained: f64 = causes.iter().filter_map(called).sum();
    if explained == 0.0 || (is_counted && explained / entered < EXPLAINED_MIN) {
        return causes;
    }
    let entries = causes.remove(at);
    let most = (0..causes.len()).filter(|at| called(&causes[*at]).is_some());
    let most = most.max_by(|a, b| {
        let more = |at: usize| called(&causes[at]).unwrap_or(0.0).abs();
        more(*a).total_cmp(&more(*b))
    });
    tell_with(&mut causes, most, entries);
    // Where nothing counts them, several functions of the entry may have changed.
    fold_entries(causes)
}

/// Whether a cause is the way into the kernel and out of it, or a function of that.
fn is_entries(cause: &Cause) -> bool {
    cause.path.iter().any(|row| row == ENTRY_AND_EXIT)
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

/// The call that a cause is about, or a function of.
fn call(cause: &Cause) -> Option<&str> {
    let row = cause.path.iter().find(|row| row.starts_with(CALL) && *row != ENTRY_AND_EXIT)?;
    row.strip_prefix(CALL)
}

/// The call that a row is about.
fn call_of(row: &RowChange) -> Option<&str> {
    row.name.strip_prefix(CALL).filter(|_| row.name != ENTRY_AND_EXIT)
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

/// Calls that start a process. Some start a thread instead, so that the program is counted as well.
const STARTS: [&str; 4] = ["clone", "clone3", "fork", "vfork"];
/// The name of the cause that processes are.
const PROCESSES: &str = "processes";
/// Fewer processes than this times as many are no cause by themselves.
const MORE_PROCESSES_MIN: f64 = 1.2;
/// Processes are the cause if their own rows make this share of the difference.
const PROCESSES_MIN: f64 = 0.4;
/// Each process has at least this number of page faults; a thread has fewer.
const FAULTS_MIN: f64 = 20.0;

/// More processes are one cause: their page faults, their calls, and the code that starts and ends them.
fn fold_processes(causes: Vec<Cause>, difference: &RowChange) -> Vec<Cause> {
    let rows = difference.walk();
    let counts = |row: &RowChange| match row.split {
        Split::CountAndCost { per_operation, .. } => Some(per_operation),
        _ => None,
    };
    let sum = |names: &[&str]| {
        let calls =
            rows.iter().filter(|row| call_of(row).is_some_and(|call| names.contains(&call)));
        calls.filter_map(|row| counts(row)).fold((0.0, 0.0), |sum, n| (sum.0 + n.0, sum.1 + n.1))
    };
    // One process is started by knee, which is not counted.
    let (was, is) = sum(&STARTS);
    let (was, is) = (was + 1.0, is + 1.0);
    let faults = rows.iter().find(|row| row.name == FAULTS).and_then(|row| counts(row));
    let of_each = faults.map_or(0.0, |(before, after)| (after - before) / (is - was));
    let more = (is - was).abs();
    let is_many = more >= 1.0 && was.max(is) / was.min(is) >= MORE_PROCESSES_MIN;
    if !is_many || of_each < FAULTS_MIN {
        return causes;
    }
    let mut parts = Vec::new();
    rows_of_processes(difference, &mut Vec::new(), is - was, &mut parts);
    parts.retain(|(_, row)| row.own_ns * (is - was) > 0.0);
    // The whole workload is a cause where none of its rows surely changed: then the counted processes say more.
    let is_part = |cause: &Cause| {
        cause.path == [WORK] || parts.iter().any(|(path, _)| cause.path.starts_with(path))
    };
    let own_ns: f64 = parts.iter().map(|(_, row)| row.own_ns).sum();
    if own_ns / difference.own_ns < PROCESSES_MIN || !causes.iter().any(is_part) {
        return causes;
    }
    let p = causes.iter().filter(|cause| is_part(cause)).map(|cause| cause.p).fold(1.0, f64::min);
    let mut rest: Vec<Cause> = causes.iter().filter(|cause| !is_part(cause)).cloned().collect();
    parts.sort_by(|a, b| b.1.own_ns.abs().total_cmp(&a.1.own_ns.abs()));
    let parts: Vec<&RowChange> = parts.into_iter().map(|(_, row)| row).collect();
    rest.insert(0, processes(&parts, (was, is), p));
    rest
}

/// The rows that each process has, with their paths: its faults and its code, the calls that are made for it, and what
/// waits for it.
fn rows_of_processes<'a>(
    row: &'a RowChange,
    path: &mut Vec<String>,
    more_processes: f64,
    rows: &mut Vec<(Vec<String>, &'a RowChange)>,
) {
    const WAITS: [&str; 4] = ["wait for a child", "wake-up", "in vfork", "in clone"];
    let is_call =
        call_of(row).is_some() && more(row).is_some_and(|more| more / more_processes >= 0.5);
    let is_wait = WAITS.iter().any(|wait| row.name.starts_with(wait));
    let is_own = [FAULTS, ENTRY_AND_EXIT, OUTSIDE, GONE].contains(&row.name.as_str());
    if is_call || is_wait || is_own {
        return rows.push((path.clone(), row));
    }
    for part in &row.rows {
        path.push(part.name.clone());
        rows_of_processes(part, path, more_processes, rows);
        path.pop();
    }
}

/// A cause of these parts, with the number of processes before and after.
fn processes(parts: &[&RowChange], per_operation: (f64, f64), p: f64) -> Cause {
    let own_ns: f64 = parts.iter().map(|part| part.own_ns).sum();
    let each = own_ns / (per_operation.1 - per_operation.0);
    let split = Split::CountAndCost {
        event: "process".to_string(),
        per_operation,
        cost_per_event: (Some(each), Some(each)),
        count_ns: own_ns,
        cost_ns: 0.0,
    };
    let sum = |value: fn(&RowChange) -> f64| parts.iter().map(|part| value(part)).sum::<f64>();
    let interval = parts
        .iter()
        .map(|part| part.own_interval)
        .reduce(|a, b| a.zip(b).map(|(a, b)| (a.0 + b.0, a.1 + b.1)));
    let mean = |mean| PerOperation { mean, half: None };
    let change = RowChange {
        name: PROCESSES.to_string(),
        before: mean(sum(|row| row.before.mean)),
        after: mean(sum(|row| row.after.mean)),
        change: sum(|row| row.change),
        half: None,
        own_ns,
        own_interval: interval.flatten(),
        split,
        rows: Vec::new(),
        samples: None,
        ..parts[0].clone()
    };
    let part = |row: &&RowChange| CausePart { name: row.name.clone(), own_ns: row.own_ns };
    let path = vec![WORK.to_string(), PROCESSES.to_string()];
    let parts = parts.iter().take(PARTS_MAX).map(part).collect();
    Cause { path, own_ns, change, p, parts, with: Vec::new() }
}
