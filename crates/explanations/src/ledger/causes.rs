//! Causes as sentences: row, size, count and cost per event, evidence, and what would
//! confirm it.

use ledger::{
    AFFINITY, Answer, BEYOND, Belongs, Cause, HotInstruction, IDLE, INTERRUPTS, LOST_PARALLELISM,
    RowChange, SharedLine, Split, WORK, WallTime, is_mostly_count,
};
use text::prose::counted;
use text::quantity::{self, duration_ns};

use crate::ledger::numbers;
use crate::ledger::removal::Removal;

/// Parts of a change, as shares of an operation, that are worth a word.
const TOLD_SHARE: f64 = 0.01;

/// Causes beyond these are only named.
const DETAILED_MAX: usize = 3;

/// What changed and its causes, a paragraph each. `per` is the unit of work, "operation" or "run".
pub fn paragraphs(answer: &Answer, per: &str, removal: Option<&Removal>) -> Vec<String> {
    let change = &answer.change;
    if answer.refused || (answer.bound_by_time && !answer.causes.is_empty()) {
        return Vec::new();
    }
    let mut paragraphs: Vec<String> = match &answer.wall {
        Some(wall) => cpu_time(wall, per).into_iter().collect(),
        None => whole(change, per).into_iter().collect(),
    };
    let (before, after) = total(answer);
    let total_ns = after - before;
    let (detailed, named) = answer.causes.split_at(answer.causes.len().min(DETAILED_MAX));
    for (number, cause) in detailed.iter().enumerate() {
        let mut sentences = vec![sentence(cause, total_ns, &answer.causes, per)];
        sentences.extend(answer.shared_line.iter().filter(|_| number == 0).map(suspected));
        sentences.extend(removal.into_iter().flat_map(|it| it.sentences(answer, cause)));
        paragraphs.push(format!("{}. {}", number + 1, sentences.join(". ")));
    }
    let more: Vec<String> =
        named.iter().map(|c| format!("{} {}", signed(c.own_ns), place(&c.path))).collect();
    if !more.is_empty() {
        paragraphs.push(format!("Smaller causes: {}", more.join(", ")));
    }
    if !answer.causes.is_empty() {
        paragraphs.extend(rest(answer, total_ns));
    }
    paragraphs.extend(within_disturbance(answer));
    paragraphs
}

/// "If work() has no more to do than before, its tasks may take a cache line from each other …".
fn suspected(line: &SharedLine) -> String {
    let HotInstruction { object, offset, source, .. } = &line.at;
    let place = match source {
        Some(source) => format!("at {source} ({object}+{offset:#x})"),
        None => format!("{object}+{offset:#x} (addr2line -e {object} {offset:#x})"),
    };
    format!(
        "If `{}` has no more to do than before, tasks may take a cache line from each other (false \
         sharing): then the difference vanishes with --cpus 1. {:.0} % of its samples are on one \
         instruction, {place}",
        line.function,
        100.0 * line.at.share()
    )
}

/// Causes that are left out because profiling may have made them.
fn within_disturbance(answer: &Answer) -> Option<String> {
    let ns = answer.disturbance_ns.filter(|_| answer.causes_within_disturbance > 0)?;
    Some(format!(
        "Profiling may have changed this difference by up to {}, so {} below {} {} left out (--force \
         shows all)",
        duration_ns(ns),
        counted(answer.causes_within_disturbance, "cause"),
        duration_ns(BEYOND * ns),
        if answer.causes_within_disturbance == 1 { "is" } else { "are" }
    ))
}

/// "of the 2.7 us that an operation costs more at 2 CPUs than at 1 CPU, 57 % (51 to 63) is idle > wake-up latency, …".
/// `None` if no cause makes it cost more.
pub fn shares(answer: &Answer, names: [&str; 2], per: &str) -> Option<String> {
    const NAMED: usize = 3;
    /// Smaller shares are not worth a word.
    const SHARE_MIN: f64 = 0.05;
    let more = answer.change.own_ns;
    let share = |cause: &Cause| cause.own_ns / more;
    let is_told = |cause: &&Cause| more > 0.0 && share(cause) >= SHARE_MIN;
    if answer.refused || answer.bound_by_time {
        return None;
    }
    let told = answer.causes.iter().filter(is_told).take(NAMED).map(|cause| {
        let range = cause.change.own_interval.map(|(low, high)| {
            format!(" ({:.0} to {:.0})", 100.0 * low / more, 100.0 * high / more)
        });
        let range = range.unwrap_or_default();
        format!("{:.0} %{range} is {}", 100.0 * share(cause), place(&cause.path))
    });
    let told: Vec<String> = told.collect();
    let article = if per == "run" { "a" } else { "an" };
    (!told.is_empty()).then(|| {
        format!(
            "of the {} of CPU time that {article} {per} costs more at {} than at {}, {}",
            duration_ns(more),
            names[1],
            names[0],
            told.join(", ")
        )
    })
}

