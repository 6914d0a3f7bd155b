//! The page of a gate that counted instructions.

use bisector::{CountVerdict, CountedCase, CountedChange, GateAnswer};
use host::counted;
use pages::{Count, Page, PageTable, Section, Tone};
use text::quantity::{short, signed};
use text::table::{Align, Table};

use super::{changed_in_two, folded_from, rows_shown};

fn of(answer: &GateAnswer, verdict: CountVerdict) -> Vec<&CountedCase> {
    answer.counted.iter().filter(|case| case.is == verdict).collect()
}

/// "2 of 20 cases execute more instructions: sort/1 +3.0 %, in insert@bench."
pub fn judged(answer: &GateAnswer) -> Vec<String> {
    let all = answer.counted.len();
    let least = 100.0 * answer.smallest_effect;
    let some = |cases: &[&CountedCase], what: &str| {
        let n = cases.len();
        let subject = match (n, all) {
            (_, 1) => "The case".to_string(),
            _ => format!("{n} of {all} cases"),
        };
        let verb = if n > 1 { "execute" } else { "executes" };
        let shown: Vec<String> = cases.iter().take(3).map(|case| told(case)).collect();
        let more = if n > 3 { ", …" } else { "" };
        format!("{subject} {verb} {what} instructions: {}{more}.", shown.join(", "))
    };
    let mut sentences = Vec::new();
    let more = of(answer, CountVerdict::More);
    if more.is_empty() {
        let counted = all - of(answer, CountVerdict::Failed).len();
        let no_case = match (counted, all) {
            (0, _) => None,
            (_, 1) => Some("The case does not execute".to_string()),
            (counted, all) if counted == all => Some("No case executes".to_string()),
            (counted, _) => Some(format!("None of the {counted} cases that were counted executes")),
        };
        sentences.extend(
            no_case.map(|none| format!("{none} more instructions by {least:.1} % or above.")),
        );
    } else {
        sentences.push(some(&more, "more"));
    }
    let less = of(answer, CountVerdict::Less);
    if !less.is_empty() {
        sentences.push(some(&less, "fewer"));
    }
    let calls: Vec<&CountedCase> =
        answer.counted.iter().filter(|case| !case.system_calls.is_empty()).collect();
    if let Some(first) = calls.first() {
        let others = match calls.len() {
            1 => String::new(),
            n => format!(", and {} more", counted(n - 1, "case")),
        };
        sentences.push(format!(
            "System calls changed: {}: {}{others}.",
            name(first),
            list(&first.system_calls)
        ));
    }
    for (verdict, one, more) in [
        (
            CountVerdict::Unsteady,
            "does not repeat from run to run",
            "do not repeat from run to run",
        ),
        (CountVerdict::Failed, "cannot be counted", "cannot be counted"),
    ] {
        let cases = of(answer, verdict);
        if let Some(first) = cases.first() {
            let why = if first.why.is_empty() { String::new() } else { format!(": {}", first.why) };
            let what = if cases.len() == 1 { one } else { more };
            sentences.push(format!(
                "{} of {all} cases {what} ({}{why}).",
                cases.len(),
                name(first)
            ));
        }
    }
    sentences
}

fn name(case: &CountedCase) -> String {
    if case.case.is_empty() { "the command".to_string() } else { case.case.clone() }
}

/// "sort/1 +3.0 %, in insert@bench".
fn told(case: &CountedCase) -> String {
    let function = case.functions.first();
    let function = function.map(|change| format!(", in {}", cut(&change.name))).unwrap_or_default();
    format!("{} {}{function}", name(case), change(case))
}

fn change(case: &CountedCase) -> String {
    case.change.map(|share| signed(100.0 * share, 2) + " %").unwrap_or_default()
}

/// A name that is no longer than a reader reads: those of templates are as long as a page.
fn cut(name: &str) -> String {
    const MOST: usize = 80;
    if name.chars().count() <= MOST {
        return name.to_string();
    }
    let (name, file) = name.rsplit_once('@').unwrap_or((name, ""));
    format!("{name:.60}…@{file}")
}

/// "read 3 → 5, openat 1 → 2".
fn list(changes: &[CountedChange]) -> String {
    let shown = |change: &CountedChange| {
        let (base, head) = (short(change.base as f64), short(change.head as f64));
        format!("{} {base} → {head}", cut(&change.name))
    };
    changes.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// The tables below the answer.
pub fn fill(page: &mut Page, answer: &GateAnswer, most: usize) {
    let kinds = [
        (CountVerdict::More, "more instructions", Tone::Worse),
        (CountVerdict::Less, "fewer instructions", Tone::Better),
        (CountVerdict::Same, "the same", Tone::Same),
        (CountVerdict::Unsteady, "unsteady", Tone::Open),
        (CountVerdict::Failed, "failed", Tone::Open),
    ];
    let count = |(verdict, word, tone)| Count { n: of(answer, verdict).len(), word, tone };
    page.counts = kinds.into_iter().map(count).filter(|count| count.n > 0).collect();
    let (moved, others): (Vec<&CountedCase>, Vec<&CountedCase>) =
        answer.counted.iter().partition(|case| case.is != CountVerdict::Same);
    let (first, rest) = moved.split_at(moved.len().min(rows_shown(page)));
    for (title, cases, is_open) in changed_in_two(first, rest) {
        page.sections.push(section(title, cases, is_open, most));
    }
    if !others.is_empty() {
        page.sections.push(section("Other cases", &others, false, most));
    }
    page.method = vec![
        "User instructions and system calls of one run of each case under emulation (QEMU), counted twice on each side: the \
         same on every host. What a start without a case executes is taken off where the harness allows one. The kernel's own instructions are not among them, and nothing is said about time."
            .to_string(),
    ];
}

fn section(title: &str, cases: &[&CountedCase], is_open: bool, most: usize) -> Section {
    let (cases, left_out) = cases.split_at(cases.len().min(most));
    let mut table = Table::new([
        ("case", Align::Left),
        ("base", Align::Right),
        ("head", Align::Right),
        ("change", Align::Right),
        ("where", Align::Left),
    ]);
    for case in cases {
        let [base, head] = match case.instructions {
            Some(sides) => sides.map(|count| short(count as f64)),
            None => Default::default(),
        };
        let mut told = [list(&case.functions), list(&case.system_calls)].to_vec();
        // Less is none in the digits that are shown.
        if case.spread >= 5e-5 {
            told.push(format!("runs of one side differ by {:.2} %", 100.0 * case.spread));
        }
        told.push(case.why.clone());
        told.retain(|text| !text.is_empty());
        table.row(vec![name(case), base, head, change(case), told.join("; ")]);
    }
    let table = PageTable::plain("user instructions of a run", table, &[]);
    folded_from(title, table, is_open, left_out.len())
}
