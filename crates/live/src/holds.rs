//! Where threads are that have what others wait for, by sightings: a thread that waits itself has the stack of its wait,
//! one that runs has the samples of its clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use records::live::{StackTaken, Trace, TracedFunction, TracedStack, WaitKind};
use records::sampled::{Samples, Sighted, Sighting};

use crate::java_locks::JavaWait;
use crate::lives::Lives;
use crate::locks::{owner_by_words, writer_by_words};
use crate::objects::is_c_library;
use crate::places::{java_wait, kind_by_stack, place, user_frames};
use crate::waits::Held;

/// A sample of a thread's clock is taken for a sighting so far away in CPU time of the thread: the clock fires after each
/// 10 ms of it. One that is kept from a CPU stays where it was sampled, for how long ever.
const NEAR_NS: u64 = 6_000_000;

/// With more threads, it is not guessed which of them has a lock: each would be looked at for each that waits.
const GUESSED_MAX: usize = 128;

pub struct Holds<'s> {
    trace: &'s Trace,
    lives: &'s Lives<'s>,
    /// The functions that wait at each futex.
    takers: BTreeMap<u64, BTreeSet<String>>,
    /// Futexes of read-write locks.
    read_write: BTreeSet<u64>,
    /// Samples of the clock of each task, by time.
    samples: BTreeMap<u32, Vec<&'s TracedStack>>,
}

