//! Two looks at running programs against each other, as a part of a page: what moved most in a sentence, and all that was
//! compared in tables.

use live::{
    ComparedLook, LiveCauseKind, LiveChange, LiveComparison, LiveQuantity, LiveUnit, LiveVerdict,
};
use text::prose::counted;
use text::quantity::{duration_ns, fixed, short, signed};
use text::table::{Align, Table};

use super::lock_in_words;
use crate::ledger::LedgerPart;

/// Rows of a table.
const ROWS: usize = 16;
/// Sentences below the first.
const SENTENCES: usize = 6;

/// The part of a page about what changed between two looks.
pub fn compared_part(comparison: &LiveComparison) -> LedgerPart {
    let moved = moved(comparison);
    let first = headline(&moved);
    let others = moved.iter().filter(|change| Some(**change) != first && !is_rate(change));
    let mut causes: Vec<String> = others
        .filter(|change| is_worth_a_sentence(change))
        .take(SENTENCES)
        .map(|c| sentence(c))
        .collect();
    if !causes.is_empty() {
        causes.insert(0, "Also:".to_string());
    }
    LedgerPart {
        title: title(comparison),
        answer: first_sentence(comparison),
        causes,
        tree: None,
        tables: tables(comparison),
        notes: notes(comparison),
        flame: None,
    }
}

fn title(comparison: &LiveComparison) -> String {
    let (before, after) = (&comparison.before.subject, &comparison.after.subject);
    if before == after {
        format!("{after}: before → after")
    } else {
        format!("{before} → {after}")
    }
}

/// What moved most, with the rate if that moved; or that nothing did.
pub fn first_sentence(comparison: &LiveComparison) -> String {
    if let Some(why) = &comparison.no_verdict {
        return format!("No verdict: {why}");
    }
    let moved = moved(comparison);
    let rate = moved.iter().find(|change| is_rate(change));
    match (headline(&moved), rate) {
        (Some(first), Some(rate)) if !is_rate(first) => {
            format!("{}. {}", sentence(first), sentence(rate))
        }
        (Some(first), _) => sentence(first),
        (None, _) => nothing(comparison),
    }
}

fn nothing(comparison: &LiveComparison) -> String {
    let all = comparison.quantities.len();
    let is_same = |change: &&LiveChange| change.verdict == Some(LiveVerdict::Same);
    match all - comparison.quantities.iter().filter(is_same).count() {
        0 => format!("Nothing moved: all {all} quantities are the same"),
        open => format!(
            "Nothing moved: {} of {all} quantities are the same, and the windows differ too much to tell of {open}",
            all - open
        ),
    }
}

fn moved(comparison: &LiveComparison) -> Vec<&LiveChange> {
    let has_moved = |change: &&LiveChange| change.verdict.is_some_and(LiveVerdict::has_moved);
    comparison.quantities.iter().filter(has_moved).collect()
}

fn is_rate(change: &LiveChange) -> bool {
    change.quantity == LiveQuantity::OperationRate
}

/// The change that says most: of a cause or lock, else of what threads do, else of CPU time, else of the rate.
fn headline<'c>(moved: &[&'c LiveChange]) -> Option<&'c LiveChange> {
    let rank = |change: &LiveChange| match change.quantity {
        LiveQuantity::Cause | LiveQuantity::LockContended => 0,
        LiveQuantity::WaitingForLocks
        | LiveQuantity::WaitingForStorage
        | LiveQuantity::CouldRun
        | LiveQuantity::Running => 1,
        LiveQuantity::CpuTime => 2,
        LiveQuantity::OperationRate => 3,
        LiveQuantity::Idle | LiveQuantity::LockWaits => 4,
    };
    // They are in the order of weight already.
    moved.iter().copied().min_by_key(|change| rank(change))
}

/// Which changes say something that the tables alone would hide.
fn is_worth_a_sentence(change: &LiveChange) -> bool {
    !matches!(change.quantity, LiveQuantity::LockWaits | LiveQuantity::Idle)
}

/// "Threads wait for `table_lock` 71 ± 3 % of the time after, 12 ± 2 % before".
pub fn sentence(change: &LiveChange) -> String {
    let (after, before) = sides(change);
    format!("{}, {before} before", subject(change).replacen("{}", &after, 1))
}

