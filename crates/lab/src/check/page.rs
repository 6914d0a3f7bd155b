//! What was searched and what was found, as a page.

use std::collections::{BTreeMap, BTreeSet};

use answers::{BypassBound, BypassBounds, DesignAgainstKernel, ScheduleCoverage};
use engines::checker::{Coverage, Failure, Fault, Memory};
use engines::{CodeSite, Mutant, Unsupported};
use pages::{Block, Page, PageKind, PageTable, Section, TaskSteps, Wide};
use studies::checks::accepted::AcceptedRace;
use studies::checks::bypass::{Bound, Fairness, TASKS_MOST};
use studies::checks::mutants::{CaughtMutant, Fate, JudgedMutant};
use studies::checks::{Besides, CheckResult, CheckSize, Verdict};
use text::prose::counted;
use text::table::{Align, Table};

use super::Judged;

/// The memory model, in the words of the command line.
pub fn memory(memory: Memory) -> &'static str {
    memory.name()
}

/// The page of checks, with the commands that replay their failures.
pub fn results(all: &[CheckResult], again: Vec<String>) -> Page {
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let mut sections = vec![Section::open("Results", vec![plain(table(all))])];
    for one in all {
        sections.extend(match one.verdict() {
            Verdict::Wrong(failure) => Some(interleaving(&one.name, failure)),
            Verdict::NotChecked(why) => accesses(&one.name, &why),
            Verdict::Holds | Verdict::NothingFound => None,
        });
    }
    Page { answers: answers(all), sections, method: legend(all), again, ..empty(&names.join(", ")) }
}

fn empty(title: &str) -> Page {
    Page::new(title, PageKind::Check)
}

fn plain(table: Table) -> Block {
    Block::Table(PageTable::plain("", table, &[]))
}

/// Something happens on hardware, and under rules.
fn place(memory: Memory) -> &'static str {
    match memory {
        Memory::Armv8 | Memory::TotalStoreOrder => "on",
        _ => "under",
    }
}

/// The worst first; all that hold in one sentence.
fn answers(all: &[CheckResult]) -> Vec<String> {
    let mut answers = Vec::new();
    for one in all {
        if let Verdict::Wrong(Failure { fault, .. }) = one.verdict() {
            answers.push(wrong_sentence(one, fault));
        }
    }
    for one in all {
        if let Verdict::NotChecked(why) = one.verdict() {
            answers.extend(not_checked(&one.name, &why));
        }
    }
    let named = |test: fn(&Verdict) -> bool| {
        let names = all.iter().filter(|one| test(&one.verdict())).map(|one| one.name.as_str());
        names.collect::<Vec<&str>>()
    };
    let CheckSize { threads, acquires, locks } = all[0].size;
    let nested = if locks > 1 { format!(", {locks} locks nested") } else { String::new() };
    let tasks = format!(
        "{} with {} each{nested}",
        counted(threads, "task"),
        counted(acquires as usize, "acquire")
    );
    match &named(|verdict| matches!(verdict, Verdict::NothingFound))[..] {
        [] => {}
        names => answers.push(format!(
            "{}: nothing found in {} of {tasks}",
            brief(names, "algorithm"),
            counted(all[0].schedules.unwrap_or_default() as usize, "random schedule"),
        )),
    }
    match &named(|verdict| matches!(verdict, Verdict::Holds))[..] {
        [] => {}
        names => {
            let hold = if names.len() == 1 { "holds" } else { "hold" };
            let (names, too) = (brief(names, "algorithm"), too_by_language(all));
            answers.push(format!("{names} {hold} in every interleaving of {tasks}{too}"));
        }
    }
    all.iter().for_each(|one| answers.extend(accepted_races(one, all.len() > 1)));
    answers.extend(all.iter().filter_map(|one| counted_tries(one, all.len() > 1)));
    answers.extend(all.iter().filter_map(|one| covered(one, all.len() > 1)));
    answers.extend(unknown(all, "wake-ups without a cause", |one| one.by_itself.as_ref()));
    answers.extend(unknown(all, "rc11", |one| one.by_language.as_ref()));
    answers
}

/// That not every try of a loop was a step.
fn counted_tries(checked: &CheckResult, has_others: bool) -> Option<String> {
    let is_said = checked.counts_tries && matches!(checked.verdict(), Verdict::Holds);
    let name = if has_others { format!("{}: ", checked.name) } else { String::new() };
    is_said.then(|| {
        format!("{name}a loop counts its tries: others ran between the first four of them, and behind the last")
    })
}