/// The time before and after that the answer tells: by the clock on the wall, of runs that were not profiled; or of the
/// workload and of CPUs that wait for it; or all of the CPUs' time, if others take more or less of that.
fn told(answer: &Answer, cause: &Cause) -> (f64, f64) {
    let change = &answer.change;
    if answer.wall.is_some() || cause.change.belongs == Belongs::Time {
        return total(answer);
    }
    let of_others = |side: fn(&RowChange) -> f64| of_time(change, side);
    let before = change.before.mean - of_others(|row| row.before.mean);
    (before, change.after.mean - of_others(|row| row.after.mean))
}

/// The time before and after that causes are parts of.
fn total(answer: &Answer) -> (f64, f64) {
    let change = &answer.change;
    match &answer.wall {
        // Where few runs contradict the profiled ones, which are tested, that is noise.
        Some((was, is)) if (is.ns - was.ns) * change.own_ns >= 0.0 => (was.ns, is.ns),
        Some(_) => (change.before.mean, change.after.mean),
        None => (0.0, change.own_ns),
    }
}

/// "CPU time per run: 46.7 ms -> 89.2 ms, on 1.0 -> 1.9 CPUs at a time".
fn cpu_time((was, is): &(WallTime, WallTime), per: &str) -> Option<String> {
    const DIFFERS: f64 = 0.05;
    let cpus = (was.cpus_in_use, is.cpus_in_use);
    let at_a_time = if (cpus.1 / cpus.0 - 1.0).abs() > DIFFERS || cpus.0 > 1.0 + DIFFERS {
        format!("; CPUs in use at a time: {:.2} -> {:.2}", cpus.0, cpus.1)
    } else {
        String::new()
    };
    Some(format!(
        "CPU time per {per}: {} -> {}{at_a_time}",
        duration_ns(was.cpu_ns?),
        duration_ns(is.cpu_ns?)
    ))
}

/// The rows that belong to time, together.
fn of_time(row: &RowChange, side: fn(&RowChange) -> f64) -> f64 {
    match row.belongs {
        Belongs::Time => side(row),
        Belongs::Operation => row.rows.iter().map(|part| of_time(part, side)).sum(),
    }
}

/// "`new` takes 2.26 us more per operation (397 ns -> 2.66 us), mostly because system call newfstatat
/// is new: 1.000 calls per operation, 967 ns each".
pub fn in_a_sentence(answer: &Answer, names: [&str; 2], per: &str) -> String {
    let change = &answer.change;
    let Some(cause) = answer.causes.first() else {
        return if answer.refused { no_answer(answer, per) } else { nothing(answer, names, per) };
    };
    if answer.bound_by_time {
        return format!(
            "no answer: `{}` and `{}` took the same time in every run, so they look bound by time, and \
             a run may do any number of operations. Say how many it does: --operations-from \
             'PATTERN', or --operations N",
            names[0], names[1]
        );
    }
    let (before, after) = told(answer, cause);
    let than = if after < before { "less" } else { "more" };
    let is_most = cause.own_ns.abs() >= 0.5 * change.own_ns.abs();
    let mostly = match (is_most, cause.own_ns * change.own_ns < 0.0) {
        (_, true) => "although",
        (true, _) => "mostly because",
        (false, _) => "most of all because",
    };
    format!(
        "`{}` takes {} {than} per {per} than `{}` ({} -> {}), {mostly} {}",
        names[1],
        duration_ns((after - before).abs()),
        names[0],
        duration_ns(before),
        duration_ns(after),
        because(cause, answer, per)
    )
}

fn no_answer(answer: &Answer, per: &str) -> String {
    if let Some(seconds) = answer.too_short_s {
        return format!(
            "no answer: runs of {} are too short to profile, as starting a program takes about as long. \
             Give the program more to do, 0.1 s or more a run",
            duration_ns(1e9 * seconds)
        );
    }
    let than = match answer.disturbance_ns {
        Some(ns) => format!("changed this difference by up to {}", duration_ns(ns)),
        None => format!("made {per}s longer by an amount that no clean run tells"),
    };
    format!(
        "no answer: profiling {than}, and no cause stands out from that. Try fewer samples (--hertz \
         49), more blocks (--blocks 20), or look at what there is: knee explain last --force"
    )
}

