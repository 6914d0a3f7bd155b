//! A look that goes on for hours: what was seen is given away from time to time. The round at the last edge is both the
//! last of what was seen and the first of what comes.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{replace, take};

use records::live::Trace;
use records::sampled::Samples;

use super::names::name_stacks;
use super::{ProcWatch, SampledResult, WalkedStack, functions_refused};
use crate::live::user_stacks::variables;

impl ProcWatch {
    /// Gives away what was seen up to the last edge, and goes on.
    pub fn cut(&mut self) -> SampledResult {
        let result = self.named();
        self.forget_stacks();
        let processes: BTreeSet<u32> = self.threads.values().map(|thread| thread.process).collect();
        self.stacks.keep(&processes);
        result
    }

    /// Makes the next round the first one, whatever was seen before.
    pub fn begin_anew(&mut self) {
        self.edge();
        self.cut();
    }

    /// What was seen, with the names of functions and variables.
    pub(super) fn named(&mut self) -> SampledResult {
        let mut samples = self.take_samples();
        samples.trace.variables = variables(&mut self.stacks, &self.addresses);
        let stacks = self.walked.iter().map(|stack| &stack.frames[..]);
        let names = self.names.of(&self.stacks.programs, stacks);
        name_stacks(&mut samples.trace, &self.walked, &names, &self.pythons.functions);
        self.result.missing.append(&mut self.stacks.missing);
        self.result.missing.append(&mut self.pythons.missing);
        let mut missing = self.result.missing.clone();
        if self.pythons.is_any() {
            let why =
                "without BPF, those of threads that wait are read; run knee as root".to_string();
            missing.insert("Python functions of threads that run".to_string(), why);
        }
        let is_sampled = self.walked.iter().any(|stack| stack.sampled_ns.is_some());
        if let Some(why) = self.refused.as_ref().filter(|_| !is_sampled) {
            missing.insert("functions of threads that run".to_string(), functions_refused(why));
        }
        let edges = &samples.trace.edges_ns;
        let ns = edges.last().zip(edges.first()).map_or(1, |(last, first)| last - first);
        let rounds = samples.rounds.len() as f64;
        samples.trace.hertz = (rounds * 1e9 / ns.max(1) as f64).round() as u32;
        let whole = self.walked.iter().filter(|stack| stack.is_whole).count();
        SampledResult {
            samples,
            whole_stacks: whole as f64 / self.walked.len().max(1) as f64,
            missing,
            own_ns: take(&mut self.result.own_ns),
        }
    }

    /// Takes out what was seen, but for the threads and the last round.
    fn take_samples(&mut self) -> Samples {
        let trace = &self.samples.trace;
        let is_followed = |task: &u32| self.threads.contains_key(task);
        let tasks = trace.tasks.iter().filter(|(task, _)| is_followed(task));
        let next = Samples {
            trace: Trace {
                edges_ns: trace.edges_ns.last().copied().into_iter().collect(),
                tasks: tasks.map(|(task, known)| (*task, known.clone())).collect(),
                online_cpus: trace.online_cpus,
                hertz: trace.hertz,
                ..Trace::default()
            },
            rounds: self.samples.rounds.last().cloned().into_iter().collect(),
            cpus_allowed: self.samples.cpus_allowed.clone(),
            throttled_ns: Vec::new(),
            faulting: BTreeMap::new(),
            in_kernel: BTreeMap::new(),
        };
        self.threads.values_mut().for_each(|thread| thread.charged[0] = thread.charged[1]);
        let mut seen = replace(&mut self.samples, next);
        self.samples.cpus_allowed.retain(|task, _| self.threads.contains_key(task));
        // A round after the last edge is seen next time.
        let edge = seen.trace.edges_ns.last().copied().unwrap_or_default();
        let later = seen.rounds.extract_if(.., |round| round.at_ns > edge).collect::<Vec<_>>();
        if !later.is_empty() {
            let at_edge = seen.rounds.last().cloned();
            self.samples.rounds = at_edge.into_iter().chain(later).collect();
        }
        seen
    }