/// Both values with their intervals, the later first.
fn sides(change: &LiveChange) -> (String, String) {
    let value = |mean: f64, half: Option<f64>| value(mean, half, change.unit);
    (value(change.after, change.after_half), value(change.before, change.before_half))
}

/// What changed, with {} where the value after stands.
fn subject(change: &LiveChange) -> String {
    let name = &change.name;
    match change.quantity {
        LiveQuantity::Cause => of_cause(change),
        LiveQuantity::LockContended => {
            format!("Threads wait for {} {{}} of the time after", lock_in_words(name))
        }
        LiveQuantity::LockWaits => {
            format!("Threads begin to wait for {} {{}} times a second after", lock_in_words(name))
        }
        LiveQuantity::Running => format!("{{}} of `{name}` run at a time after"),
        LiveQuantity::CouldRun => format!("{{}} of `{name}` could run and have no CPU after"),
        LiveQuantity::WaitingForLocks => format!("{{}} of `{name}` wait for locks after"),
        LiveQuantity::WaitingForStorage => format!("{{}} of `{name}` wait for storage after"),
        LiveQuantity::Idle => format!("{{}} of `{name}` wait for work after"),
        LiveQuantity::CpuTime => {
            let within = change.within.as_ref().map(|w| format!(" ({w})")).unwrap_or_default();
            format!("{name}{within} takes {{}} {} after", per(change.unit))
        }
        LiveQuantity::OperationRate => "There are {} operations a second after".to_string(),
    }
}

fn of_cause(change: &LiveChange) -> String {
    let name = &change.name;
    match change.cause {
        Some(LiveCauseKind::BusyThread) => {
            format!("The thread `{name}` is busy {{}} of the time after")
        }
        Some(LiveCauseKind::Quota) => "{} of the quota is used after".to_string(),
        Some(LiveCauseKind::Affinity) => {
            "{} of the CPUs that the threads may use is used after".to_string()
        }
        Some(LiveCauseKind::OtherPrograms) => format!(
            "Other programs, `{name}` most, have the CPUs {{}} of the time in which threads could run after"
        ),
        Some(LiveCauseKind::InputOutput) => {
            "Waiting for storage takes {} of the active threads' time after".to_string()
        }
        Some(LiveCauseKind::PageFaults) => {
            "Page faults take {} of the active threads' time after".to_string()
        }
        Some(LiveCauseKind::Memory) => {
            "Memory reclaim takes {} of the active threads' time after".to_string()
        }
        Some(LiveCauseKind::SharedLine) => {
            format!(
                "Threads take the cache line of {name} from each other in {{}} of the CPU time after"
            )
        }
        Some(LiveCauseKind::GarbageCollection) if name == "garbage collection" => {
            "Garbage collection takes {} of the CPU time after".to_string()
        }
        Some(LiveCauseKind::Stopped) => {
            "A signal or a debugger has the threads stopped {} of the time after".to_string()
        }
        _ => format!("Threads wait for {} {{}} of the time after", lock_in_words(name)),
    }
}

fn per(unit: LiveUnit) -> &'static str {
    match unit {
        LiveUnit::NsPerOperation => "per operation",
        _ => "of CPU time a second",
    }
}

/// "71 ± 3 %", "2.80 ± 0.12 threads", "1.20 ± 0.05 ms", "1.42k ± 12".
fn value(mean: f64, half: Option<f64>, unit: LiveUnit) -> String {
    let with = |text: &dyn Fn(f64) -> String, end: &str| {
        let half = half.map(|half| format!(" ± {}", text(half))).unwrap_or_default();
        format!("{}{half}{end}", text(mean))
    };
    match unit {
        LiveUnit::Share => {
            let decimals = usize::from(half.is_some_and(|half| half < 0.01));
            with(&|share| fixed(100.0 * share, decimals), " %")
        }
        LiveUnit::Threads => with(&|threads| fixed(threads, 2), " threads"),
        LiveUnit::PerSecond => with(&short, ""),
        LiveUnit::NsPerOperation | LiveUnit::NsPerSecond => with(&duration_ns, ""),
    }
}

