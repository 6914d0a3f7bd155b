//! What holds running tasks back, as a part of a page: the causes in sentences, threads, locks, and where the time goes.

mod compared;

pub use self::compared::compared_part;

use live::{HolderShare, LiveAnswer, LiveCause, LiveCauseKind, ThreadGroup};
use records::live::{HolderState, HolderTime, LockPlace, OWN_THREADS, ObservedBy, ObservedLock};
use text::prose::counted;
use text::quantity::{duration_ns, fixed, short};
use text::table::{Align, Table};

use crate::ledger::{LedgerPart, tree};

/// Rows of a table.
const ROWS: usize = 12;
/// What a thread with a lock does is said while it explains this much of the time.
const SAID_MIN: f64 = 0.1;
/// Below this share of all CPUs, knee's own time needs no mention at the top.
const OWN_MAX: f64 = 0.02;

/// The part of a page about running tasks.
pub fn live_part(answer: &LiveAnswer) -> LedgerPart {
    let per = if answer.operations_per_s.is_some() { "operation" } else { "second" };
    let mut causes: Vec<String> = answer.causes.iter().skip(1).map(sentence).collect();
    if !causes.is_empty() {
        causes.insert(0, "Also:".to_string());
    }
    LedgerPart {
        title: answer.subject.clone(),
        answer: first_sentence(answer),
        causes,
        tree: Some(tree(&answer.ledger, &whole(answer), per)),
        tables: tables(answer),
        notes: notes(answer),
        flame: None,
    }
}

fn whole(answer: &LiveAnswer) -> String {
    format!("all: {} x time", counted(answer.online_cpus as usize, "CPU"))
}

/// What holds it back most, or that nothing does.
pub fn first_sentence(answer: &LiveAnswer) -> String {
    match answer.causes.first() {
        Some(cause) => sentence(cause),
        None => nothing(answer),
    }
}

fn nothing(answer: &LiveAnswer) -> String {
    let sum = |of: fn(&ThreadGroup) -> f64| answer.threads.iter().map(of).sum::<f64>();
    let (runs, could_run) = (sum(|group| group.runs), sum(|group| group.could_run));
    let cpus = f64::from(answer.online_cpus);
    let used = format!("its threads use {} of {} CPUs", fixed(runs, 2), answer.online_cpus);
    let idlest = answer.threads.iter().max_by(|a, b| a.idle.total_cmp(&b.idle));
    if runs + could_run >= 0.9 * cpus {
        return format!(
            "Nothing holds it back but the CPUs: {used}, and {} more could run at a time",
            fixed(could_run, 2)
        );
    }
    match idlest.filter(|group| !group.waits_in.is_empty()) {
        Some(group) => format!(
            "Nothing holds it back: {used}, and wait for work otherwise (`{}` in {})",
            group.name, group.waits_in
        ),
        None => format!("Nothing holds it back: {used}"),
    }
}

/// A cause in a sentence.
pub fn sentence(cause: &LiveCause) -> String {
    let share = percent(cause.share, cause.share_half);
    let name = &cause.name;
    let threads = threads(cause.threads);
    let said = match cause.cause {
        LiveCauseKind::Lock
        | LiveCauseKind::KernelLock
        | LiveCauseKind::AllocatorLock
        | LiveCauseKind::InterpreterLock => {
            let lock = lock_in_words(name);
            format!(
                "Threads wait for {lock} {share} of the time, {threads} at a time{}",
                places(cause)
            )
        }
        LiveCauseKind::BusyThread => {
            format!(
                "One thread, `{name}`, is busy {share} of the time, and the other {} wait for work",
                fixed(cause.threads, 0)
            )
        }
        LiveCauseKind::Quota => format!(
            "The control group has a {name}, of which {share} is used, and {threads} at a time could run besides"
        ),
        LiveCauseKind::Affinity => {
            format!(
                "The {name}: they use {share} of these, and {threads} at a time could run besides"
            )
        }
        LiveCauseKind::OtherPrograms => {
            format!(
                "Other programs, `{name}` most, have the CPUs {share} of the time in which threads could run"
            )
        }
        LiveCauseKind::InputOutput => {
            format!(
                "Storage: {share} of the active threads' time is spent waiting for it, in {name} most"
            )
        }
        LiveCauseKind::PageFaults => {
            format!("Page faults take {share} of the active threads' time")
        }
        LiveCauseKind::Memory => {
            format!("The kernel reclaims memory for {share} of the active threads' time")
        }
        LiveCauseKind::SharedLine => {
            format!(
                "Threads take the cache line of {name} from each other: {share} of the CPU time is spent there"
            )
        }
        LiveCauseKind::GarbageCollection => {
            format!("Garbage collection takes {share} of the CPU time")
        }
        LiveCauseKind::Deadlock => deadlock(cause),
        LiveCauseKind::Stopped => {
            format!("A signal or a debugger has the threads stopped {share} of the time")
        }
    };
    format!("{said}{}", gain(cause))
}

