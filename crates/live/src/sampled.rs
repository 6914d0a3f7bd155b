//! What was seen in /proc as what threads and locks did in each window.
//!
//! A sighting stands for the time around it, up to halfway to the sightings before and after:
//!
//!     sightings:        R          S          S          R
//!     timeline:    | could run, runs | waits      | could run, ...
//!
//! How the time of a runnable thread divides is known exactly, by the counters of sightings before and after. Then the
//! sums of each window are set to what the counters say: only the division among states of waiting is sampled.

use std::collections::{BTreeMap, HashMap};

use ledger::split;
use records::live::{
    Observation, ObservedBy, ObservedThread, ObservedWindow, StateTime, ThreadState, TracedWait,
};
use records::sampled::{Samples, Sighted, Sighting};

use crate::goroutines::goroutine_waits;
use crate::holds::Holds;
use crate::lines::lines;
use crate::lives::{Counted, Life, Lives};
use crate::locks::Locks;
use crate::observe::{samples_of, states};
use crate::spinning::count_spinning;
use crate::timelines::{Behind, Doing, Segment, Timelines};
use crate::waits::StackIndex;
use crate::windows::Windows;

/// A task that is woken takes about as long to run on an idle CPU, in ns: longer in a virtual machine.
const WAKE_UP_NS: u64 = 100_000;

/// What threads and locks did. What samples do not know (the subject, the host, what was missing) is left empty.
pub fn observe_samples(samples: &Samples) -> Observation {
    let trace = &samples.trace;
    let windows = Windows::of(trace);
    let lives = Lives::new(samples);
    let segments_of = timelines(samples, &lives);
    let goroutines = goroutine_waits(samples);
    let held = Holds::new(samples, &lives, &goroutines).all();
    let weights = weights(samples, &lives, &segments_of);
    let stacks = lives.stacks(samples);
    let index = StackIndex::of_sightings(stacks, &held, &goroutines, samples, weights);
    let mut locks = Locks::find(trace, &segments_of, &index, &windows);
    for lock in &mut locks.locks {
        lock.waits = 0;
    }
    for wait in goroutines.iter().filter(|wait| wait.is_new) {
        let of = (wait.number, wait.process);
        if let Some(Some(lock)) = locks.of_wait(of, wait.from, &wait.as_of_thread()) {
            locks.locks[lock].waits += 1;
        }
    }
    let idle = idle_shares(samples, &windows);
    let mut threads = Vec::new();
    for (task, segments) in &segments_of {
        let Some(known) = trace.tasks.get(task) else { continue };
        let sampled = states(segments, (*task, known.process), &locks, &windows);
        let life = &lives.0[task];
        let counted = life.counted(&trace.edges_ns);
        let mut states = calibrated(sampled, &counted, &idle);
        count_entries(life, &mut states, |at_ns, wait| {
            state_of(&locks, (*task, known.process), at_ns, wait)
        });
        for time in &states {
            if let ThreadState::Lock(lock) = time.state {
                locks.locks[lock].waits += time.times;
            }
        }
        if !states.is_empty() {
            threads.push(ObservedThread {
                task: *task,
                process: known.process,
                name: known.name.clone(),
                states,
                samples: samples_of(trace, index.all_samples(*task)),
            });
        }
    }
    let lengths = windows.lengths();
    count_spinning(&mut threads, &mut locks.locks, &samples.in_kernel, &lengths);
    let uses = trace.cpus.iter().cloned().chain(std::iter::repeat_with(Default::default));
    let lengths = lengths.into_iter().zip(uses);
    Observation {
        means: ObservedBy::Proc,
        online_cpus: trace.online_cpus,
        allowed_cpus: lives.allowed_cpus(samples),
        windows: lengths.map(|(ns, cpus)| ObservedWindow { ns, operations: None, cpus }).collect(),
        threads,
        locks: locks.locks,
        lines: lines(trace),
        ..Observation::default()
    }
}