impl<'s> Holds<'s> {
    pub fn new(samples: &'s Samples, lives: &'s Lives<'s>) -> Holds<'s> {
        let trace = &samples.trace;
        let mut clock: BTreeMap<u32, Vec<&TracedStack>> = BTreeMap::new();
        for stack in trace.stacks.iter().filter(|stack| stack.why == StackTaken::Sampled) {
            clock.entry(stack.task).or_default().push(stack);
        }
        let mut takers: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
        let mut read_write: BTreeSet<u64> = BTreeSet::new();
        let mut known: BTreeSet<(u64, usize)> = BTreeSet::new();
        for sighting in samples.rounds.iter().flat_map(|round| &round.sightings) {
            let (Some(address), Some(stack)) = (futex_of(sighting), sighting.stack) else {
                continue;
            };
            let taken = trace.stacks.get(stack).filter(|_| known.insert((address, stack)));
            let Some(frames) = taken.map(|stack| user_frames(trace, stack)) else { continue };
            if kind_by_stack(&frames) == Some(WaitKind::ReadWriteLock) {
                read_write.insert(address);
            }
            if let Some(place) = place(&frames) {
                takers.entry(address).or_default().insert(place.function);
            }
        }
        Holds { trace, lives, takers, read_write, samples: clock }
    }

    /// Who has the lock, at each sighting of a thread that waits for it: as the lock says, or else the thread that is in a
    /// function that takes it.
    pub fn all(&self) -> Vec<Held> {
        let mut guesses: HashMap<(u64, u64), Option<u32>> = HashMap::new();
        let mut held = Vec::new();
        for (waiter, life) in &self.lives.0 {
            for ((_, to), (at_ns, sighting)) in life.bounds().into_iter().zip(&life.sightings) {
                let Sighted::Waits(wait) = &sighting.doing else { continue };
                if wait.call != "futex" {
                    continue;
                }
                let address = wait.arguments[0];
                let by_words = if self.read_write.contains(&address) {
                    writer_by_words(wait)
                } else {
                    owner_by_words(wait, *waiter)
                };
                let named = by_words.filter(|owner| self.lives.0.contains_key(owner));
                let owner = named.or_else(|| {
                    let guess = guesses.entry((address, *at_ns));
                    *guess.or_insert_with(|| self.guess(*at_ns, address))
                });
                if let Some(owner) = owner {
                    let stack = self.stack(owner, *at_ns, address);
                    held.push(Held { waiter: *waiter, owner, to, stack });
                }
            }
        }
        held
    }

    /// The thread that does not wait for a lock at a round, and is in a function that takes it: of several the one that was
    /// seen there nearest to the round, as a lock may change hands between two samples, and rather one that waits for
    /// something other than a futex, as those that wait for the interpreter may do so on their way to the lock; nobody where
    /// two are as near.
    fn guess(&self, at_ns: u64, address: u64) -> Option<u32> {
        let takers = self.takers.get(&address)?;
        if self.lives.0.len() > GUESSED_MAX {
            return None;
        }
        let inside = |task: &u32| {
            let (stack, away_ns) = self.stack_at(*task, at_ns, address)?;
            let frames = user_frames(self.trace, stack);
            let is_inside = !waits_for_java_lock(&frames, takers)
                && frames.iter().any(|function| takers.contains(&function.name));
            is_inside.then_some(((away_ns, self.waits_at_futex(*task, at_ns)), *task))
        };
        let mut inside: Vec<((u64, bool), u32)> = self.lives.0.keys().filter_map(inside).collect();
        inside.sort_unstable();
        match inside[..] {
            [(_, task)] => Some(task),
            [(nearest, task), (next, _), ..] if nearest < next => Some(task),
            _ => None,
        }
    }

    fn waits_at_futex(&self, task: u32, at_ns: u64) -> bool {
        let sighting = self.sighting(task, at_ns);
        sighting.is_some_and(|(_, sighting)| futex_of(sighting).is_some())
    }

    /// What a thread was seen to do at a round, with the place of that among all.
    fn sighting(&self, task: u32, at_ns: u64) -> Option<(usize, &'s Sighting)> {
        let sightings = &self.lives.0.get(&task)?.sightings;
        let found = sightings.binary_search_by_key(&at_ns, |(at, _)| *at).ok()?;
        Some((found, sightings[found].1))
    }

    /// The stack of a thread at a round, if it does not wait for the lock at this address itself, and how far away in its CPU
    /// time that was taken.
    fn stack_at(&self, task: u32, at_ns: u64, address: u64) -> Option<(&'s TracedStack, u64)> {
        let (found, sighting) = self.sighting(task, at_ns)?;
        match &sighting.doing {
            Sighted::Waits(_) if futex_of(sighting) == Some(address) => None,
            Sighted::Waits(_) => Some((self.trace.stacks.get(sighting.stack?)?, 0)),
            Sighted::Runnable(_) => self.sample(task, found),
        }
    }

    /// The stack of a thread at a round, from the function on that takes such a lock, if it is there.
    fn stack(&self, task: u32, at_ns: u64, address: u64) -> Option<TracedStack> {
        let (stack, _) = self.stack_at(task, at_ns, address)?;
        let frames = user_frames(self.trace, stack);
        let takers = self.takers.get(&address);
        let takes = |function: &&TracedFunction| {
            takers.is_some_and(|takers| takers.contains(&function.name))
        };
        // The C library says what a thread does, as fdatasync does, and not where.
        let is_program = |function: &&TracedFunction| !is_c_library(&function.object);
        let first = frames.iter().position(takes).or_else(|| frames.iter().position(is_program));
        let kernel = stack.kernel as usize;
        Some(TracedStack {
            frames: stack.frames[kernel + first?..].to_vec(),
            kernel: 0,
            ..stack.clone()
        })
    }

    /// The sample of a thread that is nearest to a sighting in CPU time, and how near, if it was not seen to wait between.
    fn sample(&self, task: u32, sighting: usize) -> Option<(&'s TracedStack, u64)> {
        let life = self.lives.0.get(&task)?;
        let (at_ns, sighted) = life.sightings[sighting];
        let samples = self.samples.get(&task)?;
        let after = samples.partition_point(|stack| stack.at_ns < at_ns);
        let near = samples[after.saturating_sub(1)..].iter().take(2);
        let near = near.filter(|stack| !life.waits_between(stack.at_ns, at_ns));
        let away = |stack: &&'s TracedStack| {
            (*stack, life.ran_until(stack.at_ns).abs_diff(sighted.run_ns))
        };
        near.map(away).min_by_key(|(_, away)| *away).filter(|(_, away)| *away <= NEAR_NS)
    }
}

/// Whether a thread of Java waits for the lock itself that is taken in these functions, at a place of its own.
fn waits_for_java_lock(frames: &[&TracedFunction], takers: &BTreeSet<String>) -> bool {
    let is_lock = matches!(java_wait(frames), Some(JavaWait::Lock(..)));
    is_lock && place(frames).is_some_and(|place| takers.contains(&place.function))
}

/// The address of the futex that a thread waits at.
fn futex_of(sighting: &Sighting) -> Option<u64> {
    match &sighting.doing {
        Sighted::Waits(wait) if wait.call == "futex" => Some(wait.arguments[0]),
        _ => None,
    }
}
