//! The pages of the screen, from what was seen last.

use std::collections::BTreeMap;

use ledger::{LedgerRow, WORK};
use live::{LiveAnswer, ThreadGroup, threads_of};
use records::live::{LockPlace, Observation, ObservedLock, ObservedThread, ThreadState};
use text::prose::{counted, wrapped};
use text::quantity::{duration_ns, fixed, short};
use text::table::{Align, Table};

use super::screen::clipped;
use super::{Block, Place, ScreenPage};
use crate::live::{does, first, first_sentence, holder, notes, sentence, thread_table};

/// Letters of a lock's or a function's name.
const NAME_MAX: usize = 36;
const NOTE_COLUMNS: usize = 76;
/// Rows of a table of functions or threads.
const ROWS: usize = 200;
/// Rows of what threads do: those after them take next to no time.
const STATES: usize = 12;

/// What was seen last.
#[derive(Clone, Debug)]
pub struct Seen {
    pub observation: Observation,
    pub answer: LiveAnswer,
}

/// The page about a place. About one that is there no more, it says so.
pub fn page(seen: &Seen, place: &Place) -> ScreenPage {
    match place {
        Place::Block(index) => {
            let blocks = overview(seen).blocks.into_iter().skip(*index).take(1).collect();
            ScreenPage { title: subject(seen), said: String::new(), blocks }
        }
        Place::Threads(name) => threads(seen, name),
        Place::Lock(name) => lock(seen, name),
        Place::Time(path) => time(seen, path),
        Place::Keys => keys(seen),
        Place::Overview | Place::Programs | Place::Program(_) | Place::Process(_) => overview(seen),
    }
}

/// "server (pid 4711), last 3.0 s in 10 windows".
fn subject(seen: &Seen) -> String {
    let answer = &seen.answer;
    let windows = counted(answer.windows, "window");
    format!("{}, last {} s in {windows}", answer.subject, fixed(answer.seconds, 1))
}

fn overview(seen: &Seen) -> ScreenPage {
    let blocks = vec![thread_block(&seen.answer.threads), lock_block(seen), time_block(seen)];
    let blocks = blocks.into_iter().filter(|block| !block.leads_to.is_empty()).collect();
    ScreenPage { title: subject(seen), said: first_sentence(&seen.answer), blocks }
}

fn thread_block(groups: &[ThreadGroup]) -> Block {
    let leads_to = groups.iter().map(|group| Some(Place::Threads(group.name.clone()))).collect();
    Block { table: thread_table(groups, usize::MAX), leads_to }
}

fn lock_block(seen: &Seen) -> Block {
    let mut table = Table::new([
        ("lock", Align::Left),
        ("contended", Align::Right),
        ("waiting", Align::Right),
        ("its thread", Align::Left),
        ("held in", Align::Left),
        ("waits/s", Align::Right),
        ("mean wait", Align::Right),
    ]);
    let seconds = seen.answer.seconds.max(1e-9);
    for lock in &seen.answer.locks {
        let waited = sum(&lock.wait_ns);
        table.row(vec![
            clipped(&lock.name, NAME_MAX),
            percent(sum(&lock.contended_ns) / 1e9 / seconds),
            fixed(waited / 1e9 / seconds, 2),
            holder(lock, &seen.answer.causes),
            clipped(&first(&lock.held_in), NAME_MAX),
            short(lock.waits as f64 / seconds),
            duration_ns(waited / lock.waits.max(1) as f64),
        ]);
    }
    let locks = seen.answer.locks.iter();
    Block { table, leads_to: locks.map(|lock| Some(Place::Lock(lock.name.clone()))).collect() }
}

/// The rows below the ledger's root, and in place of the program's own those that it consists of.
fn time_block(seen: &Seen) -> Block {
    let mut rows: Vec<(Vec<String>, &LedgerRow)> = Vec::new();
    for row in &seen.answer.ledger.root.rows {
        if row.name == WORK && !row.rows.is_empty() {
            let path = |part: &LedgerRow| vec![row.name.clone(), part.name.clone()];
            rows.extend(row.rows.iter().map(|part| (path(part), part)));
        } else {
            rows.push((vec![row.name.clone()], row));
        }
    }
    let mut table = time_table(seen, "CPU time");
    let mut leads_to = Vec::new();
    for (path, row) in rows {
        table.row(time_cells(seen, row));
        leads_to.push((!row.rows.is_empty()).then_some(Place::Time(path)));
    }
    Block { table, leads_to }
}

