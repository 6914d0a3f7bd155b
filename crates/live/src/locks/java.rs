//! Waits of Java: a thread is parked at one place of its own for all locks and conditions, so that the place does not tell
//! them apart.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use records::live::Trace;

use super::{LockWait, LockWaits, only};
use crate::java_locks::JavaWait;
use crate::places::{java_wait, java_writes, place, user_frames};
use crate::waits::StackIndex;

/// What a wait is for, and the method that waits.
type For = (JavaWait, Option<String>);

/// Two methods take the same lock if one ends so many waits of the other, and such a share of them.
const WAKES_MIN: u64 = 2;
const WAKES_SHARE_MIN: f64 = 0.05;

/// Tells the waits of Java apart by what they are for, and puts those together that are for the same lock. Other waits
/// are left as they are.
pub(super) fn by_java_locks<'t>(
    groups: Vec<LockWaits<'t>>,
    trace: &Trace,
    stacks: &StackIndex<'t>,
) -> Vec<LockWaits<'t>> {
    let mut others = Vec::new();
    let mut java: BTreeMap<(u32, For), LockWaits<'t>> = BTreeMap::new();
    for group in groups {
        let process = group.places[0].0;
        let known: Vec<Option<For>> = group.waits.iter().map(|wait| purpose(trace, wait)).collect();
        let Some(first) = known.iter().flatten().next().cloned() else {
            others.push(group);
            continue;
        };
        for (purpose, part) in parts(group, known, first) {
            match java.entry((process, purpose)) {
                Entry::Occupied(mut lock) => lock.get_mut().add(part),
                Entry::Vacant(lock) => drop(lock.insert(part)),
            }
        }
    }
    others.extend(joined(java, trace, stacks));
    others
}

/// The waits of one place by what they are for. A wait without a stack is taken to be for what the wait before it was for.
fn parts<'t>(
    group: LockWaits<'t>,
    known: Vec<Option<For>>,
    first: For,
) -> BTreeMap<For, LockWaits<'t>> {
    let mut parts: BTreeMap<For, LockWaits<'t>> = BTreeMap::new();
    let mut last = first;
    for (wait, known) in group.waits.into_iter().zip(known) {
        last = known.unwrap_or(last);
        let part = parts.entry(last.clone()).or_insert_with(|| LockWaits {
            places: group.places.clone(),
            at: group.at,
            java: Some(last.0.clone()),
            waits: Vec::new(),
        });
        part.waits.push(wait);
    }
    parts
}

fn purpose(trace: &Trace, wait: &LockWait) -> Option<For> {
    let frames = user_frames(trace, wait.stack?);
    let wait = java_wait(&frames)?;
    let method = match wait {
        JavaWait::Condition => None,
        JavaWait::Lock(..) => place(&frames).map(|place| place.function),
    };
    Some((wait, method))
}

/// Puts the waits in several methods together that are for one lock: the thread that ends a wait gives the lock back in a
/// method that took it.
fn joined<'t>(
    java: BTreeMap<(u32, For), LockWaits<'t>>,
    trace: &Trace,
    stacks: &StackIndex<'t>,
) -> Vec<LockWaits<'t>> {
    let indices: BTreeMap<(u32, For), usize> =
        java.keys().cloned().enumerate().map(|(index, key)| (key, index)).collect();
    // The first of the locks that are the same, for each.
    let mut same: Vec<usize> = (0..java.len()).collect();
    for ((process, (wait, method)), group) in &java {
        let ends = ends(group, trace, stacks);
        let of: u64 = ends.values().sum();
        for (by, times) in ends {
            let is_often = times >= WAKES_MIN && times as f64 >= WAKES_SHARE_MIN * of as f64;
            let this = indices.get(&(*process, (wait.clone(), method.clone())));
            let other = indices.get(&(*process, (wait.clone(), Some(by))));
            let (Some(this), Some(other), true) = (this, other, is_often) else { continue };
            let (from, to) = (same[*this].max(same[*other]), same[*this].min(same[*other]));
            same.iter_mut().filter(|first| **first == from).for_each(|first| *first = to);
        }
    }
    if trace.switches.is_empty() {
        join_readers(&java, trace, &mut same);
    }
    let mut joined: BTreeMap<usize, LockWaits<'t>> = BTreeMap::new();
    for (group, first) in java.into_values().zip(same) {
        match joined.entry(first) {
            Entry::Occupied(mut lock) => lock.get_mut().add(group),
            Entry::Vacant(lock) => drop(lock.insert(group)),
        }
    }
    joined.into_values().collect()
}

/// Puts threads that wait to read, and no wake-up of which is seen, to those that wait to write: readers wait for writers
/// only, so that they wait for the lock of their class that a method of the process writes, if there is one alone.
fn join_readers(java: &BTreeMap<(u32, For), LockWaits>, trace: &Trace, same: &mut [usize]) {
    let writes = |group: &LockWaits| {
        let stacks = group.waits.iter().filter_map(|wait| wait.stack);
        let known = stacks.filter_map(|stack| java_writes(&user_frames(trace, stack)));
        known.max()
    };
    let modes: Vec<_> =
        java.iter().map(|((process, (wait, _)), group)| (process, wait, writes(group))).collect();
    for (index, (process, wait, _)) in
        modes.iter().enumerate().filter(|(_, (.., mode))| *mode == Some(false))
    {
        let is_writer = |(_, mode): &(usize, &(_, _, _))| *mode == &(*process, *wait, Some(true));
        if let Some((writer, _)) = only(modes.iter().enumerate().filter(is_writer)) {
            same[index] = same[writer];
        }
    }
}

/// The methods in which threads end waits for a lock, with how often.
fn ends(group: &LockWaits, trace: &Trace, stacks: &StackIndex) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::new();
    if !matches!(group.java, Some(JavaWait::Lock(..))) {
        return ends;
    }
    for wait in &group.waits {
        let stack = wait.woken.and_then(|woken| stacks.of_wake_up(woken.waker, woken.at_ns));
        let place = stack.and_then(|stack| place(&user_frames(trace, stack)));
        if let Some(place) = place {
            *ends.entry(place.function).or_default() += 1;
        }
    }
    ends
}
