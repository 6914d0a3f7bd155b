//! Goroutines as they were sighted to wait at semaphores: each sighting stands for the time around it, as those of threads.

use records::live::{Trace, TracedStack, TracedWait};
use records::sampled::{Round, Samples, SightedGoroutine};

use crate::places::user_frames;

/// A sighting of a goroutine that waits.
pub struct GoroutineWait<'s> {
    pub process: u32,
    /// Tells it from others; no task has this number.
    pub number: u32,
    pub semaphore: u64,
    pub at_ns: u64,
    /// The time for which it stands.
    pub from: u64,
    pub to: u64,
    /// Whether it did not wait there in the round before.
    pub is_new: bool,
    pub stack: Option<&'s TracedStack>,
}

impl GoroutineWait<'_> {
    /// The wait as one of a thread for that semaphore.
    pub fn as_of_thread(&self) -> TracedWait {
        let call = "futex".to_string();
        TracedWait { call, arguments: [self.semaphore, 0], ..TracedWait::default() }
    }
}

/// All goroutines that were sighted to wait, round by round.
pub fn goroutine_waits(samples: &Samples) -> Vec<GoroutineWait<'_>> {
    let rounds = &samples.rounds;
    let middle = |one: &Round, next: &Round| one.at_ns + (next.at_ns - one.at_ns) / 2;
    let mut waits = Vec::new();
    for (index, round) in rounds.iter().enumerate() {
        let before = index.checked_sub(1).map(|before| &rounds[before]);
        let from = before.map_or(round.at_ns, |before| middle(before, round));
        let to = rounds.get(index + 1).map_or(round.at_ns, |next| middle(round, next));
        for goroutine in round.goroutines.iter().filter(|one| still_waits(&samples.trace, one)) {
            let is_same = |known: &SightedGoroutine| {
                (known.number, known.semaphore) == (goroutine.number, goroutine.semaphore)
            };
            waits.push(GoroutineWait {
                process: goroutine.process,
                number: goroutine.number,
                semaphore: goroutine.semaphore,
                at_ns: round.at_ns,
                from,
                to,
                is_new: before.is_none_or(|before| !before.goroutines.iter().any(is_same)),
                stack: goroutine.stack.and_then(|at| stack_of(&samples.trace, at)),
            });
        }
    }
    waits
}

/// Whether a goroutine still waited when its stack was read, as far as that shows: one that was handed the lock meanwhile
/// is elsewhere.
fn still_waits(trace: &Trace, goroutine: &SightedGoroutine) -> bool {
    let Some(stack) = goroutine.stack.and_then(|at| stack_of(trace, at)) else { return true };
    let is_of_wait = |name: &str| name.contains("semacquire") || name.contains("sync.");
    user_frames(trace, stack).iter().any(|function| is_of_wait(&function.name))
}

fn stack_of(trace: &Trace, at: usize) -> Option<&TracedStack> {
    trace.stacks.get(at)
}
