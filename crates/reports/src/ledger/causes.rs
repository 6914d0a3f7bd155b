//! Causes as sentences: row, size, count and cost per event, evidence, and what would
//! confirm it.

use analysis::ledger::{Belongs, Cause, INTERRUPTS, RowChange, Split, WORK, causes};

use crate::Style;
use crate::ledger::numbers;
use crate::prose::wrapped;
use crate::quantity::duration_ns;

/// Parts of a change, as shares of an operation, that are worth a word.
const TOLD_SHARE: f64 = 0.01;

/// What changed, and its causes; `per` is the unit of work, "operation" or "run".
pub fn text(change: &RowChange, per: &str, style: Style) -> String {
    let causes = causes(change);
    let mut text = whole(change, per, style);
    if causes.is_empty() {
        return text + &wrapped(nothing(change), style.width, 2);
    }
    for (number, cause) in causes.iter().enumerate() {
        let sentence = sentence(cause, change, &causes, per);
        text += &wrapped(&format!("{}. {sentence}", number + 1), style.width, 3);
    }
    text + &rest(change, &causes, style)
}

/// "an operation takes 5.32 us more CPU time: …; +1.05 us is its own, …".
fn whole(change: &RowChange, per: &str, style: Style) -> String {
    let (article, more) = (if per == "run" { "a" } else { "an" }, change.change);
    let than = if more < 0.0 { "less" } else { "more" };
    let mut text = format!(
        "{article} {per} takes {} {than} CPU time: {} instead of {}",
        duration_ns(more.abs()),
        duration_ns(change.after.mean),
        duration_ns(change.before.mean)
    );
    let length = change.change - change.own_ns;
    if length.abs() >= TOLD_SHARE * longest(change) {
        text += &format!(
            "; {} is its own, {} goes to other tasks, the host and timers, which take {} of any {} {per}",
            signed(change.own_ns),
            signed(length),
            if length < 0.0 { "less" } else { "more" },
            if length < 0.0 { "shorter" } else { "longer" }
        );
    }
    wrapped(&text, style.width, 2)
}

fn nothing(change: &RowChange) -> &'static str {
    match change.p {
        Some(p) if p <= 0.01 => {
            "the total changed significantly, but no single row did: more blocks would show which"
        }
        Some(_) => "no row changed significantly: the ledger shows no cause",
        None => {
            "with only one unit on a side, noise cannot be estimated: run more blocks (--blocks 5)"
        }
    }
}

/// The change that the causes leave unexplained.
fn rest(change: &RowChange, causes: &[Cause], style: Style) -> String {
    let told: f64 = causes.iter().map(|cause| cause.own_ns).sum();
    let rest = change.own_ns - told;
    if rest.abs() < TOLD_SHARE * longest(change) {
        return String::new();
    }
    let line = format!(
        "Together they explain {} of {}. The other {} is spread over rows that changed by less than \
         1 % or not significantly.",
        signed(told),
        signed(change.own_ns),
        signed(rest)
    );
    wrapped(&line, style.width, 3)
}

fn longest(change: &RowChange) -> f64 {
    change.before.mean.max(change.after.mean)
}

/// "+6.8 us of +7.7 us: spinning for locks > …: as often as before (1.000 -> 1.000 spins per
/// operation), 24 times the cost (0.3 -> 7.1 us each); …".
fn sentence(cause: &Cause, whole: &RowChange, all: &[Cause], per: &str) -> String {
    let change = &cause.change;
    let how = match &change.split {
        Split::CountAndCost { event, per_operation, cost_per_event, .. } => {
            count_and_cost(event, *per_operation, *cost_per_event, per)
        }
        Split::ShareAndLength { share, .. } => {
            format!("{:.1} % of the time instead of {:.1} %", 100.0 * share.1, 100.0 * share.0)
        }
        Split::CountUnknown => "its events are not counted".to_string(),
    };
    let against = if cause.own_ns * whole.own_ns < 0.0 { "against" } else { "of" };
    format!(
        "{} {against} {}: {}: {how}{}{} ({}). To confirm: {}",
        signed(cause.own_ns),
        signed(whole.own_ns),
        place(&cause.path),
        parts(cause),
        instead(cause, all),
        evidence(cause),
        confirmation(cause)
    )
}

/// The path without its first part if that is the workload.
fn place(path: &[String]) -> String {
    let from = usize::from(path.len() > 1 && path[0] == WORK);
    path[from..].join(" > ")
}

