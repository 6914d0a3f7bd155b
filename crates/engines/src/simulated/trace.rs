//! A trace of a simulation, access by access, as readable text.

use machine::Region;

use super::Time;
use super::coherence::{LineUse, WordAddress};

/// One access.
#[derive(Clone, Copy, Debug)]
pub struct TracedAccess {
    pub task: u16,
    pub word: WordAddress,
    pub how: LineUse,
    pub old: u64,
    /// Set only while a trace is kept.
    pub new: u64,
    /// When the task issued it.
    pub at: Time,
    /// When it was done.
    pub end: Time,
}

/// Which accesses to trace.
#[derive(Clone, Copy, Debug)]
pub struct TraceWindow {
    /// The time of the first.
    pub from: Time,
    /// How many at most.
    pub accesses: usize,
}

#[derive(Clone, Debug)]
pub struct Trace {
    window: TraceWindow,
    pub accesses: Vec<TracedAccess>,
}

impl Trace {
    pub fn new(window: TraceWindow) -> Trace {
        Trace { window, accesses: Vec::new() }
    }

    pub fn add(&mut self, access: TracedAccess) {
        if access.at >= self.window.from && self.accesses.len() < self.window.accesses {
            self.accesses.push(access);
        }
    }

    /// A line for each access: its time, task and duration, and what it does.
    pub fn lines(&self, region: &Region) -> Vec<String> {
        // They are recorded when they are done: a store, or a recheck after one, comes later in
        // the list than it was issued.
        let mut accesses = self.accesses.clone();
        accesses.sort_by_key(|access| access.at);
        let from = accesses.first().map_or(0, |first| first.at);
        let line = |access: &TracedAccess| {
            let name = region.name(access.word.offset as usize);
            let action = match (access.how, access.new == access.old) {
                (LineUse::Load, _) => format!("reads {name}: {}", access.old),
                (LineUse::Store, _) => format!("writes {name}: {} -> {}", access.old, access.new),
                (LineUse::Atomic, false) => {
                    format!("changes {name}: {} -> {}", access.old, access.new)
                }
                (LineUse::Atomic, true) => format!("tries {name}: {}", access.old),
            };
            let (at, took) =
                ((access.at - from) as f64 / 1e3, (access.end - access.at) as f64 / 1e3);
            format!("{at:9.1} ns  t{:<3} {took:6.1} ns  {action}", access.task)
        };
        accesses.iter().map(line).collect()
    }
}
