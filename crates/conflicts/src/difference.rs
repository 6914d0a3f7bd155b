//! What a change did to the lines of an operation. A row of one line is known by its place and the member that is written
//! most. Which lines of many objects two CPUs meet on depends on where the allocator put them, so all rows of one kind of
//! object are compared together, and only a large difference counts.

use std::collections::{BTreeMap, BTreeSet};

use answers::{ChangedLine, ConflictDifference, ConflictLine, Conflicts, LineChange};

/// Rows with fewer transfers an operation are noise of what the kernel does besides.
const LEAST: f64 = 1.0 / 8.0;
/// Rows of many objects with fewer transfers an operation are noise: the allocator decides which meet.
const LEAST_OF_OBJECTS: f64 = 0.5;

/// Counts of one line that differ by a smaller share are one; and those of what happens once a batch, or of many objects,
/// of which a window has few.
const EQUAL: f64 = 0.1;
const EQUAL_OF_BATCHES: f64 = 0.5;

/// A number of transfers this near to a whole one is one.
const WHOLE: f64 = 0.05;

/// Members that an operation accesses less often share the line by chance.
const ACCESSED: f64 = 0.5;

/// What is compared with what.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: String,
    /// The member that is written most; empty for rows of many objects.
    member: String,
}

/// What is known of a row.
#[derive(Clone, Debug, Default, PartialEq)]
struct Row {
    transfers: f64,
    writes: f64,
    /// Whether it is so much in each operation: a whole number, in both windows.
    is_whole: bool,
    /// The functions that write it.
    writers: BTreeSet<String>,
    /// The members that an operation accesses on a single line.
    members: BTreeSet<String>,
}

type Rows = BTreeMap<Key, Row>;

