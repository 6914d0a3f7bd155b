//! What was searched and what was found, as text.

use answers::{BypassBound, BypassBounds};
use std::collections::BTreeSet;

use engines::checker::{Failure, Memory};
use engines::{CodeSite, Mutant, Unsupported};
use studies::checks::bypass::{Bound, Fairness, TASKS_MOST};
use studies::checks::mutants::{CaughtMutant, Fate, JudgedMutant};
use studies::checks::{CheckResult, CheckSize, Verdict};
use text::Style;
use text::prose::{counted, wrapped};
use text::stdout_width;
use text::table::{Align, Table};

/// The memory model, in the words of the command line.
pub fn memory(memory: Memory) -> &'static str {
    match memory {
        Memory::SequentiallyConsistent => "sc",
        Memory::TotalStoreOrder => "x86",
    }
}

/// A line for each check, and what the lines claim.
pub fn checked(all: &[CheckResult], style: &Style) -> String {
    let has_bounds = all.iter().any(|one| one.fairness.is_some());
    let mut columns = vec![
        ("algorithm", Align::Left),
        ("tasks", Align::Right),
        ("acquires\neach", Align::Right),
        ("model", Align::Left),
        ("states", Align::Right),
        ("steps", Align::Right),
        ("s", Align::Right),
        ("verdict", Align::Left),
    ];
    columns.extend(has_bounds.then_some(("bypass", Align::Left)));
    let mut table = Table::new(columns);
    for one in all {
        let searched = one.states.or(one.schedules).filter(|_| one.refused.is_none());
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_string());
        let mut row = vec![
            one.name.clone(),
            one.size.threads.to_string(),
            one.size.acquires.to_string(),
            memory(one.memory).to_string(),
            or_none(searched.map(|searched| searched.to_string())),
            or_none(searched.map(|_| one.steps.to_string())),
            or_none(searched.map(|_| format!("{:.3}", one.seconds))),
            verdict(one),
        ];
        row.extend(has_bounds.then(|| one.fairness.as_ref().map(bounds).unwrap_or_default()));
        table.row(row);
    }
    table.text() + &legend(all, style)
}

/// What the verdicts in the table claim.
fn legend(all: &[CheckResult], style: &Style) -> String {
    let memory_of = |test: fn(&Verdict) -> bool| {
        all.iter().find(|one| test(&one.verdict())).map(|one| one.memory)
    };
    let mut legend = String::new();
    if let Some(memory) = memory_of(|verdict| matches!(verdict, Verdict::Holds)) {
        legend += &wrapped(holds(memory), style.width, 2);
    }
    if all.iter().any(|one| one.fairness.is_some()) {
        legend += &wrapped(BOUNDED_BYPASS, style.width, 2);
    }
    if memory_of(|verdict| matches!(verdict, Verdict::NothingFound)).is_some() {
        let claim = "states: random schedules tried; this proves nothing about the others";
        legend += &wrapped(claim, style.width, 2);
    }
    if legend.is_empty() { legend } else { format!("\n{legend}") }
}

const BOUNDED_BYPASS: &str = "bypass: how often others enter while a task waits; none: more often with every acquire \
     more, so a waiter can starve. Searched apart: 2 and 3 tasks, as far as possible up to 16 acquires each, each store \
     immediately visible; while a reader waits, writers are counted";

/// The bounds of a lock, in a cell.
fn bounds(fairness: &Fairness) -> String {
    let said = |bound: &Bound| match bound {
        Bound::AtMost(counted) if counted.tasks == TASKS_MOST => counted.most().to_string(),
        Bound::AtMost(counted) => format!("{} ({} tasks)", counted.most(), counted.tasks),
        Bound::None(_) => "none".to_string(),
        Bound::Unknown(counted) => format!("not known, {} or more", counted.most()),
    };
    match (&fairness.exclusive, &fairness.shared) {
        (None, None) if fairness.is_known => "nobody waits".to_string(),
        (None, None) => "not known".to_string(),
        (Some(alone), None) => said(alone),
        (None, Some(readers)) => format!("readers {}", said(readers)),
        (Some(writers), Some(readers)) => {
            format!("writers {}, readers {}", said(writers), said(readers))
        }
    }
}

/// The bounds as data.
pub fn bypass_bounds(fairness: &Fairness) -> BypassBounds {
    let said = |bound: &Bound| {
        let (word, counted) = match bound {
            Bound::AtMost(counted) => ("bounded", counted),
            Bound::None(counted) => ("none", counted),
            Bound::Unknown(counted) => ("unknown", counted),
        };
        let most = matches!(bound, Bound::AtMost(_)).then(|| counted.most());
        let (acquires, entries) = counted.entries.iter().copied().unzip();
        BypassBound { bound: word, most, tasks: counted.tasks, acquires, entries }
    };
    BypassBounds {
        exclusive: fairness.exclusive.as_ref().map(said),
        shared: fairness.shared.as_ref().map(said),
    }
}

