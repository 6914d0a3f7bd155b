//! The answer about running tasks: what holds them back, which threads do what, and where the CPUs' time goes.

use std::collections::BTreeMap;

use ledger::{Ledger, LedgerRow, LedgerUnit, WORK, split};
use records::Obtained;
use records::live::{
    Observation, ObservedBy, ObservedLine, ObservedLock, ObservedThread, SampledAt, ThreadState,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::causes::{LiveCause, causes};
use crate::shares::{Share, Shares};

/// What was found out about running tasks.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LiveAnswer {
    /// What was observed, as it was asked for.
    pub subject: String,
    /// Name of the host.
    pub host: String,
    /// When it began.
    pub at: jiff::Timestamp,
    /// How it was seen.
    pub means: ObservedBy,
    /// How long it was observed, in s.
    pub seconds: f64,
    /// How long nothing was followed between windows, in s, as following all would have taken too much of the CPUs' time.
    pub unfollowed_seconds: f64,
    /// Number of windows that the time is divided into; intervals are over these.
    pub windows: usize,
    /// Number of CPUs that are online.
    pub online_cpus: u32,
    /// Operations per second, if anything counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_per_s: Option<f64>,
    /// What counted the operations, as it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations_from: Option<String>,
    /// What holds it back, what would gain most first. Nothing was found if it is empty.
    pub causes: Vec<LiveCause>,
    /// Threads by name, the busiest first.
    pub threads: Vec<ThreadGroup>,
    /// Locks that threads waited for, the most contended first.
    pub locks: Vec<ObservedLock>,
    /// Cache lines that several threads access and at least one writes, as far as samples met them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<ObservedLine>,
    /// The CPUs' time, per operation or per second.
    pub ledger: Ledger,
    /// What was not seen, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Events that were lost because they came too fast.
    pub lost_events: u64,
    /// Share of stacks that were walked to their end.
    pub whole_stacks: f64,
    /// CPU time of knee itself, as a share of all CPUs.
    pub own_share: f64,
}

/// Threads of one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ThreadGroup {
    /// Their name, with # for numbers that tell them apart.
    pub name: String,
    /// How many there are.
    pub threads: usize,
    /// The share of the time in which the busiest of them has a CPU or could use one.
    pub busiest: Share,
    /// What they do, in threads: mean numbers at a time, which add up to those that live.
    pub runs: f64,
    /// They could run, and have no CPU.
    pub could_run: f64,
    /// They wait for locks.
    pub locks: f64,
    /// They wait for storage, memory or page faults.
    pub storage: f64,
    /// They wait for other threads, clients or time.
    pub idle: f64,
    /// What they wait for most when they are idle: a call, or a condition.
    pub waits_in: String,
}

/// Finds out what holds the observed tasks back.
pub fn answer(observation: &Observation) -> LiveAnswer {
    let ns: u64 = observation.windows.iter().map(|window| window.ns).sum();
    let seconds = ns as f64 / 1e9;
    let operations: Option<f64> =
        observation.windows.iter().map(|window| window.operations).sum::<Option<f64>>();
    let own: u64 = observation.own_ns.iter().sum();
    let mut locks = observation.locks.clone();
    locks.sort_by_key(|lock| std::cmp::Reverse(lock.contended_ns.iter().sum::<u64>()));
    LiveAnswer {
        subject: observation.subject.clone(),
        host: observation.host.clone(),
        at: observation.at,
        means: observation.means,
        seconds,
        windows: observation.windows.len(),
        online_cpus: observation.online_cpus,
        operations_per_s: operations.filter(|_| seconds > 0.0).map(|n| n / seconds),
        operations_from: observation.operations_from.clone(),
        causes: causes(observation),
        threads: groups(observation),
        locks,
        lines: observation.lines.clone(),
        ledger: ledger(observation, true),
        missing: observation.missing.clone(),
        lost_events: observation.lost_events,
        whole_stacks: observation.whole_stacks,
        own_share: own as f64
            / ((ns + observation.gaps_ns) as f64 * f64::from(observation.online_cpus)).max(1.0),
        unfollowed_seconds: observation.gaps_ns as f64 / 1e9,
    }
}

/// A thread's name without the numbers that tell the threads of a pool apart: `worker-3` is `worker-#`.
pub fn pooled(name: &str) -> String {
    let mut pooled = String::new();
    for c in name.chars() {
        match c {
            '0'..='9' if pooled.ends_with('#') => {}
            '0'..='9' => pooled.push('#'),
            c => pooled.push(c),
        }
    }
    pooled
}

/// The threads of a group of this name.
pub fn threads_of<'o>(observation: &'o Observation, group: &str) -> Vec<&'o ObservedThread> {
    let is_its = |name: &str| name == group || pooled(name) == group;
    observation.threads.iter().filter(|thread| is_its(&thread.name)).collect()
}