/// How much a sighting of each thread counts in which it could run, and one in which it waits, by what its counters say: while
/// knee looks, it has a CPU itself, so that more threads are met that could run than there are. The time of a quota may not
/// be counted.
fn weights(samples: &Samples, lives: &Lives, segments: &Timelines) -> BTreeMap<u32, [f64; 2]> {
    let edges = &samples.trace.edges_ns;
    let (Some(first), Some(last)) = (edges.first(), edges.last()) else { return BTreeMap::new() };
    if samples.throttled_ns.iter().any(|ns| *ns > 0) {
        return BTreeMap::new();
    }
    let of_thread = |(task, segments): (&u32, &Vec<Segment>)| {
        let counted = lives.0[task].counted(&[*first, *last])[0];
        let sum = |waits: bool| -> u64 {
            let is = |segment: &&Segment| matches!(segment.what, Doing::Waits(..)) == waits;
            segments.iter().filter(is).map(|segment| segment.to - segment.from).sum()
        };
        let (could_run, waited) = (sum(false), sum(true));
        let counts = (counted.run_ns + counted.delay_ns).min(could_run + waited);
        let left = could_run + waited - counts;
        let weight = |counted: u64, sighted: u64| counted as f64 / sighted.max(1) as f64;
        let both = [weight(counts, could_run), weight(left, waited)];
        let most = both[0].max(both[1]);
        let is_known = could_run > 0 && waited > 0 && most > 0.0;
        is_known.then(|| (*task, both.map(|weight| weight / most)))
    };
    segments.iter().filter_map(of_thread).collect()
}

fn state_of(locks: &Locks, task: (u32, u32), at_ns: u64, wait: &TracedWait) -> ThreadState {
    match locks.of_wait(task, at_ns, wait) {
        Some(Some(lock)) => ThreadState::Lock(lock),
        Some(None) => ThreadState::Condition,
        None => crate::waits::state(wait),
    }
}

fn timelines<'s>(samples: &'s Samples, lives: &Lives<'s>) -> Timelines<'s> {
    let others = Behinds::new(samples, lives);
    let timelines = lives.0.iter().map(|(task, life)| (*task, segments(life, &others)));
    timelines.collect()
}

fn segments<'s>(life: &Life<'s>, behinds: &Behinds<'s>) -> Vec<Segment<'s>> {
    let mut segments = Vec::new();
    for (index, (from, to)) in life.bounds().into_iter().enumerate() {
        let (at_ns, sighting) = life.sightings[index];
        match &sighting.doing {
            Sighted::Waits(wait) => {
                segments.push(Segment { from, to, what: Doing::Waits(wait, None) });
            }
            Sighted::Runnable(cpu) => {
                let running = life.running_share(index);
                let (own, other) = behinds.on_cpu(at_ns, *cpu, running);
                let quota = behinds.throttled_share(at_ns);
                let part = |from: u64, share: f64| from + ((to - from) as f64 * share) as u64;
                let runs = part(from, running);
                let throttled = part(runs, quota);
                let behind_own = part(throttled, own);
                segments.push(Segment { from, to: runs, what: Doing::Runs });
                let waits = [
                    (runs, throttled, Behind::Quota),
                    (throttled, behind_own, Behind::Own),
                    (behind_own, to, other),
                ];
                segments.extend(waits.map(|(from, to, behind)| Segment {
                    from,
                    to,
                    what: Doing::CouldRun(behind),
                }));
            }
        }
    }
    segments.retain(|segment| segment.from < segment.to);
    segments
}

/// How often states were entered: what the thread was given a CPU for since the sighting before is taken for what it
/// is met in.
fn count_entries(
    life: &Life,
    states: &mut [StateTime],
    state_of: impl Fn(u64, &TracedWait) -> ThreadState,
) {
    states.iter_mut().for_each(|time| time.times = 0);
    let mut last: Option<&Sighting> = None;
    for (at_ns, sighting) in &life.sightings {
        let arrivals = last.map_or(1, |last| sighting.arrivals.saturating_sub(last.arrivals));
        let is_other = last.is_none_or(|last| last.doing != sighting.doing);
        let entered = arrivals.max(u64::from(is_other));
        let state = match &sighting.doing {
            Sighted::Runnable(_) => ThreadState::Running,
            Sighted::Waits(wait) => state_of(*at_ns, wait),
        };
        if let Some(time) = states.iter_mut().find(|time| time.state == state) {
            time.times += entered;
        }
        last = Some(sighting);
    }
}

