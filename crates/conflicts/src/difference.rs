//! What a change did to the lines of an operation. A row of one line is known by its place and the member that is written
//! most. Which lines of many objects two CPUs meet on depends on where the allocator put them, so all rows of one kind of
//! object are compared together, and only a large difference counts.

use std::collections::{BTreeMap, BTreeSet};

use answers::{ChangedLine, ConflictDifference, ConflictLine, Conflicts, LineChange};

/// Rows with fewer transfers an operation are noise of what the kernel does besides.
const LEAST: f64 = 1.0 / 8.0;
/// Rows of many objects with fewer transfers an operation are noise: the allocator decides which meet.
const LEAST_OF_OBJECTS: f64 = 0.5;

/// Counts of one line that differ by a smaller share are one, and those of many objects.
const EQUAL: f64 = 0.1;
const EQUAL_OF_OBJECTS: f64 = 0.5;

/// What is compared with what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: String,
    /// The member that is written most; empty for rows of many objects.
    member: String,
}

/// Transfers and writes an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Count {
    transfers: f64,
    writes: f64,
}

/// Compares an operation on two kernels, or in two settings.
pub fn difference(before: &Conflicts, after: &Conflicts) -> ConflictDifference {
    let (old, new) = (rows(before), rows(after));
    let keys: BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
    let changed = keys.into_iter().filter_map(|key| {
        let [first, second] = [&old, &new].map(|rows| rows.get(key).copied().unwrap_or_default());
        let is_of_objects = key.member.is_empty();
        let change = change([first.transfers, second.transfers], is_of_objects)?;
        let member = if is_of_objects {
            format!("{}, lines of many", key.place)
        } else {
            key.member.clone()
        };
        Some(ChangedLine {
            member,
            place: key.place.clone(),
            change,
            transfers: [first.transfers, second.transfers],
            writes: [first.writes, second.writes],
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

fn rows(conflicts: &Conflicts) -> BTreeMap<Key, Count> {
    let mut rows: BTreeMap<Key, Count> = BTreeMap::new();
    for line in &conflicts.lines {
        let count = rows.entry(key(line)).or_default();
        count.transfers += line.transfers[0];
        count.writes += line.writes;
    }
    rows
}

fn key(line: &ConflictLine) -> Key {
    let member = if line.lines > 1 { String::new() } else { line.member.clone() };
    Key { place: line.place.clone(), member }
}

fn change([before, after]: [f64; 2], is_of_objects: bool) -> Option<LineChange> {
    let (least, equal) =
        if is_of_objects { (LEAST_OF_OBJECTS, EQUAL_OF_OBJECTS) } else { (LEAST, EQUAL) };
    let most = before.max(after);
    if most < least || (after - before).abs() <= equal * most {
        return None;
    }
    // What is left of a line that went may be chance.
    Some(match (before >= least / 4.0, after >= least / 4.0) {
        (true, false) => LineChange::Gone,
        (false, _) => LineChange::New,
        _ if after < before => LineChange::Fewer,
        _ => LineChange::More,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_go_and_change() {
        let check = |counts: [f64; 2], expected: Option<LineChange>| {
            assert_eq!(change(counts, false), expected, "{counts:?}");
        };
        check([0.0, 0.0], None);
        check([0.0, 0.1], None);
        check([4.0, 4.1], None);
        check([4.0, 2.0], Some(LineChange::Fewer));
        check([1.0, 2.0], Some(LineChange::More));
        check([1.0, 0.01], Some(LineChange::Gone));
        check([0.0, 1.0], Some(LineChange::New));
    }

    #[test]
    fn where_the_allocator_put_objects_is_no_change() {
        assert_eq!(change([1.78, 1.3], true), None);
        assert_eq!(change([0.1, 0.4], true), None);
        assert_eq!(change([0.2, 2.0], true), Some(LineChange::More));
        assert_eq!(change([0.0, 2.0], true), Some(LineChange::New));
    }
}