/// The tables: each with the changes of some kinds.
fn tables(comparison: &LiveComparison) -> Vec<(String, Table)> {
    let kinds: [(&str, &[LiveQuantity]); 4] = [
        ("Operations", &[LiveQuantity::OperationRate]),
        (
            "Causes and locks",
            &[LiveQuantity::Cause, LiveQuantity::LockContended, LiveQuantity::LockWaits],
        ),
        (
            "Threads, mean number at a time",
            &[
                LiveQuantity::Running,
                LiveQuantity::CouldRun,
                LiveQuantity::WaitingForLocks,
                LiveQuantity::WaitingForStorage,
                LiveQuantity::Idle,
            ],
        ),
        ("CPU time", &[LiveQuantity::CpuTime]),
    ];
    let tables = kinds.into_iter().map(|(caption, kinds)| {
        let rows = comparison.quantities.iter().filter(|change| kinds.contains(&change.quantity));
        let rows: Vec<&LiveChange> = rows.collect();
        let caption = match rows.first().map(|change| change.unit) {
            Some(LiveUnit::NsPerOperation) => format!("{caption} per operation"),
            Some(LiveUnit::NsPerSecond) => format!("{caption} a second"),
            _ => caption.to_string(),
        };
        (caption, table(&rows))
    });
    tables.filter(|(_, table)| !table.rows().is_empty()).collect()
}

fn table(changes: &[&LiveChange]) -> Table {
    let mut table = Table::new([
        ("what", Align::Left),
        ("before", Align::Right),
        ("after", Align::Right),
        ("difference", Align::Right),
        ("verdict", Align::Left),
    ]);
    for change in changes.iter().take(ROWS) {
        let (after, before) = sides(change);
        table.row(vec![what(change), before, after, difference(change), verdict(change)]);
    }
    table
}

fn what(change: &LiveChange) -> String {
    let name = &change.name;
    match change.quantity {
        LiveQuantity::Cause => match change.cause {
            Some(LiveCauseKind::BusyThread) => format!("{name} busy"),
            Some(LiveCauseKind::OtherPrograms) => format!("other programs ({name})"),
            Some(LiveCauseKind::InputOutput) => "storage".to_string(),
            Some(LiveCauseKind::SharedLine) => format!("cache line of {name}"),
            Some(LiveCauseKind::Quota) => "quota used".to_string(),
            Some(LiveCauseKind::Affinity) => "allowed CPUs used".to_string(),
            _ => name.clone(),
        },
        LiveQuantity::LockContended => name.clone(),
        LiveQuantity::LockWaits => format!("{name}, waits/s"),
        LiveQuantity::Running => format!("{name}: run"),
        LiveQuantity::CouldRun => format!("{name}: could run"),
        LiveQuantity::WaitingForLocks => format!("{name}: for locks"),
        LiveQuantity::WaitingForStorage => format!("{name}: storage"),
        LiveQuantity::Idle => format!("{name}: for work"),
        LiveQuantity::CpuTime => match &change.within {
            Some(within) => format!("{name} ({within})"),
            None => name.clone(),
        },
        LiveQuantity::OperationRate => "operations/s".to_string(),
    }
}

/// The difference with its interval, in the unit: "+59 [+52, +66] %".
fn difference(change: &LiveChange) -> String {
    let text = |value: f64| match change.unit {
        LiveUnit::Share => signed(100.0 * value, 1),
        LiveUnit::Threads => signed(value, 2),
        LiveUnit::PerSecond => with_sign(value, &short),
        LiveUnit::NsPerOperation | LiveUnit::NsPerSecond => with_sign(value, &duration_ns),
    };
    let end = if change.unit == LiveUnit::Share { " %" } else { "" };
    match change.interval {
        Some((low, high)) => {
            format!("{} [{}, {}]{end}", text(change.difference), text(low), text(high))
        }
        None => format!("{}{end}", text(change.difference)),
    }
}

fn with_sign(value: f64, text: &dyn Fn(f64) -> String) -> String {
    let said = text(value);
    if said.starts_with('-') { said } else { format!("+{said}") }
}

fn verdict(change: &LiveChange) -> String {
    let said = match change.verdict {
        Some(LiveVerdict::Grew) => "grew",
        Some(LiveVerdict::Shrank) => "shrank",
        Some(LiveVerdict::Same) => "the same",
        Some(LiveVerdict::CannotTell) => "cannot tell",
        None => "no verdict",
    };
    said.to_string()
}