fn time_table(seen: &Seen, name: &str) -> Table {
    let per = if seen.answer.operations_per_s.is_some() { "per operation" } else { "per second" };
    Table::new([
        (name, Align::Left),
        (per, Align::Right),
        ("of all CPUs", Align::Right),
        ("samples", Align::Right),
    ])
}

fn time_cells(seen: &Seen, row: &LedgerRow) -> Vec<String> {
    let ledger = &seen.answer.ledger;
    let ns = ledger.ns_per_operation(row).mean;
    let all = ledger.ns_per_operation(&ledger.root).mean.max(1e-9);
    let samples = row.samples.map(|samples| samples.to_string()).unwrap_or_default();
    vec![clipped(&row.name, NAME_MAX), duration_ns(ns), percent(ns / all), samples]
}

fn time(seen: &Seen, path: &[String]) -> ScreenPage {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    let title = format!("{}, {}", subject(seen), names.last().unwrap_or(&"CPU time"));
    let Some(row) = seen.answer.ledger.find(&names) else {
        return gone(title, "No CPU time was used here in this look");
    };
    let cells = time_cells(seen, row);
    let mut table = time_table(seen, "function");
    let mut leads_to = Vec::new();
    for part in row.rows.iter().take(ROWS) {
        table.row(time_cells(seen, part));
        let below = [path, std::slice::from_ref(&part.name)].concat();
        leads_to.push((!part.rows.is_empty()).then_some(Place::Time(below)));
    }
    let said = format!("{} takes {}, {} of all CPUs", row.name, cells[1], cells[2]);
    ScreenPage { title, said, blocks: vec![Block { table, leads_to }] }
}

fn gone(title: String, why: &str) -> ScreenPage {
    ScreenPage { title, said: format!("{why}. Esc leads back"), blocks: Vec::new() }
}

fn lock(seen: &Seen, name: &str) -> ScreenPage {
    let title = format!("{}, {name}", subject(seen));
    let Some(lock) = seen.answer.locks.iter().find(|lock| lock.name == name) else {
        return gone(title, "Nobody waited for this lock in this look");
    };
    let cause = seen.answer.causes.iter().find(|cause| cause.name == name);
    let seconds = seen.answer.seconds.max(1e-9);
    let said = cause.map_or_else(
        || {
            format!(
                "Threads waited for it {} of the time, {} at a time",
                percent(sum(&lock.contended_ns) / 1e9 / seconds),
                fixed(sum(&lock.wait_ns) / 1e9 / seconds, 2)
            )
        },
        sentence,
    );
    let blocks = vec![
        holder_block(lock),
        place_block("waited for in", &lock.waited_in, sum(&lock.wait_ns)),
        place_block("held in", &lock.held_in, sum(&lock.contended_ns)),
    ];
    let blocks = blocks.into_iter().filter(|block| !block.leads_to.is_empty()).collect();
    ScreenPage { title, said, blocks }
}

/// What the thread that has a lock does while others wait.
fn holder_block(lock: &ObservedLock) -> Block {
    let mut table = Table::new([
        ("the thread that has it", Align::Left),
        ("share", Align::Right),
        ("time", Align::Right),
    ]);
    let whole = sum(&lock.contended_ns).max(1.0);
    for time in lock.holder.iter().take(STATES) {
        let ns = sum(&time.ns);
        let by = (!time.by.is_empty()).then_some(time.by.as_str());
        table.row(vec![does(time.reason, by), percent(ns / whole), duration_ns(ns)]);
    }
    Block::of(table)
}