/// What sampled schedules without a fault cover.
fn covered(checked: &CheckResult, has_others: bool) -> Option<String> {
    let coverage =
        checked.coverage.filter(|_| matches!(checked.verdict(), Verdict::NothingFound))?;
    let Coverage { distinct, depth, players, longest, .. } = coverage;
    let name = if has_others { format!("{}: ", checked.name) } else { String::new() };
    let tasks = counted(checked.size.threads, "task");
    let has_buffers = players > checked.size.threads as u64;
    let tasks = if has_buffers { format!("{tasks} with store buffers") } else { tasks };
    let missed = percent(coverage.missed_at_most(depth));
    let less = match depth {
        1 => String::new(),
        _ => format!(
            ", one of depth {} of {}",
            depth - 1,
            percent(coverage.missed_at_most(depth - 1))
        ),
    };
    let deeper = match depth {
        ..=5 => format!(
            "; every second one is of depth 8, and --depth {} makes the others deeper",
            depth + 3
        ),
        _ => String::new(),
    };
    Some(format!(
        "{name}{distinct} of the schedules differ; in {tasks} and {longest} steps, a fault of depth {depth} is missed with a \
         probability of at most {missed}{less}{deeper}"
    ))
}

/// A probability that is an upper bound: rounded up.
fn percent(probability: f64) -> String {
    let percent = 100.0 * probability;
    match percent {
        0.0..0.01 => "0.01 %".to_string(),
        0.01..10.0 => format!("{:.2} %", (percent * 100.0).ceil() / 100.0),
        _ => format!("{} %", percent.ceil()),
    }
}

/// What sampled schedules cover, as data.
pub fn coverage(coverage: &Coverage) -> ScheduleCoverage {
    let &Coverage { distinct, depth, players, longest, guaranteed } = coverage;
    let missed_at_most = coverage.missed_at_most(depth);
    ScheduleCoverage { distinct, depth, players, steps: longest, guaranteed, missed_at_most }
}

/// What is wrong, and on which models it is not.
pub fn wrong_sentence(checked: &CheckResult, fault: &Fault) -> String {
    let level = match &checked.holds_on[..] {
        [] => String::new(),
        holding => {
            let names: Vec<&str> = holding.iter().map(|&model| memory(model)).collect();
            let (how, failing) = (place(checked.memory), memory(checked.memory));
            format!("holds on {}, fails {how} {failing}: ", names.join(" and "))
        }
    };
    let by_itself = if checked.is_spurious { BY_ITSELF } else { "" };
    format!("{} is WRONG: {level}{by_itself}{fault}", checked.name)
}

const BY_ITSELF: &str = "holds while sleepers wake only when they are woken, fails if one wakes by itself, as from a futex or a \
     condition variable it may: ";

/// The races that were accepted, and the accepted lines without one.
fn accepted_races(checked: &CheckResult, has_others: bool) -> Vec<String> {
    let name = if has_others { format!("{}: ", checked.name) } else { String::new() };
    let races: Vec<String> = checked.accepted.races.iter().map(accepted_race).collect();
    let mut said = Vec::new();
    if !races.is_empty() {
        let count = counted(races.len(), "race");
        said.push(format!("{name}{count} accepted: {}", races.join("; ")));
    }
    let without = without_race(checked);
    if !without.is_empty() {
        let lines = without.join(", ");
        said.push(format!("{name}accepted, but no race was found there: {lines} (leave it out)"));
    }
    said
}

/// `queue.c:41 (plain load beside the plain store of :57)`.
fn accepted_race(race: &AcceptedRace) -> String {
    let AcceptedRace { access, other } = race;
    let Some(other) = other else { return format!("{} ({access})", access.site) };
    let place = if other.site.file == access.site.file {
        format!(":{}", other.site.line)
    } else {
        other.site.to_string()
    };
    format!("{} ({access} beside the {other} of {place})", access.site)
}

/// The accepted lines with no race, of what was searched to its end.
pub fn without_race(checked: &CheckResult) -> &[String] {
    let has_ended = matches!(checked.verdict(), Verdict::Holds | Verdict::NothingFound);
    if has_ended { &checked.accepted.without_race } else { &[] }
}

/// That all which holds on this machine does so by the language's rules, too.
fn too_by_language(all: &[CheckResult]) -> String {
    let mut holding = all.iter().filter(|one| matches!(one.verdict(), Verdict::Holds));
    let is_too = |one: &CheckResult| matches!(one.by_language, Some(Besides::Holds(_)));
    let machine = memory(Memory::of_this_machine());
    if holding.all(is_too) { format!(", on {machine} and by C11 (rc11)") } else { String::new() }
}

