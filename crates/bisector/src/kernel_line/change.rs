//! What differs between the counts of one workload on two kernels. Each kernel was booted twice, so what a count does not
//! repeat is known, and nothing is estimated: a difference is there or it is not.

use std::collections::{BTreeMap, BTreeSet};

use answers::{ChangedLine, Conflicts, Instructions, LineChange};
use conflicts::difference;
use schemars::JsonSchema;
use serde::Serialize;

use super::Counted;

/// A difference is told from so many times what one kernel's counts differ by, as `knee gate --exact` does.
const SPREADS: f64 = 4.0;

/// The mean operation must differ by this share: two boots do not show all that batches of chance do to it.
const OF_MEAN: f64 = 0.05;

/// Functions that are named.
const FUNCTIONS: usize = 6;

/// A function that an operation executes fewer more instructions of, or less, is not named.
const OF_A_FUNCTION: f64 = 1.0;

/// Transfers an operation from which a line that is new, or needed more often, is a change for the worse.
const TRANSFERS: f64 = 0.5;

/// What two boots of a kernel counted: on the fewest CPUs, and on the most if those are several.
#[derive(Clone, Debug, Default)]
pub(super) struct Sides<'a> {
    pub alone: Vec<&'a Counted>,
    pub together: Vec<&'a Counted>,
}

/// How a workload's counts differ.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Absent where they differ by less than what matters, or than the counts themselves do.
    pub instructions: Option<InstructionChange>,
    /// The functions with the largest differences, if instructions differ.
    pub functions: Vec<FunctionChange>,
    /// Lines that both boots of both kernels agree about.
    pub lines: Vec<ChangedLine>,
    /// Whether something looked changed and did not repeat.
    pub has_unsteady: bool,
}

/// Instructions an operation executes in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InstructionChange {
    /// On the earlier kernel.
    pub before: f64,
    /// On the later one.
    pub after: f64,
    /// What the counts of one kernel differ by; 0 if they repeat.
    pub spread: f64,
    /// Whether the mean operation changed, and the median one did not: the difference is in what only some operations do.
    pub of_mean: bool,
}

/// Instructions an operation executes in a function of the kernel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FunctionChange {
    /// The function's name, without what compilers add to it.
    pub function: String,
    /// On the earlier kernel; 0 where it was not executed.
    pub before: f64,
    /// On the later kernel.
    pub after: f64,
}

impl InstructionChange {
    /// The change as a share.
    pub fn share(&self) -> f64 {
        self.after / self.before.max(1.0) - 1.0
    }
}

impl Difference {
    /// Whether there is something to say.
    pub fn is_change(&self) -> bool {
        self.instructions.is_some() || !self.lines.is_empty()
    }

    /// Whether an operation executes more, or needs a line that it did not need as often.
    pub fn is_worse(&self) -> bool {
        self.instructions.is_some_and(|change| change.after > change.before)
            || self.lines.iter().any(is_worse)
    }
}

/// Whether a line's change costs more CPUs their speed.
pub(super) fn is_worse(line: &ChangedLine) -> bool {
    let [before, after] = line.transfers;
    match line.change {
        LineChange::New | LineChange::More => after - before >= TRANSFERS,
        LineChange::Joined => after >= TRANSFERS,
        LineChange::Gone | LineChange::Fewer | LineChange::Split => false,
    }
}

/// Compares a workload's counts on two kernels. `smallest` is a share of instructions.
pub(super) fn compare(before: &Sides, after: &Sides, smallest: f64) -> Difference {
    let mut found = Difference::default();
    match instructions(&before.alone, &after.alone, smallest) {
        Found::Change(change) => {
            found.functions = functions(&before.alone, &after.alone, change);
            found.instructions = Some(change);
        }
        Found::Unsteady => found.has_unsteady = true,
        Found::Nothing => (),
    }
    if let ([first, second], [new_first, new_second]) = (&before.together[..], &after.together[..])
        && first.without_types == new_first.without_types
    {
        let (lines, has_unsteady) = lines([first, second], [new_first, new_second]);
        found.lines = lines;
        found.has_unsteady |= has_unsteady;
    }
    found
}