/// An event of a cause, as the noun that has a plural and what follows it: "pwrite64 call" and
/// nothing, "wait" and " in read".
fn event_in(cause: &Cause, event: &str) -> (String, String) {
    let name = place(&cause.path);
    if let Some(call) = name.strip_prefix("system call ") {
        let noun =
            if call == "entry and exit" { event.to_string() } else { format!("{call} call") };
        return (noun, String::new());
    }
    match (name.as_str(), name.strip_prefix("idle > ")) {
        ("processes", _) => (event.to_string(), String::new()),
        _ if event == "process" => ("short-lived process".to_string(), String::new()),
        ("page faults", _) => ("page fault".to_string(), String::new()),
        ("idle > wake-up latency", _) => ("wake-up".to_string(), String::new()),
        (_, Some(for_what)) => match for_what.strip_prefix("in ") {
            Some(call) => ("wait".to_string(), format!(" in {call}")),
            None => ("wait".to_string(), format!(" for {}", with_article(for_what))),
        },
        _ => (format!("{name} {event}"), String::new()),
    }
}

/// "a pipe (read)", "the quota of a cgroup", "memory reclaim".
fn with_article(what: &str) -> String {
    let article = match what.split(' ').next() {
        Some("quota") => "the ",
        Some("pipe" | "socket" | "character" | "file" | "futex" | "kernel" | "signal") => "a ",
        _ => "",
    };
    format!("{article}{what}")
}

/// What a cause did, as the end of "because …".
fn because(cause: &Cause, answer: &Answer, per: &str) -> String {
    let name = place(&cause.path);
    let change = &cause.change;
    if let (true, Some((was, is))) = (cause.path[0] == LOST_PARALLELISM, &answer.wall) {
        let why = match change.name.as_str() {
            LOST_PARALLELISM => String::new(),
            AFFINITY => ", as affinity keeps them from free CPUs".to_string(),
            why => format!(" ({why})"),
        };
        let (was, is) = (was.cpus_in_use, is.cpus_in_use);
        return format!("its tasks use {is:.2} CPUs at a time instead of {was:.2}{why}");
    }
    match &change.split {
        Split::CountAndCost { event, per_operation: (was, is), cost_per_event: each, .. } => {
            let (noun, of_what) = event_in(cause, event);
            let plural = if noun.ends_with('s') { "es" } else { "s" };
            let (one, many) = (format!("{noun}{of_what}"), format!("{noun}{plural}{of_what}"));
            let is_count = is_mostly_count(&change.split) == Some(true);
            match *each {
                (None, Some(each)) => format!(
                    "{many} are new: {} per {per}, {} each",
                    numbers::times(*is),
                    duration_ns(each)
                ),
                (Some(each), None) => format!(
                    "{many} are gone: {} per {per}, {} each",
                    numbers::times(*was),
                    duration_ns(each)
                ),
                (Some(cost), Some(costs)) if !is_count => format!(
                    "each {one} takes {}: {} -> {}",
                    compared(costs / cost, "as long", "times as long"),
                    duration_ns(cost),
                    duration_ns(costs)
                ),
                _ => format!(
                    "there are {} {many}: {} -> {} per {per}",
                    compared(is / was, "as many", "times as many"),
                    numbers::times(*was),
                    numbers::times(*is)
                ),
            }
        }
        Split::ShareAndLength { share, .. } => format!(
            "{name} {} {:.1} % of the time instead of {:.1} %",
            if name.ends_with("tasks") { "take" } else { "takes" },
            100.0 * share.1,
            100.0 * share.0
        ),
        Split::CountUnknown => {
            let than = if cause.own_ns < 0.0 { "less" } else { "more" };
            let time = duration_ns(cause.own_ns.abs());
            if cause.change.name == AFFINITY {
                return format!(
                    "CPUs that its waiting tasks may not use are idle for {time} {than} (affinity)"
                );
            }
            format!("{name} takes {time} {than}")
        }
    }
}

