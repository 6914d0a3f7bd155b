//! Notes below a ledger: the cost of profiling, the self-checks, and what could not be measured.

use ledger::{CLOCK_MAX, COST_MAX, Explained, LedgerCheck, LookCost, OTHERS, STOLEN};
use text::prose::counted;
use text::quantity::{duration_ns, signed};

use crate::ledger::numbers;

/// The notes, a sentence each. `per` is the unit of work, "operation" or "run".
pub fn notes(explained: &Explained, per: &str, force: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    if explained.emulated {
        sentences.push(
            "emulated: QEMU translated the guest's instructions, so times and shares say nothing \
             about real hardware; event counts per operation do"
                .to_string(),
        );
    }
    if let Some(cost) = explained.refused().filter(|_| !force) {
        sentences.push(refused(cost, per));
    }
    if explained.coarse && explained.ledger.is_some() {
        sentences.push(
            "no probes ran: times are from /proc, in clock ticks. Missing: locks, interrupts, \
             functions, what idle CPUs waited for, names of other tasks, knee's own time; \
             `knee doctor` says what this host allows"
                .to_string(),
        );
    }
    sentences.extend(waits(explained, per));
    sentences.extend(counts(explained, per));
    sentences.extend(explained.costs.iter().map(|each| cost(each, per)));
    sentences.extend(checks(&explained.check));
    sentences.extend(not_measured(explained));
    for reason in &explained.failures {
        sentences.push(format!("a profiled run failed: {reason}"));
    }
    sentences
}

/// What other programs did to the answer, if they took much of the time: "other programs (rustc, clang) and the host took 31 %
/// of the time of `old`, …". Sides have a name, or none for a single point.
pub fn taken(sides: &[(Option<&str>, &Explained)]) -> Option<String> {
    const TAKEN_MIN: f64 = 0.05;
    const NAMED: usize = 3;
    let share = |explained: &Explained| match (&explained.wall, &explained.ledger) {
        (Some(wall), _) => wall.taken,
        (None, Some(ledger)) => {
            let rows = [OTHERS, STOLEN].into_iter().filter_map(|name| ledger.root.part(name));
            let taken: u64 = rows.map(|row| row.total_ns()).sum();
            taken as f64 / ledger.root.total_ns().max(1) as f64
        }
        (None, None) => 0.0,
    };
    if sides.iter().all(|(_, explained)| share(explained) < TAKEN_MIN) {
        return None;
    }
    let mut names: Vec<&str> = Vec::new();
    let ledgers = sides.iter().filter_map(|(_, explained)| explained.ledger.as_ref());
    for row in ledgers
        .filter_map(|ledger| ledger.root.part(OTHERS))
        .flat_map(|row| row.rows.iter().take(NAMED))
    {
        if !names.contains(&row.name.as_str()) && names.len() < NAMED {
            names.push(&row.name);
        }
    }
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    let shares = sides.iter().map(|(name, explained)| {
        let of = name.map_or_else(|| "it".to_string(), |name| format!("`{name}`"));
        format!("{:.0} % of the time of {of}", 100.0 * share(explained))
    });
    let shares: Vec<String> = shares.collect();
    let what = if sides.len() > 1 {
        "Causes leave that out, but times are longer by it and less sure"
    } else {
        "Times are longer by it"
    };
    Some(format!(
        "While profiled, other programs{names} and the host took {} that it had work for. {what}; a quieter host \
         answers better",
        shares.join(" and ")
    ))
}

/// "not measured: lock_waits, lock_holds: this kernel has no tracepoints", once for each reason.
fn not_measured(explained: &Explained) -> Vec<String> {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (probe, why) in &explained.unavailable_probes {
        match by_reason.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, probes)) => probes.push(probe),
            None => by_reason.push((why, vec![probe])),
        }
    }
    let sentence =
        |(why, probes): (&str, Vec<&str>)| format!("not measured: {}: {why}", probes.join(", "));
    by_reason.into_iter().map(sentence).collect()
}

