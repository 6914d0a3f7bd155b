//! What a change did to the lines of an operation: rows are one if their place and the member that is written most are.

use std::collections::BTreeMap;

use answers::{ChangedLine, ConflictDifference, ConflictLine, Conflicts, LineChange};

/// Rows with fewer transfers an operation are noise of what the kernel does besides.
const LEAST: f64 = 1.0 / 32.0;

/// Counts that differ by less are one.
const EQUAL: f64 = 0.05;

/// Compares an operation on two kernels, or in two settings.
pub fn difference(before: &Conflicts, after: &Conflicts) -> ConflictDifference {
    let (old, new) = (rows(before), rows(after));
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let changed = names.into_iter().filter_map(|(place, member)| {
        let key = &(*place, *member);
        let find = |rows: &BTreeMap<(&str, &str), &ConflictLine>,
                    value: fn(&ConflictLine) -> f64| {
            rows.get(key).map_or(0.0, |line| value(line))
        };
        let transfers = [find(&old, |l| l.transfers[0]), find(&new, |l| l.transfers[0])];
        let change = change(transfers)?;
        Some(ChangedLine {
            member: (*member).to_string(),
            place: (*place).to_string(),
            change,
            transfers,
            writes: [find(&old, |l| l.writes), find(&new, |l| l.writes)],
        })
    });
    let mut changed: Vec<ChangedLine> = changed.collect();
    let size = |line: &ChangedLine| (line.transfers[1] - line.transfers[0]).abs();
    changed.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let kernel = |conflicts: &Conflicts| conflicts.instructions.map(|i| i.kernel);
    ConflictDifference {
        operation: after.operation.clone(),
        before: before.on.clone(),
        after: after.on.clone(),
        changed,
        instructions: kernel(before).zip(kernel(after)).map(|(before, after)| [before, after]),
    }
}

fn rows(conflicts: &Conflicts) -> BTreeMap<(&str, &str), &ConflictLine> {
    conflicts.lines.iter().map(|line| ((line.place.as_str(), line.member.as_str()), line)).collect()
}

fn change([before, after]: [f64; 2]) -> Option<LineChange> {
    let is_there = |transfers: f64| transfers >= LEAST;
    match (is_there(before), is_there(after)) {
        (false, false) => None,
        (true, false) => Some(LineChange::Gone),
        (false, true) => Some(LineChange::New),
        (true, true) if (after - before).abs() <= EQUAL * before.max(after) => None,
        (true, true) if after < before => Some(LineChange::Fewer),
        (true, true) => Some(LineChange::More),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_go_and_change() {
        assert_eq!(change([0.0, 0.0]), None);
        assert_eq!(change([4.0, 4.1]), None);
        assert_eq!(change([4.0, 2.0]), Some(LineChange::Fewer));
        assert_eq!(change([1.0, 2.0]), Some(LineChange::More));
        assert_eq!(change([1.0, 0.01]), Some(LineChange::Gone));
        assert_eq!(change([0.0, 1.0]), Some(LineChange::New));
    }
}