/// "Deadlock: the thread that has `a` waits for `b`, the thread that has `b` for `a`. 4 threads wait, in take_a and take_b, and
/// none of them goes on".
fn deadlock(cause: &LiveCause) -> String {
    let locks: Vec<String> = cause.name.split(", ").map(lock_in_words).collect();
    let waits: Vec<String> = (0..locks.len())
        .map(|at| {
            let (has, wants) = (&locks[at], &locks[(at + 1) % locks.len()]);
            format!("the thread that has {has} {}for {wants}", if at == 0 { "waits " } else { "" })
        })
        .collect();
    let waiting = counted(cause.threads.round() as usize, "thread");
    format!(
        "Deadlock: {}. {waiting} wait, in {}, and none of them goes on",
        waits.join(", "),
        cause.waited_in.join(", ")
    )
}

/// "`table_lock`", "a mutex": a lock without a name goes by where it is waited for, which the sentence says anyway.
fn lock_in_words(name: &str) -> String {
    match name.split_once(" waited for in ") {
        Some((what, _)) => format!("a {what}"),
        None if name.starts_with("the ") => name.to_string(),
        None => format!("`{name}`"),
    }
}

/// ": waited for in cache_get, held in cache_evict. The thread that has it waits to run behind `hog` 71 % of that time".
fn places(cause: &LiveCause) -> String {
    const NAMED: usize = 2;
    let list =
        |names: &[String]| names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(" and ");
    let mut said = String::new();
    if !cause.waited_in.is_empty() {
        said += &format!(": waited for in {}", list(&cause.waited_in));
    }
    if !cause.held_in.is_empty() {
        said += &format!(
            "{} held in {}",
            if said.is_empty() { ":" } else { "," },
            list(&cause.held_in)
        );
    }
    let is_said =
        |holder: &&HolderShare| holder.share >= SAID_MIN && holder.reason != HolderState::Unknown;
    let reasons = cause.holder.iter().filter(is_said).take(3);
    let reasons: Vec<String> = reasons
        .map(|holder| {
            let does = does(holder.reason, holder.by.as_deref());
            format!("{does} {:.0} % of that time{}", 100.0 * holder.share, without(holder))
        })
        .collect();
    if !reasons.is_empty() {
        said += &format!(". The thread that has it {}", reasons.join(", "));
    }
    said
}

/// What a thread with a lock does, as the rest of a sentence.
pub(crate) fn does(reason: HolderState, by: Option<&str>) -> String {
    let by = by.unwrap_or_default();
    match reason {
        HolderState::Running => "runs".to_string(),
        HolderState::Preempted if by == OWN_THREADS => {
            format!("waits to run behind {by}")
        }
        HolderState::Preempted => format!("waits to run behind `{by}`"),
        HolderState::WakeUp => "is being woken".to_string(),
        HolderState::PageFault if by.is_empty() => "is in page faults".to_string(),
        HolderState::PageFault => format!("waits for {by}"),
        HolderState::InputOutput => format!("waits for storage ({by})"),
        HolderState::Lock => format!("waits for another lock, {by},"),
        HolderState::Quota => "is kept from the CPUs by the quota".to_string(),
        HolderState::Stolen => "waits for the hypervisor".to_string(),
        HolderState::Sleeping => format!("sleeps ({by})"),
        HolderState::Unknown => "was not seen".to_string(),
    }
}

/// " (without that, at most 40 % more)": what somebody may remove and keep the lock. Work that has to be done is no such thing.
fn without(holder: &HolderShare) -> String {
    let is_work = matches!(holder.reason, HolderState::Running | HolderState::Lock);
    match holder.gain {
        Some(gain) if !is_work => format!(" (without that, {})", at_most(gain)),
        _ => String::new(),
    }
}

fn gain(cause: &LiveCause) -> String {
    let gain = cause.gain.map(|gain| format!(". Without it, {}", at_most(gain)));
    gain.unwrap_or_default()
}

fn at_most(gain: f64) -> String {
    if gain >= 2.0 {
        format!("at most {} times the rate", fixed(gain, 1))
    } else {
        format!("at most {:.0} % more", 100.0 * (gain - 1.0))
    }
}

fn threads(mean: f64) -> String {
    let number = fixed(mean, 1);
    format!("{number} {}", if number == "1.0" { "thread" } else { "threads" })
}

fn percent(share: f64, half: Option<f64>) -> String {
    let half = half.map_or(String::new(), |half| format!(" ± {:.0}", 100.0 * half));
    format!("{:.0}{half} %", 100.0 * share)
}

fn tables(answer: &LiveAnswer) -> Vec<(String, Table)> {
    let mut tables =
        vec![("Threads, mean number at a time".to_string(), thread_table(&answer.threads, ROWS))];
    if !answer.locks.is_empty() {
        tables.push(("Locks".to_string(), lock_table(answer)));
    }
    tables
}