fn holds(memory: Memory) -> &'static str {
    match memory {
        Memory::TotalStoreOrder => {
            "holds: in every interleaving, with store buffers as on x86: mutual exclusion, the order \
             of entry where claimed, no deadlock, an end to every wait, and plain accesses ordered \
             by acquire and release; not searched: reordering of atomic accesses on weaker hardware"
        }
        Memory::SequentiallyConsistent => {
            "holds: in every interleaving, each step immediately visible to all tasks: mutual \
             exclusion, the order of entry where claimed, no deadlock, an end to every wait, and \
             plain accesses ordered by acquire and release; not searched: store buffers (--memory \
             x86), weaker hardware"
        }
    }
}

fn verdict(checked: &CheckResult) -> String {
    match checked.verdict() {
        Verdict::Wrong(failure) => format!("WRONG: {}", failure.fault.word()),
        verdict => verdict.word().to_string(),
    }
}

/// Why something could not be checked, and the way out.
pub fn not_checked(name: &str, unsupported: &Unsupported, width: usize) -> String {
    let Unsupported { why, way_out } = unsupported;
    // Lists of accesses keep their lines.
    let why = if why.contains('\n') {
        format!("{name}: not checked: {}\n", why.trim_end())
    } else {
        wrapped(&format!("{name}: not checked: {why}"), width, 2)
    };
    format!("\n{why}{}", wrapped(&format!("way out: {way_out}"), width, 2))
}

/// The interleaving that leads to a failure, and how to see it again.
pub fn failed_check(name: &str, failure: &Failure, again: &str) -> String {
    let Failure { fault, steps, is_shortest, .. } = failure;
    let steps = match steps[..] {
        [] => "  (before the first step)".to_string(),
        _ => steps.iter().map(|step| format!("  {step}")).collect::<Vec<_>>().join("\n"),
    };
    let no_shorter = if *is_shortest { "no shorter interleaving is wrong\n" } else { "" };
    format!("\n{name}: {fault}\n\n{steps}\n\n{no_shorter}rerun: {again}\n")
}

/// The mutants of an algorithm: what was changed, and how that came out.
pub fn mutants(name: &str, judged: &[JudgedMutant]) -> String {
    if judged.is_empty() {
        return format!(
            "{name}: built from other locks, it has no access of its own to mutate\n\n"
        );
    }
    let mut table = Table::new([
        ("line", Align::Right),
        ("access", Align::Left),
        ("change", Align::Left),
        ("found as", Align::Left),
        ("with", Align::Left),
    ]);
    let mut reasons = Vec::new();
    let files: BTreeSet<_> = judged.iter().map(|one| one.mutant.site.file).collect();
    let place = |CodeSite { file, line, .. }: CodeSite| match files.len() {
        0 | 1 => line.to_string(),
        _ => format!("{}:{line}", file.rsplit('/').next().unwrap_or(file)),
    };
    for one in judged {
        let (fate, with) = match &one.fate {
            Fate::Caught(caught) => (caught.fault.word().to_string(), found_with(caught)),
            Fate::Equivalent(why) => {
                let Mutant { site, change } = one.mutant;
                let line = if files.len() > 1 { "" } else { "line " };
                reasons.push(format!("{line}{}, {change}: {why}", place(site)));
                ("equivalent".to_string(), String::new())
            }
            Fate::Survived => ("SURVIVED".to_string(), String::new()),
        };
        table.row(vec![
            place(one.mutant.site),
            shortened(&one.line),
            one.mutant.change.to_string(),
            fate,
            with,
        ]);
    }
    let caught = judged.iter().filter(|one| matches!(one.fate, Fate::Caught(_))).count();
    let mut text = format!(
        "{name}: {} of {} found, {} equivalent\n{}",
        caught,
        counted(judged.len(), "mutant"),
        reasons.len(),
        table.text()
    );
    for reason in reasons {
        text += &wrapped(&reason, stdout_width(), 2);
    }
    text + "\n"
}

/// The tasks and settings that caught a mutant.
fn found_with(caught: &CaughtMutant) -> String {
    let CaughtMutant { size: CheckSize { threads, acquires, locks }, settings, choices, .. } =
        caught;
    let mut with = format!("{threads}x{acquires} {}", memory(caught.memory));
    if *locks > 1 {
        with += ", 2 locks";
    }
    settings.iter().for_each(|(name, value)| with += &format!(", {name} {value}"));
    choices.iter().for_each(|(name, value)| with += &format!(", {name} {value}"));
    with
}

/// A source line in the width of a column.
fn shortened(line: &str) -> String {
    const WIDTH: usize = 60;
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end - 1]),
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use engines::checker::Fault;
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_failure_is_shown_step_by_step() {
        let steps = ["t0 lock.next add 1 -> 0", "t1   enters"].map(str::to_string).to_vec();
        let fault = Fault::NotExclusive("both".into());
        let schedule = "0.1".parse().unwrap();
        let failure = Failure { fault, schedule, steps, is_shortest: true };
        expect![[r#"

            ticket: no mutual exclusion: both

              t0 lock.next add 1 -> 0
              t1   enters

            no shorter interleaving is wrong
            rerun: knee check …
        "#]]
        .assert_eq(&failed_check("ticket", &failure, "knee check …"));
    }
}