fn place_block(heading: &str, places: &[LockPlace], whole: f64) -> Block {
    let mut table = Table::new([
        (heading, Align::Left),
        ("share", Align::Right),
        ("stacks", Align::Right),
        ("called by", Align::Left),
    ]);
    for place in places.iter().take(ROWS) {
        table.row(vec![
            clipped(&place.function, NAME_MAX),
            percent(place.ns as f64 / whole.max(1.0)),
            place.times.to_string(),
            place.callers.join(" ← "),
        ]);
    }
    Block::of(table)
}

fn threads(seen: &Seen, name: &str) -> ScreenPage {
    let title = format!("{}, threads of {name}", subject(seen));
    let threads = threads_of(&seen.observation, name);
    let Some(group) = seen.answer.threads.iter().find(|group| group.name == name) else {
        return gone(title, "No such thread lived in this look");
    };
    let mean = |threads: f64| fixed(threads, 2);
    let said = format!(
        "{}: {} run at a time, {} could run, {} wait for locks, {} for storage, {} for work",
        counted(group.threads, "thread"),
        mean(group.runs),
        mean(group.could_run),
        mean(group.locks),
        mean(group.storage),
        mean(group.idle)
    );
    let blocks = vec![state_block(seen, &threads), function_block(&threads)];
    let mut blocks: Vec<Block> =
        blocks.into_iter().filter(|block| !block.leads_to.is_empty()).collect();
    if threads.len() > 1 {
        blocks.push(single_block(seen, &threads));
    }
    ScreenPage { title, said, blocks }
}

/// What threads do, in threads at a time.
fn state_block(seen: &Seen, threads: &[&ObservedThread]) -> Block {
    let mut times: BTreeMap<&ThreadState, (f64, u64)> = BTreeMap::new();
    for time in threads.iter().flat_map(|thread| &thread.states) {
        let known = times.entry(&time.state).or_default();
        *known = (known.0 + sum(&time.ns), known.1 + time.times);
    }
    let mut times: Vec<(&ThreadState, (f64, u64))> = times.into_iter().collect();
    times.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let mut table = Table::new([
        ("they", Align::Left),
        ("threads", Align::Right),
        ("times/s", Align::Right),
        ("mean", Align::Right),
    ]);
    let mut leads_to = Vec::new();
    let seconds = seen.answer.seconds.max(1e-9);
    for (state, (ns, times)) in times.into_iter().take(STATES) {
        let lock = match state {
            ThreadState::Lock(index) => seen.observation.locks.get(*index),
            _ => None,
        };
        table.row(vec![
            state_in_words(state, lock),
            fixed(ns / 1e9 / seconds, 2),
            short(times as f64 / seconds),
            duration_ns(ns / times.max(1) as f64),
        ]);
        leads_to.push(lock.map(|lock| Place::Lock(lock.name.clone())));
    }
    Block { table, leads_to }
}

fn state_in_words(state: &ThreadState, lock: Option<&ObservedLock>) -> String {
    match state {
        ThreadState::Running => "run".to_string(),
        ThreadState::BehindOwn => "could run, behind each other".to_string(),
        ThreadState::BehindOther(name) => format!("could run, behind `{name}`"),
        ThreadState::Throttled => "could run, but for the quota".to_string(),
        ThreadState::WakeUp => "are being woken".to_string(),
        ThreadState::Lock(_) => {
            let name = lock.map_or("a lock", |lock| &lock.name);
            format!("wait for {}", clipped(name, NAME_MAX))
        }
        ThreadState::Condition => "wait for a condition".to_string(),
        ThreadState::Disk(call) => format!("wait for storage in {call}"),
        ThreadState::PageFault => "wait in page faults".to_string(),
        ThreadState::Reclaim => "wait for memory reclaim".to_string(),
        ThreadState::Sleep => "sleep".to_string(),
        ThreadState::Call(call) => format!("wait in {call}"),
        ThreadState::Stopped => "are stopped".to_string(),
    }
}