/// "runnable tasks waited 1.2 ms per operation for a CPU: 1.1 ms behind tasks of the workload, …".
fn waits(explained: &Explained, per: &str) -> Option<String> {
    const TOLD_NS: f64 = 1.0;
    let waited: f64 = explained.waits.values().sum();
    let mut waits: Vec<(&String, &f64)> = explained.waits.iter().collect();
    waits.sort_by(|a, b| b.1.total_cmp(a.1));
    let told = waits.iter().filter(|(_, ns)| **ns >= TOLD_NS);
    let told: Vec<String> =
        told.map(|(name, ns)| format!("{} {name}", duration_ns(**ns))).collect();
    (!told.is_empty()).then(|| {
        format!(
            "runnable tasks waited {} per {per} for a CPU: {}",
            duration_ns(waited),
            told.join(", ")
        )
    })
}

/// "counted per operation: 2.000 syscall.fcntl, …": events above 1 in 10 000 operations.
fn counts(explained: &Explained, per: &str) -> Option<String> {
    const TOLD_MIN: f64 = 1e-4;
    const CALLS_MAX: usize = 8;
    let often = explained.counts.iter().filter(|(_, times)| **times >= TOLD_MIN);
    let mut often: Vec<(&String, &f64)> = often.collect();
    let all = often.len();
    // All that is no call, then the most frequent calls.
    let is_call = |name: &str| name.starts_with("syscall.");
    often.sort_by(|a, b| is_call(a.0).cmp(&is_call(b.0)).then(b.1.total_cmp(a.1)));
    let others = often.iter().filter(|(name, _)| !is_call(name)).count();
    often.truncate(others + CALLS_MAX);
    let told: Vec<String> =
        often.iter().map(|(name, times)| format!("{} {name}", numbers::times(**times))).collect();
    let more = match all - told.len() {
        0 => String::new(),
        more => format!(", and {more} rarer calls (--json)"),
    };
    (!told.is_empty()).then(|| format!("counted per {per}: {}{more}", told.join(", ")))
}

fn refused(cost: &LookCost, per: &str) -> String {
    format!(
        "refused: profiling ({}) made {per}s {} longer, more than {:.0} %, so the profile does \
         not represent the clean runs; try fewer samples (--hertz 49), longer runs, a quieter \
         host, or --force to print it anyway",
        cost.kind.name(),
        percent(cost.median),
        100.0 * COST_MAX
    )
}

fn cost(cost: &LookCost, per: &str) -> String {
    let (low, high) = cost.quartiles;
    format!(
        "profiling ({}) changed the time of {per}s by {} against clean runs of the same block \
         (quartiles {} to {}, {})",
        cost.kind.name(),
        percent(cost.median),
        percent(low),
        percent(high),
        counted(cost.pairs, "pair")
    )
}

fn percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share, 1))
}

fn checks(check: &LedgerCheck) -> Vec<String> {
    if check.windows == 0 {
        return Vec::new();
    }
    let windows = counted(check.windows, "window");
    let mut sentences = vec![match &check.broken {
        None => format!("rows add up to CPUs x time to the nanosecond in {windows}"),
        Some(law) => format!("bug in knee: {law}"),
    }];
    if let Some(clock) = check.clock {
        let woken = 100.0 * check.woken;
        let verdict = match check.agrees() {
            Some(true) if clock.abs() <= CLOCK_MAX => "as expected".to_string(),
            Some(true) => format!(
                "as expected: the kernel charges a woken task from its wake-up, the rows from the \
                 switch, at most {woken:.2} % apart"
            ),
            _ => "more than 0.5 %: rows of the workload, of idle and of other tasks may be off by \
                  that much"
                .to_string(),
        };
        let clock = signed(100.0 * clock, 2);
        sentences.push(format!(
            "the workload's rows differ from its tasks' own CPU clocks by {clock} %: {verdict}"
        ));
    }
    let (mut unseen, mut others) = (0, Vec::new());
    for (what, times) in &check.anomalies {
        match what.as_str() {
            "unseen switches" => unseen = *times,
            _ => others.push(format!("{what} {times} times")),
        }
    }
    if unseen > 0 {
        sentences.push(format!(
            "{unseen} of about {} context switches had no event; knee found them later and dated \
             them by the scheduler's own times",
            check.switches
        ));
    }
    if !others.is_empty() {
        sentences.push(format!("while profiling: {}", others.join(", ")));
    }
    sentences
}