    /// Forgets the stacks that nothing refers to any more, and samples.
    fn forget_stacks(&mut self) {
        let of_rounds = self.samples.rounds.iter().flat_map(|round| &round.sightings);
        let of_rounds = of_rounds.filter_map(|sighting| sighting.stack);
        let goroutines = self.samples.rounds.iter().flat_map(|round| &round.goroutines);
        let of_rounds = of_rounds.chain(goroutines.filter_map(|goroutine| goroutine.stack));
        let of_threads = self.threads.values().filter_map(|thread| thread.last.as_ref()?.2);
        let used: BTreeSet<usize> = of_rounds.chain(of_threads).collect();
        let mut new_index = vec![None; self.walked.len()];
        let mut kept: Vec<WalkedStack> = Vec::new();
        for (index, stack) in take(&mut self.walked).into_iter().enumerate() {
            if used.contains(&index) {
                new_index[index] = Some(kept.len());
                kept.push(stack);
            }
        }
        self.walked = kept;
        let moved = |index: usize| new_index.get(index).copied().flatten();
        self.known.retain(|_, index| match moved(*index) {
            Some(new) => {
                *index = new;
                true
            }
            None => false,
        });
        for sighting in self.samples.rounds.iter_mut().flat_map(|round| &mut round.sightings) {
            sighting.stack = sighting.stack.and_then(moved);
        }
        for goroutine in self.samples.rounds.iter_mut().flat_map(|round| &mut round.goroutines) {
            goroutine.stack = goroutine.stack.and_then(moved);
        }
        for (_, _, stack) in self.threads.values_mut().filter_map(|thread| thread.last.as_mut()) {
            *stack = stack.and_then(moved);
        }
        let waited = self.samples.rounds.iter().flat_map(|round| &round.sightings);
        let waited = waited.filter_map(|sighting| {
            let process = self.threads.get(&sighting.task)?.process;
            Some((process, super::futex_of(&sighting.doing)?))
        });
        let goroutines = self.samples.rounds.iter().flat_map(|round| &round.goroutines);
        let of_goroutines = goroutines.map(|waits| (waits.process, waits.semaphore));
        self.addresses = waited.chain(of_goroutines).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use records::sampled::Sighted;

    use super::*;

    /// A thread of this process that sleeps for as long as the tests run.
    fn sleeper() {
        let named = std::thread::Builder::new().name("sleeper".to_string());
        named.spawn(|| std::thread::sleep(Duration::from_secs(600))).unwrap();
    }

    /// Takes some rounds: how long that takes depends on what the whole process has used.
    fn look(watch: &mut ProcWatch) {
        while watch.samples.rounds.len() < 4 {
            std::thread::sleep(watch.drain());
        }
        watch.edge();
    }

    #[test]
    fn a_look_that_is_cut_goes_on_without_what_was_given_away() {
        sleeper();
        let mut watch = ProcWatch::begin(&[std::process::id()]).unwrap();
        look(&mut watch);
        let first = watch.cut();
        look(&mut watch);
        let second = watch.cut();
        let (a, b) = (&first.samples, &second.samples);
        assert_eq!(a.trace.edges_ns.last(), b.trace.edges_ns.first());
        assert_eq!(a.rounds.last().map(|round| round.at_ns), b.rounds.first().map(|r| r.at_ns));
        assert!(a.rounds.len() > 2 && b.rounds.len() > 2);
        let task = b.trace.tasks.iter().find(|(_, task)| task.name == "sleeper").unwrap().0;
        for seen in [a, b] {
            let sightings = seen.rounds.iter().flat_map(|round| &round.sightings);
            let mut of_sleeper = sightings.filter(|sighting| sighting.task == *task);
            let last = of_sleeper.next_back().unwrap();
            assert!(matches!(&last.doing, Sighted::Waits(wait) if wait.call.contains("nanosleep")));
            let stack = &seen.trace.stacks[last.stack.unwrap()];
            assert_eq!(stack.task, *task);
        }
        assert_eq!(watch.samples.rounds.len(), 1);
    }
}