/// What holds, and what is not known of it in another search: a sentence for each reason.
fn unknown(
    all: &[CheckResult],
    what: &str,
    of: fn(&CheckResult) -> Option<&Besides>,
) -> Vec<String> {
    let mut names_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for one in all {
        if let Some(Besides::NotChecked(why)) = of(one) {
            let why = why.why.lines().next().unwrap_or_default();
            names_of.entry(why).or_default().push(&one.name);
        }
    }
    let said = |(why, names): (&str, Vec<&str>)| {
        format!("{}: {what}: not checked: {why}", brief(&names, "algorithm"))
    };
    names_of.into_iter().map(said).collect()
}

/// The memory models of the verdict.
fn models(one: &CheckResult) -> String {
    let model = memory(one.memory);
    match one.by_language {
        Some(Besides::Holds(_)) => format!("{model}, rc11"),
        _ => model.to_string(),
    }
}

/// Names, or how many there are: the table has all.
fn brief(names: &[&str], what: &str) -> String {
    const NAMES_MAX: usize = 8;
    if names.len() > NAMES_MAX { counted(names.len(), what) } else { names.join(", ") }
}

/// Why something could not be checked, and the way out.
fn not_checked(name: &str, unsupported: &Unsupported) -> [String; 2] {
    let Unsupported { why, way_out } = unsupported;
    let why = why.lines().next().unwrap_or_default().trim_end_matches(':');
    [format!("{name}: not checked: {why}"), format!("way out: {way_out}")]
}

/// What else is to be said of why something could not be checked: a list of accesses.
fn accesses(name: &str, unsupported: &Unsupported) -> Option<Section> {
    let accesses = unsupported.why.lines().skip(1).map(|line| line.trim().to_string());
    let accesses: Vec<String> = accesses.collect();
    let title = format!("Not checked in {name}");
    (!accesses.is_empty()).then(|| Section::open(&title, vec![Block::Text(accesses)]))
}

/// A row for each check.
fn table(all: &[CheckResult]) -> Table {
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
            models(one),
            or_none(searched.map(|searched| searched.to_string())),
            or_none(searched.map(|_| one.steps.to_string())),
            or_none(searched.map(|_| format!("{:.3}", one.seconds))),
            verdict(one),
        ];
        row.extend(has_bounds.then(|| one.fairness.as_ref().map(bounds).unwrap_or_default()));
        table.row(row);
    }
    table
}

/// What the verdicts in the table claim.
fn legend(all: &[CheckResult]) -> Vec<String> {
    let memory_of = |test: fn(&Verdict) -> bool| {
        all.iter().find(|one| test(&one.verdict())).map(|one| one.memory)
    };
    let holding = memory_of(|verdict| matches!(verdict, Verdict::Holds)).map(holds);
    let any_by_language = all.iter().any(|one| matches!(one.by_language, Some(Besides::Holds(_))));
    let by_language = any_by_language.then_some(HOLDS_BY_LANGUAGE);
    let bypass = all.iter().any(|one| one.fairness.is_some()).then_some(BOUNDED_BYPASS);
    let sampled = memory_of(|verdict| matches!(verdict, Verdict::NothingFound)).map(|_| SAMPLED);
    let by_itself = all.iter().any(|one| matches!(one.by_itself, Some(Besides::Holds(_))));
    let by_itself = by_itself.then_some(HOLDS_BY_ITSELF);
    [holding, by_itself, by_language, bypass, sampled]
        .into_iter()
        .flatten()
        .map(str::to_string)
        .collect()
}

const HOLDS_BY_ITSELF: &str =
    "sleepers were also woken without a wake-up, in a second search on the first model";

const HOLDS_BY_LANGUAGE: &str = "rc11: the same in every execution that C11 and C++20 allow, with no data race; not searched: what \
     `knee help memory-models` leaves out";