fn groups(observation: &Observation) -> Vec<ThreadGroup> {
    let shares = Shares::new(observation);
    let mut by_name: BTreeMap<String, Vec<&ObservedThread>> = BTreeMap::new();
    for thread in &observation.threads {
        by_name.entry(pooled(&thread.name)).or_default().push(thread);
    }
    let mut groups: Vec<ThreadGroup> = Vec::new();
    for (name, threads) in by_name {
        // A name with a number that only one thread has is its own.
        let name = if threads.len() == 1 { threads[0].name.clone() } else { name };
        groups.push(group(name, &threads, &shares));
    }
    groups.sort_by(|a, b| (b.runs + b.could_run).total_cmp(&(a.runs + a.could_run)));
    groups
}

fn group(name: String, threads: &[&ObservedThread], shares: &Shares) -> ThreadGroup {
    let mean = |is: &dyn Fn(&ThreadState) -> bool| -> f64 {
        threads.iter().map(|thread| shares.of_thread(thread, is).mean).sum()
    };
    let busy = threads.iter().map(|thread| shares.of_thread(thread, is_busy));
    let busiest = busy.max_by(|a, b| a.mean.total_cmp(&b.mean)).unwrap_or_default();
    let mut waits: BTreeMap<String, u64> = BTreeMap::new();
    for time in threads.iter().flat_map(|thread| &thread.states) {
        if let Some(name) = idle_in(&time.state) {
            *waits.entry(name).or_default() += time.ns.iter().sum::<u64>();
        }
    }
    let most = waits.into_iter().max_by_key(|(_, ns)| *ns);
    ThreadGroup {
        name,
        threads: threads.len(),
        busiest,
        runs: mean(&|state| *state == ThreadState::Running),
        could_run: mean(&|state| is_busy(state) && *state != ThreadState::Running),
        locks: mean(&|state| matches!(state, ThreadState::Lock(_))),
        storage: mean(&is_storage),
        idle: mean(&|state| idle_in(state).is_some()),
        waits_in: most.map(|(name, _)| name).unwrap_or_default(),
    }
}

/// Whether a thread has a CPU or could use one.
pub fn is_busy(state: &ThreadState) -> bool {
    matches!(
        state,
        ThreadState::Running
            | ThreadState::BehindOwn
            | ThreadState::BehindOther(_)
            | ThreadState::Throttled
            | ThreadState::WakeUp
    )
}

/// Whether a thread waits for storage, memory or page faults.
pub fn is_storage(state: &ThreadState) -> bool {
    matches!(state, ThreadState::Disk(_) | ThreadState::PageFault | ThreadState::Reclaim)
}

/// What a thread waits in that has nothing to do.
pub fn idle_in(state: &ThreadState) -> Option<String> {
    match state {
        ThreadState::Condition => Some("condition".to_string()),
        ThreadState::Sleep => Some("sleep".to_string()),
        ThreadState::Stopped => Some("stopped".to_string()),
        ThreadState::Call(call) => Some(call.clone()),
        _ => None,
    }
}

/// The row of the CPU time of programs that are not observed.
pub const OTHERS: &str = "other programs";

const NS_PER_S: u64 = 1_000_000_000;

/// The CPUs' time of each window: of the observed threads by where they ran, of other programs, and unused. Per
/// operation, or of windows that are stretched to a second each.
pub fn ledger(observation: &Observation, is_per_operation: bool) -> Ledger {
    let windows = &observation.windows;
    let counts: Option<Vec<f64>> = windows.iter().map(|window| window.operations).collect();
    let counts = counts.filter(|_| is_per_operation);
    let of_second = |window: usize, ns: u64| match &counts {
        Some(_) => ns,
        None => {
            let length = u128::from(windows[window].ns.max(1));
            (u128::from(ns) * u128::from(NS_PER_S) / length) as u64
        }
    };
    let each = |of: &dyn Fn(usize) -> u64| -> Vec<u64> {
        (0..windows.len()).map(|window| of_second(window, of(window))).collect()
    };
    let subject = each(&|window| windows[window].cpus.subject_ns);
    let mut rows = vec![work(observation, subject)];
    rows.push(others(observation, &each));
    rows.push(LedgerRow::new("idle", Obtained::Exact, each(&|w| windows[w].cpus.idle_ns)));
    let root = LedgerRow::from_parts("all", Obtained::Exact, rows);
    let unit = |(window, budget_ns): (usize, &u64)| LedgerUnit {
        operations: counts.as_ref().map_or(1, |counts| counts[window].round() as u64),
        budget_ns: *budget_ns,
        block: None,
    };
    Ledger::of_runs(root.ns.iter().enumerate().map(unit).collect(), root)
}

/// Makes the times of all windows from a function that gives a window's.
type EachWindow<'a> = &'a dyn Fn(&dyn Fn(usize) -> u64) -> Vec<u64>;