/// "CPUs x time per operation: 1.06 us -> 5.3 us; …"; `None` if all of the change is the workload's own.
fn whole(change: &RowChange, per: &str) -> Option<String> {
    let length = change.change - change.own_ns;
    if length.abs() < TOLD_SHARE * longest(change) {
        return None;
    }
    Some(format!(
        "CPUs x time per {per}: {} -> {}; {} of that goes to other tasks, unused CPUs, the host and timers, \
         which take {} of any {} {per}",
        duration_ns(change.before.mean),
        duration_ns(change.after.mean),
        signed(length),
        if length < 0.0 { "less" } else { "more" },
        if length < 0.0 { "shorter" } else { "longer" }
    ))
}

/// Why there is no cause, and how large one could be.
fn nothing(answer: &Answer, names: [&str; 2], per: &str) -> String {
    /// Differences below this share are as good as none.
    const SAME: f64 = 0.05;
    let change = &answer.change;
    let [old, new] = names;
    let least = change.before.mean.min(change.after.mean).max(1e-9);
    let share = |ns: f64| ns / least;
    let percent = |ns: f64| format!("{} %", quantity::signed(100.0 * share(ns), 1));
    let Some(p) = change.p else {
        return "no cause: with only one unit on a side, noise cannot be estimated: run more blocks \
                (--blocks 5)"
            .to_string();
    };
    let interval = change.own_interval;
    let range =
        interval.map(|(low, high)| format!("{} to {} at 95 %", percent(low), percent(high)));
    let within = range.map(|range| format!(" ({range})")).unwrap_or_default();
    let than = if change.own_ns < 0.0 { "less" } else { "more" };
    match interval {
        _ if p <= 0.01 => format!(
            "`{new}` takes {than} per {per} than `{old}`{within}, but no single row changed \
             significantly: more blocks would show which (--blocks 20)"
        ),
        Some((low, high)) if low > 0.0 || high < 0.0 => format!(
            "`{new}` probably takes {than} per {per} than `{old}`{within}, but too few runs tell: more \
             blocks would be surer, and show which row changed (--blocks 20)"
        ),
        Some((low, high)) if share(low) >= -SAME && share(high) <= SAME => format!(
            "no cause: `{old}` and `{new}` take the same time per {per}, as far as these runs tell{within}"
        ),
        _ => format!(
            "cannot tell whether `{old}` and `{new}` take the same time per {per}{within}: more blocks would \
             (--blocks 20), or a quieter host"
        ),
    }
}

/// The change that the causes leave unexplained, and what it is in.
fn rest(answer: &Answer, total_ns: f64) -> Option<String> {
    let change = &answer.change;
    let with = |cause: &Cause| cause.with.iter().map(|part| part.own_ns).sum::<f64>();
    let told: f64 = answer.causes.iter().map(|cause| cause.own_ns + with(cause)).sum();
    let rest = total_ns - told;
    if rest.abs() < TOLD_SHARE * longest(change) {
        return None;
    }
    let mut parts = unsure(change, &answer.causes);
    let named: f64 = parts.iter().map(|(_, ns)| ns).sum();
    let length = if answer.wall.is_some() { change.change - change.own_ns } else { 0.0 };
    let profiled = if answer.wall.is_some() { total_ns - change.change } else { 0.0 };
    let small = change.own_ns - told - named;
    parts.push(("rows that changed by less than 1 % or not significantly".to_string(), small));
    parts.push(("what other tasks and the host took while it had work to do".to_string(), length));
    parts.push(("what profiled runs took less than clean ones".to_string(), profiled));
    parts.retain(|(_, ns)| ns.abs() >= TOLD_SHARE * longest(change));
    let parts: Vec<String> =
        parts.iter().map(|(name, ns)| format!("{} is {name}", signed(*ns))).collect();
    let of_what = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    Some(format!(
        "{} add up to {} of {}. Of the other {}{of_what}",
        if answer.causes.len() == 1 { "This and what comes with it" } else { "All causes" },
        signed(told),
        signed(total_ns),
        signed(rest)
    ))
}