fn notes(comparison: &LiveComparison) -> Vec<String> {
    let look = |name: &str, look: &ComparedLook| {
        format!(
            "{name}: {} s in {}, from {:.0}",
            fixed(look.seconds, 1),
            counted(look.windows, "window"),
            look.at
        )
    };
    let mut notes = vec![look("before", &comparison.before), look("after", &comparison.after)];
    notes.extend(comparison.notes.iter().map(|note| format!("differs: {note}")));
    if comparison.no_verdict.is_none() {
        notes.push(
            "± and verdicts are over the windows of each look, which may resemble their neighbours: if nothing changed, \
             anything moves in at most 1 of 20 comparisons. Load that differs between the looks moves things, too."
                .to_string(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(
        quantity: LiveQuantity,
        name: &str,
        unit: LiveUnit,
        verdict: LiveVerdict,
    ) -> LiveChange {
        LiveChange {
            quantity,
            name: name.to_string(),
            within: None,
            cause: (quantity == LiveQuantity::Cause).then_some(LiveCauseKind::Lock),
            unit,
            before: 0.12,
            before_half: Some(0.02),
            after: 0.71,
            after_half: Some(0.03),
            difference: 0.59,
            interval: Some((0.52, 0.66)),
            p: Some(1e-4),
            margin: 0.04,
            verdict: Some(verdict),
            weight: 0.59,
        }
    }

    fn comparison(quantities: Vec<LiveChange>) -> LiveComparison {
        let look = || ComparedLook {
            subject: "server".to_string(),
            host: "vm".to_string(),
            at: "2026-11-29T09:00:00Z".parse().unwrap(),
            means: records::live::ObservedBy::Switches,
            seconds: 10.0,
            windows: 20,
            operations_from: None,
        };
        LiveComparison {
            before: look(),
            after: look(),
            no_verdict: None,
            notes: Vec::new(),
            quantities,
        }
    }

    #[test]
    fn the_first_sentence_says_what_changed_most() {
        let lock = change(LiveQuantity::Cause, "table_lock", LiveUnit::Share, LiveVerdict::Grew);
        let runs = change(LiveQuantity::Running, "pool-#", LiveUnit::Threads, LiveVerdict::Grew);
        let rate = LiveChange {
            before: 1420.0,
            before_half: Some(20.0),
            after: 980.0,
            after_half: Some(12.0),
            ..change(
                LiveQuantity::OperationRate,
                "operations",
                LiveUnit::PerSecond,
                LiveVerdict::Shrank,
            )
        };
        let check = |changes: &[&LiveChange], expected: &str| {
            let comparison = comparison(changes.iter().map(|change| (*change).clone()).collect());
            assert_eq!(first_sentence(&comparison), expected);
        };
        let of_lock = "Threads wait for `table_lock` 71 ± 3 % of the time after, 12 ± 2 % before";
        let of_rate = "There are 980 ± 12 operations a second after, 1.42k ± 20 before";
        check(&[&runs, &lock], of_lock);
        check(&[&lock, &rate], &format!("{of_lock}. {of_rate}"));
        check(&[&rate], of_rate);
        check(
            &[&runs],
            "0.71 ± 0.03 threads of `pool-#` run at a time after, 0.12 ± 0.02 threads before",
        );
        let same = LiveChange { verdict: Some(LiveVerdict::Same), ..lock.clone() };
        check(&[&same, &same], "Nothing moved: all 2 quantities are the same");
    }

    #[test]
    fn a_table_has_both_sides_and_the_verdict() {
        let lock = change(LiveQuantity::Cause, "table_lock", LiveUnit::Share, LiveVerdict::Grew);
        let row = &table(&[&lock]).rows()[0].clone();
        let expected = ["table_lock", "12 ± 2 %", "71 ± 3 %", "+59.0 [+52.0, +66.0] %", "grew"];
        assert_eq!(row[..], expected.map(str::to_string));
    }

    #[test]
    fn without_a_verdict_the_reason_comes_first() {
        let why = "the look after has 3 windows, and a verdict needs 10: look for 2 s or longer";
        let few = LiveComparison { no_verdict: Some(why.to_string()), ..comparison(Vec::new()) };
        assert_eq!(first_sentence(&few), format!("No verdict: {why}"));
    }
}