/// What keeps threads that could run from a CPU.
struct Behinds<'s> {
    edges_ns: &'s [u64],
    /// In each window, the share of the time of threads that could run which the quota takes.
    throttled: Vec<f64>,
    /// In each window, the busiest program that is not observed.
    others: Vec<Option<&'s str>>,
    /// How much the observed threads that are runnable run, by round and CPU.
    running: HashMap<(u64, u32), f64>,
}

impl<'s> Behinds<'s> {
    fn new(samples: &'s Samples, lives: &Lives) -> Behinds<'s> {
        let mut running: HashMap<(u64, u32), f64> = HashMap::new();
        for life in lives.0.values() {
            for (index, (at_ns, sighting)) in life.sightings.iter().enumerate() {
                if let Sighted::Runnable(cpu) = sighting.doing {
                    *running.entry((*at_ns, cpu)).or_default() += life.running_share(index);
                }
            }
        }
        let trace = &samples.trace;
        let others = trace.cpus.iter().map(|cpus| {
            let busy = cpus.others.iter().find(|other| other.name != "knee");
            busy.map(|other| other.name.as_str())
        });
        let throttled = (0..samples.throttled_ns.len()).map(|w| throttled_share(samples, lives, w));
        Behinds {
            edges_ns: &trace.edges_ns,
            throttled: throttled.collect(),
            others: others.collect(),
            running,
        }
    }

    fn window(&self, at_ns: u64) -> usize {
        self.edges_ns.partition_point(|edge| *edge <= at_ns).saturating_sub(1)
    }

    fn throttled_share(&self, at_ns: u64) -> f64 {
        let last = self.throttled.len().saturating_sub(1);
        self.throttled.get(self.window(at_ns).min(last)).copied().unwrap_or(0.0)
    }

    /// What a thread stands behind that runs for a share of the time: for which part of its waiting other observed threads
    /// run on the same CPU; and what has the CPU for the rest, the busiest other program if there is one.
    fn on_cpu(&self, at_ns: u64, cpu: u32, share: f64) -> (f64, Behind<'s>) {
        let all = self.running.get(&(at_ns, cpu)).copied().unwrap_or(share);
        let own = ((all - share) / (1.0 - share).max(1e-9)).clamp(0.0, 1.0);
        let last = self.others.len().saturating_sub(1);
        let other = self.others.get(self.window(at_ns).min(last)).copied().flatten();
        match other {
            Some(other) => (own, Behind::Other(other)),
            None if own > 0.0 => (1.0, Behind::Own),
            None => (0.0, Behind::Idle),
        }
    }
}

/// The share of the time of threads that could run in which the quota is used up.
///
/// The kernel says how long CPUs were kept from the group; that many threads at least could have run there. With more
/// threads than CPUs all of them were held, not one for each CPU.
fn throttled_share(samples: &Samples, lives: &Lives, window: usize) -> f64 {
    let edges = &samples.trace.edges_ns;
    let (from, to) = (edges[window], edges[window + 1]);
    let length = (to - from).max(1) as f64;
    let throttled = samples.throttled_ns[window] as f64 / length;
    if throttled == 0.0 {
        return 0.0;
    }
    let counted = lives.0.values().map(|life| life.counted(&edges[window..=window + 1])[0]);
    let runs: u64 = counted.map(|counted| counted.run_ns).sum();
    let runs = runs as f64 / length;
    let rounds = samples.rounds.iter().filter(|round| (from..=to).contains(&round.at_ns));
    let is_runnable = |sighting: &&Sighting| matches!(sighting.doing, Sighted::Runnable(_));
    let (mut times, mut threads) = (0.0_f64, 0.0_f64);
    for round in rounds {
        times += 1.0;
        threads += round.sightings.iter().filter(is_runnable).count() as f64;
    }
    let runnable = threads / times.max(1.0);
    let cpus = runnable.min(f64::from(samples.trace.online_cpus)).max(1.0);
    let held = (throttled / cpus).min(1.0) * runnable;
    let could_run = (runnable - runs).max(held).max(1e-9);
    held / could_run
}

/// The share of the CPUs' time in each window that nothing uses.
fn idle_shares(samples: &Samples, windows: &Windows) -> Vec<f64> {
    let cpus = f64::from(samples.trace.online_cpus.max(1));
    let share = |(window, ns): (usize, u64)| {
        let idle_ns = samples.trace.cpus.get(window).map_or(0, |cpus| cpus.idle_ns);
        (idle_ns as f64 / (cpus * ns.max(1) as f64)).min(1.0)
    };
    windows.lengths().into_iter().enumerate().map(share).collect()
}

/// Sets what was sampled to what the counters say: running, waiting for a CPU, and the rest.
fn calibrated(sampled: Vec<StateTime>, counted: &[Counted], idle: &[f64]) -> Vec<StateTime> {
    let mut states: BTreeMap<ThreadState, StateTime> = BTreeMap::new();
    for time in sampled {
        states.insert(time.state.clone(), time);
    }
    let zeros = || vec![0; counted.len()];
    for state in [ThreadState::Running, ThreadState::WakeUp] {
        let ns = zeros();
        states.entry(state.clone()).or_insert(StateTime { state, ns, times: 0 });
    }
    let mut states: Vec<StateTime> = states.into_values().collect();
    for (window, counted) in counted.iter().enumerate() {
        calibrate(&mut states, window, *counted, idle[window]);
    }
    states.retain(|time| time.ns.iter().any(|ns| *ns > 0));
    states
}

fn calibrate(states: &mut [StateTime], window: usize, counted: Counted, idle: f64) {
    let is_delayed = |state: &ThreadState| {
        matches!(
            state,
            ThreadState::BehindOwn | ThreadState::BehindOther(_) | ThreadState::Throttled
        )
    };
    let waits = |state: &ThreadState| {
        !is_delayed(state) && !matches!(state, ThreadState::Running | ThreadState::WakeUp)
    };
    let sum = |states: &[StateTime], is: &dyn Fn(&ThreadState) -> bool| -> u64 {
        let times = states.iter().filter(|time| is(&time.state));
        times.map(|time| time.ns[window]).sum()
    };
    let lived = sum(states, &|_| true);
    let runs = counted.run_ns.min(lived);
    let left = lived - runs;
    let waited = sum(states, &waits);
    let throttled = sum(states, &|state| *state == ThreadState::Throttled);
    // A thread that was never met waiting could always run. The time of a quota may not be counted as a delay.
    let sampled = if waited == 0 {
        left
    } else if throttled > 0 {
        sum(states, &is_delayed)
    } else {
        0
    };
    let delayed = counted.delay_ns.max(sampled).min(left);
    // Delays that are short are those of wake-ups, as far as there are idle CPUs to wake up on.
    let short = (counted.arrivals * WAKE_UP_NS) as f64 * idle;
    let is_short = 2.0 * short > delayed as f64 || sum(states, &is_delayed) == 0;
    let wakes_up = if is_short { delayed } else { 0 };
    set(states, window, &|state| *state == ThreadState::Running, runs);
    set(states, window, &is_delayed, delayed - wakes_up);
    set(states, window, &|state| *state == ThreadState::WakeUp, wakes_up);
    set(states, window, &waits, left - delayed);
}

/// Divides a time among states as it was divided.
fn set(states: &mut [StateTime], window: usize, is: &dyn Fn(&ThreadState) -> bool, ns: u64) {
    let mut chosen: Vec<&mut StateTime> =
        states.iter_mut().filter(|time| is(&time.state)).collect();
    let weights: Vec<u64> = chosen.iter().map(|time| time.ns[window]).collect();
    for (time, part) in chosen.iter_mut().zip(split(ns, &weights)) {
        time.ns[window] = part;
    }
}

#[cfg(test)]
mod tests;