/// Compares an operation on two kernels, or in two settings.
pub fn difference(before: &Conflicts, after: &Conflicts) -> ConflictDifference {
    let (old, mut new) = (rows(before), rows(after));
    name_alike(&old, &mut new);
    let keys: BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
    let none = Row::default();
    let changed = keys.into_iter().filter_map(|key| {
        let [first, second] = [&old, &new].map(|rows| rows.get(key).unwrap_or(&none));
        changed_line(key, first, second)
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

fn changed_line(key: &Key, first: &Row, second: &Row) -> Option<ChangedLine> {
    let is_of_objects = key.member.is_empty();
    let only = |a: &Row, b: &Row| a.members.difference(&b.members).cloned().collect::<Vec<_>>();
    let (left, joined) = (only(first, second), only(second, first));
    let is_in_both = first.transfers >= LEAST && second.transfers >= LEAST;
    let is_whole = first.is_whole && second.is_whole;
    let moved = match (is_in_both, joined.is_empty(), left.is_empty()) {
        (true, false, _) => Some(LineChange::Joined),
        (true, true, false) => Some(LineChange::Split),
        _ => None,
    };
    let counts = [first.transfers, second.transfers];
    let change = change(counts, is_of_objects, is_whole).or(moved)?;
    let member =
        if is_of_objects { format!("{}, lines of many", key.place) } else { key.member.clone() };
    Some(ChangedLine {
        member,
        place: key.place.clone(),
        change,
        transfers: [first.transfers, second.transfers],
        writes: [first.writes, second.writes],
        left: if is_in_both { left } else { Vec::new() },
        joined: if is_in_both { joined } else { Vec::new() },
    })
}

fn rows(conflicts: &Conflicts) -> Rows {
    let mut rows = Rows::new();
    for line in &conflicts.lines {
        let row = rows.entry(key(line)).or_default();
        row.transfers += line.transfers[0];
        row.writes += line.writes;
        let is_whole = (line.transfers[0] - line.transfers[0].round()).abs() < WHOLE;
        row.is_whole = is_whole && line.is_steady;
        row.writers.extend(line.members.iter().flat_map(|member| member.written_by.clone()));
        let accessed = line.members.iter().filter(|m| m.reads + m.writes >= ACCESSED);
        let named = accessed.flat_map(|member| member.names.first().cloned());
        row.members.extend(named.filter(|_| is_single(line)));
    }
    rows
}

/// A row may have another name on another kernel: a guess is another one, a member became a structure, or moved within its own.
/// It is the same row if its new name only says more, or if the same functions write it and one of both names is a guess or
/// both are of one variable or type.
fn name_alike(old: &Rows, new: &mut Rows) {
    let unmatched: Vec<Key> = new.keys().filter(|key| !old.contains_key(key)).cloned().collect();
    for key in unmatched {
        let row = new[&key].clone();
        let is_same = |(other, old_row): &(&Key, &Row)| {
            !new.contains_key(other)
                && key.member.is_empty() == other.member.is_empty()
                && (key.says_as_much(other)
                    || (key.is_guess() || other.is_guess() || key.root() == other.root())
                        && are_mostly_one(&old_row.writers, &row.writers))
        };
        let alike = |(other, _): &(&Key, &Row)| key.says_as_much(other);
        if let Some((other, _)) = old.iter().filter(is_same).max_by_key(alike) {
            let other = other.clone();
            new.remove(&key);
            // The members have other names, too.
            new.insert(other.clone(), Row { members: old[&other].members.clone(), ..row });
        }
    }
}

/// Whether two sets have more in common than each of its own.
fn are_mostly_one(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let common = a.intersection(b).count();
    common > 0 && 2 * common >= a.len().max(b.len())
}

/// What follows the name of a variable or a type.
const AFTER_ROOT: [char; 4] = ['.', '+', '[', '?'];

impl Key {
    fn is_guess(&self) -> bool {
        self.place.contains('?')
    }

    /// The variable or type, or the kind of memory.
    fn root(&self) -> &str {
        let place = self.place.split(" written by ").next().unwrap_or_default();
        place.split(AFTER_ROOT).next().unwrap_or_default()
    }

    /// Whether one of two names of members is the other one and more: `page.flags` and `page.flags.f`.
    fn says_as_much(&self, other: &Key) -> bool {
        let mut both = [&self.member, &other.member];
        both.sort_by_key(|member| member.len());
        let [short, long] = both;
        let rest = long.strip_prefix(short.trim_end_matches('?'));
        !short.is_empty() && rest.is_some_and(|rest| rest.starts_with(AFTER_ROOT))
    }
}

/// Whether a row is one line that has the same members wherever the allocator puts it.
fn is_single(line: &ConflictLine) -> bool {
    line.lines == 1 && !line.is_placed_by_chance
}

fn key(line: &ConflictLine) -> Key {
    let member = if is_single(line) { line.member.clone() } else { String::new() };
    Key { place: line.place.clone(), member }
}

fn change([before, after]: [f64; 2], is_of_objects: bool, is_whole: bool) -> Option<LineChange> {
    let least = if is_of_objects { LEAST_OF_OBJECTS } else { LEAST };
    let equal = if is_whole && !is_of_objects { EQUAL } else { EQUAL_OF_BATCHES };
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
            assert_eq!(change(counts, false, true), expected, "{counts:?}");
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
    fn members_leave_and_join_a_line_that_stays() {
        let row = |members: &[&str]| Row {
            transfers: 2.0,
            members: members.iter().map(|name| name.to_string()).collect(),
            ..Row::default()
        };
        let key = Key { place: "dentry".to_string(), member: "dentry.d_lockref".to_string() };
        let check = |before: &[&str], after: &[&str], expected: Option<LineChange>| {
            let changed = changed_line(&key, &row(before), &row(after));
            assert_eq!(changed.map(|line| line.change), expected, "{before:?} {after:?}");
        };
        check(&["d_lockref", "d_inode"], &["d_lockref", "d_inode"], None);
        check(&["d_lockref", "d_inode"], &["d_lockref"], Some(LineChange::Split));
        check(&["d_lockref"], &["d_lockref", "d_inode"], Some(LineChange::Joined));
    }

    #[test]
    fn a_guess_that_differs_is_no_change() {
        let key = |place: &str| Key { place: place.to_string(), member: format!("{place}.list") };
        let row = |writers: &[&str]| Row {
            transfers: 2.0,
            writers: writers.iter().map(|name| name.to_string()).collect(),
            ..Row::default()
        };
        let check = |place: &str, writers: &[&str], expected: bool| {
            let old = Rows::from([(key("super_block?"), row(&["evict", "sb_list_add"]))]);
            let mut new = Rows::from([(key(place), row(writers))]);
            name_alike(&old, &mut new);
            assert_eq!(new.contains_key(&key("super_block?")), expected, "{place} {writers:?}");
        };
        check("bdev_inode?", &["evict", "sb_list_add"], true);
        check("bdev_inode?", &["evict", "other", "another"], false);
        check("inode", &["nothing"], false);
    }

    #[test]
    fn a_member_that_is_called_otherwise_is_the_same() {
        let check = |before: [&str; 2], after: [&str; 2], writers: [&str; 2], expected: bool| {
            let key = |[place, member]: [&str; 2]| Key {
                place: place.to_string(),
                member: member.to_string(),
            };
            let row = |writer: &str| Row {
                writers: BTreeSet::from([writer.to_string()]),
                ..Row::default()
            };
            let old = Rows::from([(key(before), row(writers[0]))]);
            let mut new = Rows::from([(key(after), row(writers[1]))]);
            name_alike(&old, &mut new);
            assert_eq!(new.contains_key(&key(before)), expected, "{before:?} {after:?}");
        };
        let others = ["a", "b"];
        check(["page", "page.flags"], ["page", "page.flags.f"], others, true);
        check(["mount_lock", "mount_lock"], ["mount_lock", "mount_lock+4"], others, true);
        check(["page", "page.flags"], ["page", "page.flagship"], others, false);
        check(["a", "a.count?"], ["a", "a.count.refcnt?"], others, true);
        // Other members of one structure, by the same functions and by others.
        check(["ns", "ns+40"], ["ns", "ns.allocated"], ["a", "a"], true);
        check(["ns", "ns.lock"], ["ns", "ns.list"], others, false);
        check(["ns", "ns.lock"], ["other", "other.lock"], ["a", "a"], false);
        let content = |writer| [writer, ""];
        let (rep, tagged) =
            ("a page's content written by clear_rep", "a page's content written by clear_tagged");
        check(content(rep), content(tagged), ["a", "a"], true);
        check(content(rep), content(tagged), others, false);
    }

    #[test]
    fn where_the_allocator_put_objects_is_no_change() {
        assert_eq!(change([1.05, 0.94], false, false), None);
        assert_eq!(change([1.78, 1.3], true, false), None);
        assert_eq!(change([0.1, 0.4], true, false), None);
        assert_eq!(change([0.2, 2.0], true, false), Some(LineChange::More));
        assert_eq!(change([0.0, 2.0], true, false), Some(LineChange::New));
    }
}