const SAMPLED: &str = "states: random schedules tried; this proves nothing about the others. Depth: how many pairs of steps must \
     come in a certain order for the fault, each schedule finding it with a probability of 1/(n·k^(depth-1)) or more, of n tasks \
     and k steps (PCT, Burckhardt and others 2010); values that are chosen at random besides are not counted";

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
        Memory::Rc11 => {
            "holds: in every execution that C11 and C++20 allow (RC11): mutual exclusion, the order \
             of entry where claimed, no deadlock, an end to every wait, and no data race; not \
             searched: what `knee help memory-models` leaves out"
        }
        Memory::Armv8 => {
            "holds: in every execution that Armv8 allows for the code as compiled: mutual exclusion, \
             the order of entry where claimed, no deadlock, an end to every wait, and plain accesses \
             ordered; not searched: in knee's own locks, whose dependencies are not seen, stores that \
             run ahead of earlier loads; what `knee help memory-models` leaves out"
        }
        Memory::Lkmm => {
            "holds: in every execution that the kernel's memory model allows for the code as compiled: \
             mutual exclusion, the order of entry where claimed, no deadlock, an end to every wait, \
             and no data race; not searched: RCU; in knee's own locks, whose dependencies are not \
             seen, stores that run ahead of earlier loads; what `knee help memory-models` leaves out"
        }
        Memory::LkmmUntil62 => {
            "holds: in every execution that the kernel's memory model allowed until Linux 6.2, for the \
             code as compiled; not searched: as under lkmm, which orders more"
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
        verdict if !checked.accepted.races.is_empty() => {
            let accepted = counted(checked.accepted.races.len(), "race");
            format!("{}, {accepted} accepted", verdict.word())
        }
        verdict => verdict.word().to_string(),
    }
}

/// The interleaving that leads to a failure.
fn interleaving(name: &str, failure: &Failure) -> Section {
    let Failure { steps, is_shortest, .. } = failure;
    let no_shorter = is_shortest.then(|| "no shorter interleaving is wrong".to_string());
    let sentences = Block::Text(no_shorter.into_iter().collect());
    Section::open(&format!("Interleaving of {name}"), vec![trace(steps), sentences])
}

/// The steps of an interleaving: which task does what, and in which line of the source.
pub fn trace(steps: &[String]) -> Block {
    if steps.is_empty() {
        return Block::Text(vec!["(before the first step)".to_string()]);
    }
    let columns = ["task", "step", "at"];
    let mut table = Table::new(columns.map(|name| (name, Align::Left)));
    let (mut tasks, mut parts) = (BTreeSet::new(), Vec::new());
    for step in steps {
        let (task, step) = step.split_once(' ').unwrap_or((step, ""));
        let (step, place) = match step.rsplit_once("  ") {
            Some((step, place)) if !step.trim().is_empty() => (step.trim_end(), place),
            Some(_) | None => (step, ""),
        };
        table.row([task, step, place].map(str::to_string).into());
        tasks.insert((task.len(), task.to_string()));
        parts.push([task, step.trim(), place].map(str::to_string));
    }
    let tasks = tasks.into_iter().map(|(_, task)| task).collect();
    let wide = Wide::ByTask(TaskSteps { tasks, steps: parts });
    Block::Table(PageTable { wide, ..PageTable::plain("", table, &[]) })
}

/// The page of a schedule that was replayed.
pub fn followed(name: &str, steps: &[String], fault: Option<&Fault>) -> Page {
    let answer = fault.map_or("nothing is wrong".to_string(), Fault::to_string);
    let sections = vec![Section::open("Interleaving", vec![trace(steps)])];
    Page { answers: vec![answer], sections, ..empty(&format!("a schedule of {name}")) }
}

/// The page of designs that were compared with the running kernel.
pub fn against_kernel(all: &[DesignAgainstKernel], seed: u64) -> Page {
    let columns =
        ["s", "granted", "EAGAIN", "EDEADLK", "waited", "asked", "forks", "exits", "tables"];
    let columns = columns.map(|name| (name, Align::Right));
    let mut table = Table::new([("design", Align::Left)].into_iter().chain(columns));
    let (mut answers, mut again) = (Vec::new(), Vec::new());
    for one in all {
        let DesignAgainstKernel { name, calls, difference, .. } = one;
        let counts = [one.granted, one.refused, one.deadlocks, one.waited, one.asked, one.forks];
        let counts = counts.into_iter().chain([one.exits, one.tables]).map(|n| n.to_string());
        let cells = [name.clone(), format!("{:.1}", one.seconds)];
        table.row(cells.into_iter().chain(counts).collect());
        answers.extend(difference.as_ref().map(|why| format!("{name}: {why}")));
        let rerun = format!("knee check {name} --against-kernel {calls} --seed {seed}");
        again.extend(difference.is_some().then_some(rerun));
    }
    let same = all.iter().filter(|one| one.difference.is_none()).map(|one| one.name.as_str());
    let same: Vec<&str> = same.collect();
    if let ([_, ..], Some(one)) = (&same[..], all.first()) {
        let (designs, calls) = (brief(&same, "design"), one.calls);
        answers.push(format!("{designs}: no difference from the kernel in {calls} calls each"));
    }
    let sections = vec![Section::open("Calls", vec![plain(table)])];
    Page { answers, sections, again, ..empty("file locks and those of the kernel") }
}