enum Found<T> {
    Change(T),
    Unsteady,
    Nothing,
}

/// Compares the median operation; if it is alike, the mean one.
fn instructions(
    before: &[&Counted],
    after: &[&Counted],
    smallest: f64,
) -> Found<InstructionChange> {
    let median = apart(&values(before, medians), &values(after, medians), smallest, false);
    match median {
        Found::Nothing => {
            let means = |one: &Instructions| [one.kernel_mean; 2];
            let smallest = smallest.max(OF_MEAN);
            apart(&values(before, means), &values(after, means), smallest, true)
        }
        median => median,
    }
}

fn medians(one: &Instructions) -> [f64; 2] {
    [one.kernel, one.kernel_again]
}

fn values(counted: &[&Counted], of: impl Fn(&Instructions) -> [f64; 2]) -> Vec<f64> {
    let instructions = counted.iter().filter_map(|one| one.counts.as_ref()?.instructions);
    instructions.flat_map(|one| of(&one)).collect()
}

fn apart(before: &[f64], after: &[f64], smallest: f64, of_mean: bool) -> Found<InstructionChange> {
    let (Some((low, high)), Some((new_low, new_high))) = (range(before), range(after)) else {
        return Found::Nothing;
    };
    let spread = (high - low).max(new_high - new_low);
    let (before, after) = (f64::midpoint(low, high), f64::midpoint(new_low, new_high));
    let distance = (after - before).abs();
    if distance < smallest * before.max(1.0) || distance == 0.0 {
        return Found::Nothing;
    }
    if distance <= SPREADS * spread {
        return Found::Unsteady;
    }
    Found::Change(InstructionChange { before, after, spread, of_mean })
}

/// The smallest and the largest.
fn range(values: &[f64]) -> Option<(f64, f64)> {
    let low = values.iter().copied().reduce(f64::min)?;
    Some((low, values.iter().copied().fold(low, f64::max)))
}

/// What the median operation of a workload differs by from boot to boot, and from window to window.
pub(super) fn spread(counted: &[&Counted]) -> Option<(f64, f64)> {
    range(&values(counted, medians))
}

/// The functions that differ most, in the direction of the whole first.
fn functions(
    before: &[&Counted],
    after: &[&Counted],
    change: InstructionChange,
) -> Vec<FunctionChange> {
    let names: BTreeSet<&String> =
        before.iter().chain(after).flat_map(|one| one.functions.keys()).collect();
    let of = |side: &[&Counted], name: &String| -> Vec<f64> {
        side.iter().map(|one| one.functions.get(name).copied().unwrap_or(0.0)).collect()
    };
    let changed = names.into_iter().filter_map(|name| {
        let found = apart(&of(before, name), &of(after, name), 0.0, true);
        let Found::Change(InstructionChange { before, after, .. }) = found else { return None };
        let is_named = (after - before).abs() >= OF_A_FUNCTION;
        is_named.then(|| FunctionChange { function: name.clone(), before, after })
    });
    let mut changed: Vec<FunctionChange> = changed.collect();
    let direction = (change.after - change.before).signum();
    let size = |one: &FunctionChange| {
        let size = (one.after - one.before) * direction;
        // What goes against the whole is told only where it is large.
        if size < 0.0 { -size / 2.0 } else { size }
    };
    changed.sort_by(|a, b| size(b).total_cmp(&size(a)));
    changed.truncate(FUNCTIONS);
    changed
}

