//! Threads as they were sighted, each with its sightings in the order of time, and what its counters say.

use std::collections::{BTreeMap, HashMap};

use records::live::TracedStack;
use records::sampled::{Samples, Sighted, Sighting};

/// The sightings of each task, in the order of time.
pub struct Lives<'s>(pub BTreeMap<u32, Life<'s>>);

#[derive(Default)]
pub struct Life<'s> {
    pub sightings: Vec<(u64, &'s Sighting)>,
}

/// What the counters of a thread say of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub run_ns: u64,
    pub delay_ns: u64,
    pub arrivals: u64,
}

impl<'s> Lives<'s> {
    pub fn new(samples: &'s Samples) -> Lives<'s> {
        let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
        for round in &samples.rounds {
            for sighting in &round.sightings {
                lives.entry(sighting.task).or_default().sightings.push((round.at_ns, sighting));
            }
        }
        Lives(lives)
    }

    /// The fewest CPUs that a thread which runs much may use.
    pub fn allowed_cpus(&self, samples: &Samples) -> u32 {
        const BUSY: f64 = 0.05;
        let online = samples.trace.online_cpus;
        let is_busy = |task: &&u32| self.0.get(task).is_some_and(|life| life.busy() >= BUSY);
        let busy = samples.cpus_allowed.keys().filter(is_busy);
        let allowed = busy.map(|task| samples.cpus_allowed[task]).filter(|cpus| *cpus > 0);
        allowed.min().unwrap_or(online)
    }

    /// The stacks of waits, by when their segments begin.
    pub fn stacks(&self, samples: &'s Samples) -> HashMap<(u32, u64), &'s TracedStack> {
        let mut waits = HashMap::new();
        for (task, life) in &self.0 {
            for ((from, _), (_, sighting)) in life.bounds().into_iter().zip(&life.sightings) {
                if let Some(stack) = sighting.stack.and_then(|at| samples.trace.stacks.get(at)) {
                    waits.insert((*task, from), stack);
                }
            }
        }
        waits
    }
}

impl<'s> Life<'s> {
    /// The time that each sighting stands for.
    pub fn bounds(&self) -> Vec<(u64, u64)> {
        let at: Vec<u64> = self.sightings.iter().map(|(at, _)| *at).collect();
        let middle = |index: usize| at[index] + (at[index + 1] - at[index]) / 2;
        let bound = |index: usize| {
            let from = if index == 0 { at[0] } else { middle(index - 1) };
            let to = if index + 1 == at.len() { at[index] } else { middle(index) };
            (from, to)
        };
        (0..at.len()).map(bound).collect()
    }

    /// Its CPU time at an instant, as if it had run evenly between the sightings before and after.
    pub fn ran_until(&self, at_ns: u64) -> u64 {
        let after = self.sightings.partition_point(|(at, _)| *at <= at_ns);
        let sighting = |index: usize| self.sightings.get(index).map(|(at, s)| (*at, s.run_ns));
        match (after.checked_sub(1).and_then(sighting), sighting(after)) {
            (Some((begin, before)), Some((end, after))) => {
                let share = (at_ns - begin) as f64 / (end - begin).max(1) as f64;
                before + (after.saturating_sub(before) as f64 * share) as u64
            }
            (Some((_, ran)), None) | (None, Some((_, ran))) => ran,
            (None, None) => 0,
        }
    }

    /// Whether it was seen to wait between two instants.
    pub fn waits_between(&self, one: u64, other: u64) -> bool {
        let (from, to) = (one.min(other), one.max(other));
        let first = self.sightings.partition_point(|(at, _)| *at < from);
        let between = self.sightings[first..].iter().take_while(|(at, _)| *at <= to);
        between.into_iter().any(|(_, sighting)| matches!(sighting.doing, Sighted::Waits(_)))
    }

    /// How much of the time of a runnable thread it runs, by its counters before and after.
    pub fn running_share(&self, index: usize) -> f64 {
        let before = self.sightings[index.saturating_sub(1)].1;
        let after = self.sightings[(index + 1).min(self.sightings.len() - 1)].1;
        let run = after.run_ns.saturating_sub(before.run_ns) as f64;
        let delay = after.delay_ns.saturating_sub(before.delay_ns) as f64;
        // Neither counter moves while it waits for a CPU for long.
        if run + delay > 0.0 { run / (run + delay) } else { 0.0 }
    }

    /// The counters of each window, between its first and its last sighting.
    pub fn counted(&self, edges_ns: &[u64]) -> Vec<Counted> {
        let mut counted = vec![Counted::default(); edges_ns.len().saturating_sub(1)];
        for (window, edges) in edges_ns.windows(2).enumerate() {
            let first = self.sightings.partition_point(|(at, _)| *at < edges[0]);
            let end = self.sightings.partition_point(|(at, _)| *at <= edges[1]);
            if first >= end {
                continue;
            }
            let (first, last) = (self.sightings[first].1, self.sightings[end - 1].1);
            counted[window] = Counted {
                run_ns: last.run_ns.saturating_sub(first.run_ns),
                delay_ns: last.delay_ns.saturating_sub(first.delay_ns),
                arrivals: last.arrivals.saturating_sub(first.arrivals),
            };
        }
        counted
    }

    /// The share of its time in which it has a CPU or could use one.
    pub fn busy(&self) -> f64 {
        let (Some((begin, first)), Some((end, last))) =
            (self.sightings.first(), self.sightings.last())
        else {
            return 0.0;
        };
        let busy = (last.run_ns + last.delay_ns).saturating_sub(first.run_ns + first.delay_ns);
        busy as f64 / (end - begin).max(1) as f64
    }
}