/// The page of mutants: what was changed in each algorithm, and how that came out.
pub fn mutants(all: &[(String, Judged)], memories: &[Memory]) -> Page {
    let (mut answers, mut sections) = (Vec::new(), Vec::new());
    for (name, judged) in all {
        match judged {
            Ok(judged) if judged.is_empty() => answers.push(format!(
                "{name}: built from other locks, it has no access of its own to mutate"
            )),
            Ok(judged) => {
                let count =
                    |test: fn(&Fate) -> bool| judged.iter().filter(|one| test(&one.fate)).count();
                let survived = match count(|fate| matches!(fate, Fate::Survived)) {
                    0 => String::new(),
                    survived => format!(", {survived} SURVIVED"),
                };
                answers.push(format!(
                    "{name}: {} of {} found, {} equivalent{survived}",
                    count(|fate| matches!(fate, Fate::Caught(_))),
                    counted(judged.len(), "mutant"),
                    count(|fate| matches!(fate, Fate::Equivalent(_))),
                ));
                sections.push(mutants_of(name, judged));
            }
            Err(why) => {
                answers.extend(not_checked(name, why));
                sections.extend(accesses(name, why));
            }
        }
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    let models: Vec<&str> = memories.iter().map(|&model| memory(model)).collect();
    let models = models.join(" and ");
    let weaker = if memories.contains(&Memory::Rc11) {
        "what survives makes no difference in the tasks that were searched".to_string()
    } else {
        format!("what survives under {models} may be needed under rc11 (--memory rc11)")
    };
    let method = vec![
        format!("found: by a search under {models}; {weaker}"),
        format!("whether it holds as it is: knee check {}", names.join(" ")),
    ];
    let title = format!("mutants of {}", names.join(", "));
    Page { answers, sections, method, ..empty(&title) }
}

fn mutants_of(name: &str, judged: &[JudgedMutant]) -> Section {
    let mut table = Table::new([
        ("line", Align::Right),
        ("change", Align::Left),
        ("found as", Align::Left),
        ("with", Align::Left),
        ("access", Align::Left),
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
            one.mutant.change.to_string(),
            fate,
            with,
            one.line.clone(),
        ]);
    }
    Section::open(
        &format!("Mutants of {name}"),
        vec![Block::Table(PageTable::of_prose(table)), Block::Text(reasons)],
    )
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

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use studies::checks::accepted::Accepted;
    use text::Style;

    use super::*;

    #[test]
    fn a_failure_is_shown_step_by_step() {
        let steps = ["t0 lock.next add 1 -> 0      ticket.rs:9", "t1   enters"]
            .map(str::to_string)
            .to_vec();
        let fault = Fault::NotExclusive("both".into());
        let schedule = "0.1".parse().unwrap();
        let failure =
            Failure { fault, schedule, steps, is_shortest: true, details: Box::default() };
        let checked = CheckResult {
            name: "ticket".to_string(),
            size: CheckSize { threads: 2, acquires: 1, locks: 1 },
            memory: Memory::SequentiallyConsistent,
            states: Some(12),
            schedules: None,
            coverage: None,
            steps: 15,
            seconds: 0.0,
            gave_up: false,
            failure: Some(failure),
            holds_on: Vec::new(),
            by_language: None,
            sleeps: false,
            by_itself: None,
            is_spurious: false,
            refused: None,
            fairness: None,
            accepted: Accepted::default(),
            counts_tries: false,
        };
        expect![[r#"
            ticket is WRONG: no mutual exclusion: both

            Results
                              acquires
            algorithm  tasks      each  model  states  steps      s  verdict
            ticket         2         1  sc         12     15  0.000  WRONG: exclusion

            Interleaving of ticket
            at           t0                    t1
            ticket.rs:9  lock.next add 1 -> 0
                                               enters
            no shorter interleaving is wrong

            rerun       knee check …
        "#]]
        .assert_eq(&pages::terminal(
            &results(&[checked], vec!["knee check …".into()]),
            Style::PLAIN,
        ));
    }
}