/// The functions in which samples met threads.
fn function_block(threads: &[&ObservedThread]) -> Block {
    let mut functions: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut all = 0;
    for sample in threads.iter().flat_map(|thread| &thread.samples) {
        let frame = |at: usize| sample.stack.get(at).map_or("", String::as_str);
        *functions.entry((frame(0), frame(1))).or_default() += sample.times;
        all += sample.times;
    }
    let mut functions: Vec<((&str, &str), u64)> = functions.into_iter().collect();
    functions.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let mut table = Table::new([
        ("function that runs", Align::Left),
        ("of samples", Align::Right),
        ("samples", Align::Right),
        ("called by", Align::Left),
    ]);
    for ((function, caller), times) in functions.into_iter().take(ROWS) {
        table.row(vec![
            clipped(of_kernel(function), NAME_MAX),
            percent(times as f64 / all as f64),
            times.to_string(),
            clipped(of_kernel(caller), NAME_MAX),
        ]);
    }
    Block::of(table)
}

fn of_kernel(function: &str) -> &str {
    match function {
        "" => "[unknown]",
        name => name.strip_suffix("_[k]").unwrap_or(name),
    }
}

/// Single threads, the busiest first.
fn single_block(seen: &Seen, threads: &[&ObservedThread]) -> Block {
    let ns = |thread: &ObservedThread, is: &dyn Fn(&ThreadState) -> bool| -> f64 {
        thread.states.iter().filter(|time| is(&time.state)).map(|time| sum(&time.ns)).sum()
    };
    let runs = |thread: &ObservedThread| ns(thread, &|state| *state == ThreadState::Running);
    let mut threads: Vec<&ObservedThread> = threads.to_vec();
    threads.sort_by(|a, b| runs(b).total_cmp(&runs(a)).then_with(|| a.task.cmp(&b.task)));
    let mut table = Table::new([
        ("thread", Align::Right),
        ("runs", Align::Right),
        ("for locks", Align::Right),
        ("name", Align::Left),
    ]);
    let whole = seen.answer.seconds.max(1e-9) * 1e9;
    for thread in threads.into_iter().take(ROWS) {
        let locks = ns(thread, &|state| matches!(state, ThreadState::Lock(_)));
        table.row(vec![
            thread.task.to_string(),
            percent(runs(thread) / whole),
            percent(locks / whole),
            thread.name.clone(),
        ]);
    }
    Block::of(table)
}

/// What each key does.
pub const KEYS: [(&str, &str); 7] = [
    ("up down j k", "choose a row; page up, page down, home, end"),
    ("Enter right l", "go into the row"),
    ("Esc left h", "go back; Backspace too"),
    ("s Tab", "go to the next block; in the list of programs: names or processes"),
    ("p space", "pause, and go on"),
    ("?", "these lines"),
    ("q", "quit, and print the last answer"),
];

fn keys(seen: &Seen) -> ScreenPage {
    let mut table = Table::new([("key", Align::Left), ("does", Align::Left)]);
    for (key, does) in KEYS {
        table.row(vec![key.to_string(), does.to_string()]);
    }
    let mut how = Table::new([("how it was seen", Align::Left)]);
    for note in notes(&seen.answer) {
        wrapped(&note, NOTE_COLUMNS, 2).lines().for_each(|line| how.row(vec![line.to_string()]));
    }
    ScreenPage {
        title: subject(seen),
        said: String::new(),
        blocks: vec![Block::of(table), Block::of(how)],
    }
}

/// What knee took and what was not seen, in a line.
pub fn footer(answer: &LiveAnswer) -> String {
    let mut parts = vec![format!("knee took {} % of the CPUs", fixed(100.0 * answer.own_share, 2))];
    if answer.unfollowed_seconds > 0.0 {
        let seconds = fixed(answer.unfollowed_seconds, 1);
        parts.push(format!("nothing followed for {seconds} s, to take no more"));
    }
    if answer.lost_events > 0 {
        parts.push(format!("{} events lost", answer.lost_events));
    }
    let mut missing = answer.missing.keys();
    if let Some(first) = missing.next() {
        let others = missing.count();
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        parts.push(format!("not seen: {first}{others}"));
    }
    parts.join(", ")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn sum(ns: &[u64]) -> f64 {
    ns.iter().sum::<u64>() as f64
}