pub(crate) fn thread_table(groups: &[ThreadGroup], rows: usize) -> Table {
    let mut table = Table::new([
        ("threads of".to_string(), Align::Left),
        ("number".to_string(), Align::Right),
        ("busiest".to_string(), Align::Right),
        ("run".to_string(), Align::Right),
        ("could run".to_string(), Align::Right),
        ("for locks".to_string(), Align::Right),
        ("storage".to_string(), Align::Right),
        ("for work".to_string(), Align::Right),
        ("mostly in".to_string(), Align::Left),
    ]);
    for group in groups.iter().take(rows) {
        let mean = |threads: f64| fixed(threads, 2);
        table.row(vec![
            group.name.clone(),
            group.threads.to_string(),
            format!("{:.0} %", 100.0 * group.busiest.mean),
            mean(group.runs),
            mean(group.could_run),
            mean(group.locks),
            mean(group.storage),
            mean(group.idle),
            group.waits_in.clone(),
        ]);
    }
    table
}

fn lock_table(answer: &LiveAnswer) -> Table {
    let mut table = Table::new([
        ("lock".to_string(), Align::Left),
        ("contended".to_string(), Align::Right),
        ("waits/s".to_string(), Align::Right),
        ("mean wait".to_string(), Align::Right),
        ("waited for in".to_string(), Align::Left),
        ("held in".to_string(), Align::Left),
        ("its thread".to_string(), Align::Left),
    ]);
    for lock in answer.locks.iter().take(ROWS) {
        let contended =
            lock.contended_ns.iter().sum::<u64>() as f64 / 1e9 / answer.seconds.max(1e-9);
        let waited: u64 = lock.wait_ns.iter().sum();
        table.row(vec![
            lock.name.clone(),
            format!("{:.1} %", 100.0 * contended),
            short(lock.waits as f64 / answer.seconds.max(1e-9)),
            duration_ns(waited as f64 / lock.waits.max(1) as f64),
            first(&lock.waited_in),
            first(&lock.held_in),
            holder(lock, &answer.causes),
        ]);
    }
    table
}

pub(crate) fn first(places: &[LockPlace]) -> String {
    places.first().map(|place| place.function.clone()).unwrap_or_default()
}

/// "runs 61 %, preempted by hog 30 %": what the thread that has a lock mostly does. Where the lock is a cause, as the cause
/// has it: that knows of threads that spin, too.
pub(crate) fn holder(lock: &ObservedLock, causes: &[LiveCause]) -> String {
    let says = |reason: HolderState, by: Option<&str>, share: f64| {
        (share >= SAID_MIN).then(|| format!("{} {:.0} %", does(reason, by), 100.0 * share))
    };
    let whole = lock.contended_ns.iter().sum::<u64>().max(1) as f64;
    let seen = |time: &HolderTime| {
        let by = (!time.by.is_empty()).then_some(time.by.as_str());
        says(time.reason, by, time.ns.iter().sum::<u64>() as f64 / whole)
    };
    let said: Vec<String> = match causes.iter().find(|cause| cause.name == lock.name) {
        Some(cause) => {
            let of_cause = |one: &HolderShare| says(one.reason, one.by.as_deref(), one.share);
            cause.holder.iter().filter_map(of_cause).take(2).collect()
        }
        None => lock.holder.iter().filter_map(seen).take(2).collect(),
    };
    said.join(", ")
}

/// How it was seen, and what was not.
pub fn notes(answer: &LiveAnswer) -> Vec<String> {
    let mut notes = Vec::new();
    let how = match answer.means {
        ObservedBy::Switches => "every switch of its threads was seen (BPF); functions are sampled",
        ObservedBy::Proc => {
            "its threads were looked at many times a second in /proc: shares are sampled"
        }
    };
    notes.push(format!(
        "{} s in {}; {how}",
        fixed(answer.seconds, 1),
        counted(answer.windows, "window")
    ));
    if let (Some(rate), Some(from)) = (answer.operations_per_s, &answer.operations_from) {
        notes.push(format!("{} operations a second, counted by {from}", short(rate)));
    }
    if answer.unfollowed_seconds > 0.0 {
        notes.push(format!(
            "nothing was followed for {} s between the windows: to follow all would take more than 0.75 % of the CPUs' time",
            fixed(answer.unfollowed_seconds, 1)
        ));
    }
    if answer.lost_events > 0 {
        notes.push(format!("{} events were lost: they came too fast", answer.lost_events));
    }
    if answer.means == ObservedBy::Switches && answer.whole_stacks < 0.95 {
        notes.push(format!(
            "{:.0} % of the stacks were walked to their end: the code of the others has no unwind tables",
            100.0 * answer.whole_stacks
        ));
    }
    let own = 100.0 * answer.own_share;
    let much = if answer.own_share > OWN_MAX { ", which slows what it looks at" } else { "" };
    notes.push(format!("knee itself took {} % of the CPUs' time{much}", fixed(own, 2)));
    notes.push("Gains are bounds: what is freed may wait for something else.".to_string());
    let missing = answer.missing.iter().map(|(what, why)| format!("not seen: {what}: {why}"));
    notes.extend(missing);
    notes
}
