//! Waits that began before the look: no event has their stacks, so these are read from the memory of the process. A program
//! that hangs shows nothing else.

use std::fs;

use host::clock::now_ns;
use records::live::{FoundDoing, FoundTask, StackTaken, TracedTask, TracedWait};

use super::{LiveWatch, WalkedStack};
use crate::live::task_files::{Place, Seen, TaskFiles, futex_words};

/// How many threads have their stacks read: more would take long.
const STACKS_MAX: usize = 256;
/// When a wait began that began before the look.
const EARLIER: u64 = 0;

impl LiveWatch {
    /// Finds the threads of a process, with what they wait for.
    pub(super) fn find_threads(&mut self, process: u32) {
        let since_ns = if self.trace.edges_ns.is_empty() { EARLIER } else { now_ns() };
        let entries = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let threads = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        for task in threads {
            let name = fs::read_to_string(format!("/proc/{process}/task/{task}/comm"));
            let name = name.unwrap_or_default().trim_end().to_string();
            let (waited, place) = waits(process, task).unzip();
            if let Some(wait) = waited.as_ref().filter(|wait: &&TracedWait| wait.call == "futex") {
                self.addresses.insert((process, wait.arguments[0]));
                place.flatten().into_iter().for_each(|place| {
                    self.read_stack(process, task, place, since_ns);
                });
            }
            let known = TracedTask { process, name, waited, since_ns };
            self.trace.tasks.entry(task).or_insert(known);
        }
    }

    fn read_stack(&mut self, process: u32, task: u32, place: Place, at_ns: u64) {
        if self.trace.tasks.len() >= STACKS_MAX {
            return;
        }
        let walked = self.stacks.walk_waiting(process, place);
        let words = self.pythons.words(&self.stacks, process, task);
        self.walked.push(WalkedStack {
            at_ns,
            task,
            why: StackTaken::Waits,
            kernel: Vec::new(),
            call: "futex".to_string(),
            user: walked.frames,
            python: self.pythons.stack(&self.stacks, process, &words),
            is_whole: walked.is_whole,
            touches: Vec::new(),
        });
    }

    /// Forgets all stacks but those of earlier waits, which now begin with the first window.
    pub(super) fn keep_earlier_waits(&mut self, begin_ns: u64) {
        self.walked.retain(|stack| stack.at_ns == EARLIER);
        self.walked.iter_mut().for_each(|stack| stack.at_ns = begin_ns);
    }
}

/// Reads what lies at the futex that a thread was found to wait at: it may name the owner.
pub fn read_words(process: u32, found: &mut FoundTask) {
    if let FoundDoing::Waits(wait) = &mut found.does
        && wait.call == "futex"
    {
        wait.words = futex_words(process, wait.arguments[0]);
    }
}

/// What a thread waits for, and where it is in its program, by /proc; nothing if it does not wait.
fn waits(process: u32, task: u32) -> Option<(TracedWait, Option<Place>)> {
    match TaskFiles::open(process, task).ok()?.seen()? {
        Seen::Waits(wait, place) | Seen::WaitsInKernel(wait, place, _) => Some((wait, place)),
        Seen::Runnable(_) => None,
    }
}