fn others(observation: &Observation, each: EachWindow) -> LedgerRow {
    const NAMED: usize = 5;
    let windows = &observation.windows;
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for other in windows.iter().flat_map(|window| &window.cpus.others) {
        *sums.entry(&other.name).or_default() += other.ns;
    }
    let mut names: Vec<(&str, u64)> = sums.into_iter().collect();
    names.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    names.truncate(NAMED);
    let of = |window: usize, name: &str| -> u64 {
        let named = windows[window].cpus.others.iter().filter(|other| other.name == name);
        named.map(|other| other.ns).sum::<u64>().min(windows[window].cpus.others_ns)
    };
    let whole = each(&|window| windows[window].cpus.others_ns);
    let mut left = whole.clone();
    let mut rows = Vec::new();
    for (name, _) in names {
        let ns = each(&|window| of(window, name));
        // Names are read a little apart from the sum.
        let ns: Vec<u64> = ns.iter().zip(&left).map(|(ns, left)| *ns.min(left)).collect();
        left.iter_mut().zip(&ns).for_each(|(left, ns)| *left -= ns);
        rows.push(LedgerRow::new(name, Obtained::Exact, ns));
    }
    rows.push(LedgerRow::new("all others", Obtained::Exact, left));
    LedgerRow::new(OTHERS, Obtained::Exact, whole).with_rows(rows).belonging_to_time()
}

/// The observed threads' CPU time, divided as their samples are.
fn work(observation: &Observation, ns: Vec<u64>) -> LedgerRow {
    let mut places: BTreeMap<(String, String), u64> = BTreeMap::new();
    for sample in observation.threads.iter().flat_map(|thread| &thread.samples) {
        *places.entry(place(sample)).or_default() += sample.times;
    }
    let whole = LedgerRow::new(WORK, Obtained::Exact, ns.clone());
    if places.is_empty() {
        return whole;
    }
    let mut parts: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for ((part, function), times) in &places {
        parts.entry(part).or_default().push((function, *times));
    }
    let weights: Vec<u64> =
        parts.values().map(|functions| functions.iter().map(|(_, times)| times).sum()).collect();
    let of_parts = divided(&ns, &weights);
    let rows =
        parts.iter().zip(of_parts).zip(&weights).map(|(((part, functions), ns), samples)| {
            let weights: Vec<u64> = functions.iter().map(|(_, times)| *times).collect();
            let leaves = functions
                .iter()
                .zip(divided(&ns, &weights))
                .map(|((name, times), ns)| sampled(name, ns, *times));
            sampled(part, ns.clone(), *samples).with_rows(leaves.collect())
        });
    let mut rows: Vec<LedgerRow> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    rows.iter_mut().for_each(|row| row.rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns())));
    whole.with_rows(rows)
}

fn sampled(name: &str, ns: Vec<u64>, samples: u64) -> LedgerRow {
    LedgerRow { samples: Some(samples), ..LedgerRow::new(name, Obtained::Sampled, ns) }
}

/// The times of each window, divided by weights: for each weight the times.
fn divided(ns: &[u64], weights: &[u64]) -> Vec<Vec<u64>> {
    let windows: Vec<Vec<u64>> = ns.iter().map(|ns| split(*ns, weights)).collect();
    (0..weights.len()).map(|part| windows.iter().map(|window| window[part]).collect()).collect()
}

/// Where a sample belongs: in the program, in a system call, in a page fault or in the kernel; and the function there.
fn place(sample: &SampledAt) -> (String, String) {
    let in_kernel = |name: &String| name.strip_suffix("_[k]").map(str::to_string);
    let kernel: Vec<String> = sample.stack.iter().map_while(in_kernel).collect();
    let Some(first) = kernel.first() else {
        let function = sample.stack.first().cloned().unwrap_or_else(|| "[unknown]".to_string());
        return ("user code".to_string(), function);
    };
    let part = match sample.call.as_str() {
        _ if kernel.iter().any(|name| name.contains("page_fault")) => "page faults".to_string(),
        "" => "kernel, outside of calls".to_string(),
        call => format!("system call {call}"),
    };
    (part, first.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_a_pool_have_one_name() {
        assert_eq!(pooled("worker-12"), "worker-#");
        assert_eq!(pooled("kworker/0:1"), "kworker/#:#");
        assert_eq!(pooled("redis-server"), "redis-server");
    }

    #[test]
    fn a_sample_lies_in_the_program_in_a_call_or_in_a_fault() {
        let check = |stack: &[&str], call: &str, part: &str, function: &str| {
            let stack = stack.iter().map(|name| name.to_string()).collect();
            let sample = SampledAt { stack, call: call.to_string(), times: 1, offset: 0 };
            assert_eq!(place(&sample), (part.to_string(), function.to_string()));
        };
        check(&["burn", "serve"], "", "user code", "burn");
        check(&["futex_wake_[k]", "f"], "futex", "system call futex", "futex_wake");
        check(&["clear_page_[k]", "exc_page_fault_[k]", "f"], "", "page faults", "clear_page");
        check(&["tick_[k]", "f"], "", "kernel, outside of calls", "tick");
        check(&[], "", "user code", "[unknown]");
    }
}
