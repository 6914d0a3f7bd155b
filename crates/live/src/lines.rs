//! Cache lines that threads take from each other, by what the instructions of samples access.

use std::collections::{BTreeMap, BTreeSet};

use records::live::{ObservedLine, StackTaken, Trace};

use crate::places::user_frames;

/// The length of a line of x86-64, and of most arm64.
const LINE_BYTES: u64 = 64;
/// What is accessed together.
const WORD_BYTES: u64 = 8;
/// A line that was met less often is none.
const SAMPLES_MIN: u64 = 8;
/// A thread that has fewer of a line's samples may have met it by chance.
const OF_LINE_MIN: f64 = 0.05;

/// What is known of a line.
#[derive(Default)]
struct Line {
    samples: BTreeMap<u32, u64>,
    writers: BTreeSet<u32>,
    /// The threads that access each word.
    words: BTreeMap<u64, BTreeSet<u32>>,
    functions: BTreeMap<String, u64>,
}

/// The lines that several threads access and at least one writes.
pub fn lines(trace: &Trace) -> Vec<ObservedLine> {
    let mut lines: BTreeMap<(u32, u64), Line> = BTreeMap::new();
    let mut of = 0;
    for stack in trace.stacks.iter().filter(|stack| stack.why == StackTaken::Sampled) {
        of += 1;
        let Some(process) = trace.tasks.get(&stack.task).map(|task| task.process) else { continue };
        let function = user_frames(trace, stack).first().map(|function| function.name.clone());
        for touch in &stack.touches {
            let line = lines.entry((process, touch.address / LINE_BYTES)).or_default();
            *line.samples.entry(stack.task).or_default() += 1;
            line.words.entry(touch.address / WORD_BYTES).or_default().insert(stack.task);
            if touch.is_write {
                line.writers.insert(stack.task);
            }
            if let Some(function) = &function {
                *line.functions.entry(function.clone()).or_default() += 1;
            }
        }
    }
    let observed =
        lines.into_iter().filter_map(|((process, _), line)| line.observed(trace, process, of));
    let mut observed: Vec<ObservedLine> = observed.collect();
    observed.sort_by_key(|line| std::cmp::Reverse(line.samples));
    observed
}

impl Line {
    fn observed(&self, trace: &Trace, process: u32, of: u64) -> Option<ObservedLine> {
        let samples: u64 = self.samples.values().sum();
        let is_often = |times: &&u64| **times as f64 >= OF_LINE_MIN * samples as f64;
        let threads = self.samples.values().filter(is_often).count() as u64;
        if samples < SAMPLES_MIN || threads < 2 || self.writers.is_empty() {
            return None;
        }
        let mut variables: Vec<String> = Vec::new();
        for word in self.words.keys() {
            let bytes = word * WORD_BYTES..(word + 1) * WORD_BYTES;
            let named = bytes.into_iter().find_map(|at| trace.variables.get(&(process, at)));
            variables.extend(named.filter(|name| !variables.contains(name)).cloned());
        }
        let mut functions: Vec<(&String, &u64)> = self.functions.iter().collect();
        functions.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
        Some(ObservedLine {
            variables,
            is_false_sharing: self.words.values().all(|threads| threads.len() == 1),
            threads,
            samples,
            of,
            functions: functions.into_iter().map(|(name, _)| name.clone()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use records::live::{Touch, TracedStack, TracedTask};

    use super::*;

    /// Samples of threads 1 and 2 at these addresses.
    fn check(touches: &[(u32, u64)], expected: Option<bool>) {
        let task = || TracedTask { process: 9, ..TracedTask::default() };
        let stack = |(task, address): &(u32, u64)| TracedStack {
            task: *task,
            touches: vec![Touch { address: *address, is_write: true }],
            ..TracedStack::default()
        };
        let stacks = touches.iter().cycle().take(40).map(stack).collect();
        let tasks = [(1, task()), (2, task())].into();
        let trace = Trace { tasks, stacks, ..Trace::default() };
        let found = lines(&trace);
        assert_eq!(found.first().map(|line| line.is_false_sharing), expected, "{touches:?}");
    }

    #[test]
    fn neighbours_in_a_line_are_false_sharing_and_one_word_is_true() {
        check(&[(1, 0x1000), (2, 0x1008)], Some(true));
        check(&[(1, 0x1000), (2, 0x1000)], Some(false));
        check(&[(1, 0x1000), (2, 0x1040)], None);
        check(&[(1, 0x1000), (1, 0x1008)], None);
    }
}