fn count_and_cost(
    what: &str,
    times: (f64, f64),
    each: (Option<f64>, Option<f64>),
    per: &str,
) -> String {
    let often = |n: f64| format!("{} {what}s per {per}", numbers::times(n));
    match each {
        (None, Some(each)) => format!("new: {}, {} each", often(times.1), duration_ns(each)),
        (Some(each), None) => format!("gone: {}, {} each", often(times.0), duration_ns(each)),
        (Some(was), Some(is)) => format!(
            "{} ({} -> {}), {} ({} -> {} each)",
            compared(times.1 / times.0, "as often as before", "times as often"),
            numbers::times(times.0),
            often(times.1),
            compared(is / was, "at the same cost", "times the cost"),
            duration_ns(was),
            duration_ns(is)
        ),
        (None, None) => format!("no {what} on either side"),
    }
}

fn compared(ratio: f64, same: &str, times: &str) -> String {
    if (0.95..=1.05).contains(&ratio) { same.to_string() } else { format!("{ratio:.2} {times}") }
}

/// "; including +4.4 us in posix_lock_inode (+2.2 us a call)".
fn parts(cause: &Cause) -> String {
    let each = |ns: f64| match &cause.change.split {
        // As often as before: then what a part adds to each event is told.
        Split::CountAndCost { event: what, per_operation: (was, is), .. }
            if (is / was - 1.0).abs() < 0.05 =>
        {
            format!(" ({} a {what})", signed(ns / is))
        }
        _ => String::new(),
    };
    let part = |part: &analysis::ledger::CausePart| {
        format!("{} in {}{}", signed(part.own_ns), part.name, each(part.own_ns))
    };
    let parts: Vec<String> = cause.parts.iter().map(part).collect();
    if parts.is_empty() { String::new() } else { format!("; including {}", parts.join(", ")) }
}

/// The row beside it that replaced this one, or that it replaces.
fn instead(cause: &Cause, all: &[Cause]) -> String {
    let is_new = |cause: &Cause| cause.change.before.mean == 0.0;
    let is_gone = |cause: &Cause| cause.change.after.mean == 0.0;
    let beside = |other: &&Cause| {
        let parent = |cause: &Cause| cause.path[..cause.path.len() - 1].to_vec();
        let is_swap = (is_new(cause) && is_gone(other)) || (is_gone(cause) && is_new(other));
        is_swap && parent(cause) == parent(other)
    };
    let others: Vec<&Cause> = all.iter().filter(beside).collect();
    match others[..] {
        [other] if is_new(cause) => format!("; replaces {}", other.change.name),
        [other] => format!("; replaced by {}", other.change.name),
        _ => String::new(),
    }
}

/// "sampled, 40 -> 2210 samples; +884 ns to +1.15 us at 95 %; expected by chance once in …".
fn evidence(cause: &Cause) -> String {
    let change = &cause.change;
    let mut words = vec![match change.samples {
        Some((was, is)) => format!("{}, {was} -> {is} samples", change.obtained.name()),
        None => change.obtained.name().to_string(),
    }];
    if let Some((low, high)) = change.own_interval {
        words.push(format!("{} to {} at 95 %", signed(low), signed(high)));
    }
    words.push(match cause.p {
        p if p < 1e-6 => "expected by chance less than once in a million comparisons".to_string(),
        p => format!("expected by chance once in {} comparisons", two_digits(1.0 / p)),
    });
    words.join("; ")
}

/// A large number, rounded to two digits.
fn two_digits(n: f64) -> String {
    let scale = 10_f64.powf(n.log10().floor() - 1.0).max(1.0);
    format!("{:.0}", (n / scale).round() * scale)
}

/// A measurement with another tool that would confirm the cause.
fn confirmation(cause: &Cause) -> &'static str {
    let path_has = |name: &str| cause.path.iter().any(|part| part.contains(name));
    let is_count = analysis::ledger::is_mostly_count(&cause.change.split) == Some(true);
    if path_has(INTERRUPTS) {
        return "the interrupt counts of `knee show --counters` must agree";
    }
    if cause.change.belongs == Belongs::Time {
        return "measure again without these tasks, or with the workload pinned to other CPUs";
    }
    if path_has("spinning") {
        return "the row must disappear with fewer tasks, or with one lock per task";
    }
    if path_has("idle") {
        return "the row must shrink with fewer tasks, or if what they wait for gets faster";
    }
    if path_has("page faults") && is_count {
        return "perf stat -e page-faults on both must show the same counts";
    }
    if path_has("system call") && is_count {
        return "strace -c -f, or perf trace -s, on both must show the same counts";
    }
    if path_has("user code") {
        return "perf record of both in user mode, or the programs' own profiles";
    }
    "perf record -g on both, or a kernel in which that function is changed"
}

/// A length of time with its sign.
pub fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "+" };
    format!("{sign}{}", duration_ns(ns.abs()))
}
