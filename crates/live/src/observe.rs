//! A trace as what threads and locks did in each window.

use std::collections::{BTreeMap, HashMap};

use records::live::{
    Carried, Observation, ObservedThread, ObservedWindow, SampledAt, StateTime, ThreadState, Trace,
    TracedStack,
};

use crate::cut::carried;
use crate::lines::lines;
use crate::locks::Locks;
use crate::places::{kernel_frames, user_frames};
use crate::timelines::{Behind, Doing, Segment, Timelines, is_wake_up, timelines};
use crate::waits::{StackIndex, state};
use crate::windows::Windows;

/// What threads and locks did. What the trace does not know (the subject, the host, what was missing) is left empty.
pub fn observe(trace: &Trace) -> Observation {
    observed(trace, &timelines(trace))
}

/// What threads and locks did, and what the next trace begins with if this one is cut at its end.
pub fn observe_part(trace: &Trace) -> (Observation, Carried) {
    let lives = timelines(trace);
    (observed(trace, &lives), carried(trace, &lives))
}

fn observed(trace: &Trace, lives: &Timelines) -> Observation {
    let windows = Windows::of(trace);
    let stacks = StackIndex::new(trace);
    let locks = Locks::find(trace, lives, &stacks, &windows);
    let threads = lives.iter().filter_map(|(task, segments)| {
        let known = trace.tasks.get(task)?;
        let states = states(segments, (*task, known.process), &locks, &windows);
        (!states.is_empty()).then(|| ObservedThread {
            task: *task,
            process: known.process,
            name: known.name.clone(),
            states,
            samples: samples_of(trace, stacks.all_samples(*task)),
        })
    });
    let threads = threads.collect();
    let uses = trace.cpus.iter().cloned().map(Some).chain(std::iter::repeat(None));
    let window = |(ns, cpus): (u64, Option<_>)| ObservedWindow {
        ns,
        operations: None,
        cpus: cpus.unwrap_or_default(),
    };
    Observation {
        online_cpus: trace.online_cpus,
        allowed_cpus: allowed_cpus(trace),
        windows: windows.lengths().into_iter().zip(uses).map(window).collect(),
        gaps_ns: trace.gaps_ns.iter().map(|(begin, end)| end - begin).sum(),
        threads,
        locks: locks.locks,
        lines: lines(trace),
        ..Observation::default()
    }
}

/// How long a thread was in each state.
pub fn states(
    segments: &[Segment],
    (task, process): (u32, u32),
    locks: &Locks,
    windows: &Windows,
) -> Vec<StateTime> {
    let mut states: BTreeMap<ThreadState, (Vec<u64>, u64)> = BTreeMap::new();
    let mut last: Option<(&Segment, ThreadState)> = None;
    for segment in segments {
        let woken_for = last.take().filter(|(wait, state)| {
            matches!(state, ThreadState::Lock(_)) && is_wake_up(wait, segment)
        });
        // A thread that is woken for a lock cannot take it before it runs.
        let (state, times) = match woken_for {
            Some((_, lock)) => (lock, 0),
            None => (state_of(segment, (task, process), locks), 1),
        };
        let known = states.entry(state.clone()).or_insert_with(|| (windows.zeros(), 0));
        windows.add(&mut known.0, segment.from, segment.to);
        known.1 += times;
        last = Some((segment, state));
    }
    let states = states.into_iter().map(|(state, (ns, times))| StateTime { state, ns, times });
    states.collect()
}

fn state_of(segment: &Segment, (task, process): (u32, u32), locks: &Locks) -> ThreadState {
    match &segment.what {
        Doing::Runs => ThreadState::Running,
        Doing::CouldRun(Behind::Own) => ThreadState::BehindOwn,
        Doing::CouldRun(Behind::Other(name)) => ThreadState::BehindOther((*name).to_string()),
        Doing::CouldRun(Behind::Quota) => ThreadState::Throttled,
        Doing::CouldRun(Behind::Idle) => ThreadState::WakeUp,
        Doing::Waits(wait, _) => match locks.of_wait((task, process), segment.from, wait) {
            Some(Some(lock)) => ThreadState::Lock(lock),
            Some(None) => ThreadState::Condition,
            None => {
                let lock = locks.of_call(task, segment.from);
                lock.map_or_else(|| state(wait), ThreadState::Lock)
            }
        },
    }
}

/// How many CPUs threads that leave one may use, in most cases.
fn allowed_cpus(trace: &Trace) -> u32 {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let leaving = trace.switches.iter().filter_map(|switch| switch.from.as_ref());
    for cpus in leaving.map(|leaving| leaving.cpus_allowed).filter(|cpus| *cpus > 0) {
        *counts.entry(cpus).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, times)| *times);
    most.map_or(trace.online_cpus, |(cpus, _)| cpus)
}

/// The stacks of samples, each once with how often it was seen.
pub fn samples_of(trace: &Trace, stacks: &[&TracedStack]) -> Vec<SampledAt> {
    let mut known: HashMap<(&[u32], u64), (&TracedStack, u64)> = HashMap::new();
    for stack in stacks {
        // In the kernel, where the program is does not matter.
        let offset = if stack.kernel == 0 { stack.user_offset } else { 0 };
        known.entry((&stack.frames, offset)).or_insert((*stack, 0)).1 += 1;
    }
    let sampled = |((_, offset), (stack, times)): ((&[u32], u64), (&TracedStack, u64))| SampledAt {
        stack: named(trace, stack),
        // In the program, the registers of the last call are still there.
        call: if stack.kernel > 0 { stack.call.clone() } else { String::new() },
        times,
        offset,
    };
    let mut samples: Vec<SampledAt> = known.into_iter().map(sampled).collect();
    samples.sort_by(|a, b| b.times.cmp(&a.times).then_with(|| a.stack.cmp(&b.stack)));
    samples
}

fn named(trace: &Trace, stack: &TracedStack) -> Vec<String> {
    let kernel = kernel_frames(trace, stack).into_iter().map(|f| format!("{}_[k]", f.name));
    kernel.chain(user_frames(trace, stack).into_iter().map(|f| f.name.clone())).collect()
}