/// The lines whose change the first boots show, the second boots, too, and no two boots of one kernel; and whether there were
/// others.
fn lines(before: [&Counted; 2], after: [&Counted; 2]) -> (Vec<ChangedLine>, bool) {
    let changed = |first: &Counted, second: &Counted| -> BTreeMap<(String, String), ChangedLine> {
        let none = Conflicts::default();
        let [first, second] = [first, second].map(|one| one.counts.as_ref().unwrap_or(&none));
        let changed = difference(first, second).changed.into_iter();
        changed.map(|line| ((line.place.clone(), line.member.clone()), line)).collect()
    };
    let mut by_chance = changed(before[0], before[1]);
    by_chance.extend(changed(after[0], after[1]));
    let again = changed(before[1], after[1]);
    let found = changed(before[0], after[0]);
    let all = found.len();
    let repeats = |(key, line): (&(String, String), &ChangedLine)| {
        let is_again = again.get(key).is_some_and(|other| other.change == line.change);
        is_again && !by_chance.contains_key(key)
    };
    let mut steady: Vec<ChangedLine> =
        found.iter().filter(|line| repeats(*line)).map(|(_, line)| line.clone()).collect();
    let size = |line: &ChangedLine| (line.transfers[1] - line.transfers[0]).abs();
    steady.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let has_unsteady = steady.len() < all;
    (steady, has_unsteady)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(medians: [f64; 2], mean: f64, functions: &[(&str, f64)]) -> Counted {
        let [kernel, kernel_again] = medians;
        let instructions = Instructions { kernel, kernel_again, kernel_mean: mean, user: 10.0 };
        Counted {
            kernel: "6.1".to_string(),
            boot: 1,
            workload: "stat".to_string(),
            cpus: 1,
            semantics: 1,
            seconds: 1.0,
            counts: Some(Conflicts { instructions: Some(instructions), ..Conflicts::default() }),
            functions: functions.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            failed: None,
            without_types: false,
            died: false,
        }
    }

    fn found(before: [&Counted; 2], after: [&Counted; 2]) -> Difference {
        let [before, after] =
            [before, after].map(|both| Sides { alone: both.to_vec(), together: Vec::new() });
        compare(&before, &after, 0.01)
    }

    #[test]
    fn a_count_that_does_not_repeat_must_differ_by_four_times_that() {
        let check = |before: [f64; 2], after: [f64; 2], change: bool, unsteady: bool| {
            let [a, b] = before.map(|count| counted([count; 2], count, &[]));
            let [c, d] = after.map(|count| counted([count; 2], count, &[]));
            let found = found([&a, &b], [&c, &d]);
            let is = (found.instructions.is_some(), found.has_unsteady);
            assert_eq!(is, (change, unsteady), "{before:?} {after:?}");
        };
        check([1000.0, 1000.0], [1000.0, 1000.0], false, false);
        check([1000.0, 1000.0], [1009.0, 1009.0], false, false);
        check([1000.0, 1000.0], [1011.0, 1011.0], true, false);
        check([1000.0, 1010.0], [1030.0, 1030.0], false, true);
        check([1000.0, 1010.0], [1050.0, 1050.0], true, false);
        check([0.0, 0.0], [0.0, 0.0], false, false);
    }

    #[test]
    fn what_only_some_operations_do_shows_in_the_mean() {
        let before = counted([1000.0; 2], 1100.0, &[]);
        let after = counted([1000.0; 2], 1300.0, &[]);
        let change = found([&before, &before], [&after, &after]).instructions.unwrap();
        assert!(change.of_mean);
        assert_eq!((change.before, change.after), (1100.0, 1300.0));
    }

    #[test]
    fn the_functions_where_instructions_went_are_named() {
        let before = counted([1000.0; 2], 1000.0, &[("walk", 100.0), ("old", 50.0), ("same", 9.0)]);
        let after = counted([1100.0; 2], 1100.0, &[("walk", 220.0), ("new", 30.0), ("same", 9.0)]);
        let functions = found([&before, &before], [&after, &after]).functions;
        let named: Vec<(&str, f64)> =
            functions.iter().map(|one| (one.function.as_str(), one.after - one.before)).collect();
        assert_eq!(named, [("walk", 120.0), ("new", 30.0), ("old", -50.0)]);
    }
}