/// The largest rows outside of causes, which changed by much but not surely.
fn unsure(change: &RowChange, causes: &[Cause]) -> Vec<(String, f64)> {
    const NAMED: usize = 3;
    const SHARE_MIN: f64 = 0.1;
    fn gather(
        row: &RowChange,
        path: &mut Vec<String>,
        causes: &[Cause],
        rows: &mut Vec<(String, f64)>,
    ) {
        path.push(row.name.clone());
        let is_part = |cause: &Cause| {
            let is_lost = path[0] == LOST_PARALLELISM && cause.path[0] == path[0];
            is_lost
                || cause.path == *path
                || cause.with.iter().any(|part| part.name == path.join(" > "))
        };
        let has_cause = |cause: &Cause| cause.path.starts_with(path);
        if causes.iter().any(is_part) {
        } else if row.rows.is_empty() || !(is_container(row) || causes.iter().any(has_cause)) {
            rows.push((place(path), row.own_ns));
        } else {
            row.rows.iter().for_each(|part| gather(part, path, causes, rows));
        }
        path.pop();
    }
    let mut rows = Vec::new();
    change.rows.iter().for_each(|row| gather(row, &mut Vec::new(), causes, &mut rows));
    // A cause of many rows, as processes are, has them all.
    if causes.iter().any(|cause| cause.change.name == "processes") {
        rows.clear();
    }
    rows.retain(|(_, ns)| {
        ns.abs() >= SHARE_MIN * change.own_ns.abs().max(TOLD_SHARE * longest(change))
    });
    rows.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
    rows.truncate(NAMED);
    rows
}

fn is_container(row: &RowChange) -> bool {
    [WORK, IDLE, LOST_PARALLELISM].contains(&row.name.as_str())
}

fn longest(change: &RowChange) -> f64 {
    change.before.mean.max(change.after.mean)
}

/// "+6.8 us of +7.7 us: spinning for locks > …: as often as before (1.000 -> 1.000 spins per
/// operation), 24 times the cost (0.3 -> 7.1 us each); …".
fn sentence(cause: &Cause, total_ns: f64, all: &[Cause], per: &str) -> String {
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
    let against = if cause.own_ns * total_ns < 0.0 { "against" } else { "of" };
    format!(
        "{} {against} {}: {}: {how}{}{}{} ({}). To confirm: {}",
        signed(cause.own_ns),
        signed(total_ns),
        place(&cause.path),
        parts(cause),
        with(cause),
        instead(cause, all),
        evidence(cause),
        confirmation(cause)
    )
}

/// The path without its first part if that is the workload.
pub fn place(path: &[String]) -> String {
    let from = usize::from(path.len() > 1 && path[0] == WORK);
    path[from..].join(" > ")
}

fn count_and_cost(
    what: &str,
    times: (f64, f64),
    each: (Option<f64>, Option<f64>),
    per: &str,
) -> String {
    let plural = if what.ends_with('s') { "es" } else { "s" };
    let often = |n: f64| format!("{} {what}{plural} per {per}", numbers::times(n));
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
    const RATIO_MAX: f64 = 100.0;
    match ratio {
        r if (0.95..=1.05).contains(&r) => same.to_string(),
        r if r > RATIO_MAX => format!("more than {RATIO_MAX:.0} {times}"),
        r if r < 1.0 / RATIO_MAX => format!("less than 0.01 {times}"),
        r => format!("{r:.2} {times}"),
    }
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
    let part = |part: &ledger::CausePart| {
        format!("{} in {}{}", signed(part.own_ns), part.name, each(part.own_ns))
    };
    let parts: Vec<String> = cause.parts.iter().map(part).collect();
    if parts.is_empty() { String::new() } else { format!("; including {}", parts.join(", ")) }
}

/// "; with it +130 ns in system call entry and exit".
fn with(cause: &Cause) -> String {
    let part = |part: &ledger::CausePart| {
        format!("{} in {}", signed(part.own_ns), part.name.trim_start_matches("the workload > "))
    };
    let parts: Vec<String> = cause.with.iter().map(part).collect();
    if parts.is_empty() { String::new() } else { format!("; with it {}", parts.join(", ")) }
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
    let is_count = is_mostly_count(&cause.change.split) == Some(true);
    if path_has(INTERRUPTS) {
        return "the interrupt counts of `knee show --counters` must agree";
    }
    if cause.change.belongs == Belongs::Time {
        return "measure again without these tasks, or with the workload pinned to other CPUs";
    }
    if path_has("spinning") {
        return "the row must disappear with fewer tasks, or with one lock per task";
    }
    if path_has("quota") {
        return "nr_throttled in cpu.stat of the cgroup must grow on one side only";
    }
    if path_has(AFFINITY) {
        return "taskset -pc of its tasks; the row must disappear if they may use all CPUs";
    }
    if path_has(LOST_PARALLELISM) {
        return "with --cpus 1 on both, the difference must vanish";
    }
    if cause.change.name == "processes" {
        return "strace -f -c -e trace=execve,clone on both must show the same counts";
    }
    if path_has("idle") && path_has("(") {
        return "strace -c -w -f on both must show the same waits";
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
