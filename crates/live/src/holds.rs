//! Where threads are that have what others wait for, by sightings: a thread that waits itself has the stack of its wait,
//! one that runs has the samples of its clock.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use records::live::{StackTaken, Trace, TracedFunction, TracedStack, TracedWait, WaitKind};
use records::sampled::{Samples, Sighted, Sighting};

use crate::goroutines::GoroutineWait;
use crate::java_locks::JavaWait;
use crate::lives::Lives;
use crate::locks::{READ_WRITE_WORDS_APART, only, owner_by_words, writer_by_words};
use crate::objects::is_c_library;
use crate::places::{
    java_wait, java_writes, kind_by_stack, place, place_outside_lock, user_frames,
    waits_at_condition_variable,
};
use crate::waits::Held;

/// A sample of a thread's clock is taken for a sighting so far away in CPU time of the thread: the clock fires after each
/// 10 ms of it. One that is kept from a CPU stays where it was sampled, for how long ever.
const NEAR_NS: u64 = 6_000_000;

/// With more threads, it is not guessed which of them has a lock: each would be looked at for each that waits.
const GUESSED_MAX: usize = 128;

pub struct Holds<'s> {
    trace: &'s Trace,
    lives: &'s Lives<'s>,
    goroutines: &'s [GoroutineWait<'s>],
    queues: Vec<Queue<'s>>,
    of_locks: BTreeMap<LockAt, usize>,
    /// The queue that a stack stands in which waits at a place; `None` if it waits for no lock.
    of_stacks: HashMap<(usize, u64), Option<usize>>,
    /// Samples of the clock of each task, by time.
    samples: BTreeMap<u32, Vec<&'s TracedStack>>,
}

/// What tells a lock from others: where it lies, or for Java, whose threads are parked at places of their own, what its
/// methods say.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum LockAt {
    Futex(u64),
    Kernel(u64),
    Java(u32, JavaWait, String),
}

/// Those that wait for a lock.
#[derive(Default)]
struct Queue<'s> {
    /// The functions that wait for it.
    takers: BTreeSet<String>,
    /// Those that call them.
    callers: BTreeSet<String>,
    /// The threads that were seen to wait for it, or in such a function.
    users: BTreeSet<u32>,
    /// Where each of them was seen to wait for it last.
    waited: BTreeMap<u32, &'s TracedStack>,
    is_read_write: bool,
    /// Whether a thread of Java waits for it to write.
    writes: bool,
    /// A lock of the kernel is taken and given back in one system call, of which no sample of the program shows anything.
    is_kernel: bool,
}

impl<'s> Holds<'s> {
    pub fn new(
        samples: &'s Samples,
        lives: &'s Lives<'s>,
        goroutines: &'s [GoroutineWait<'s>],
    ) -> Holds<'s> {
        let trace = &samples.trace;
        let mut clock: BTreeMap<u32, Vec<&TracedStack>> = BTreeMap::new();
        for stack in trace.stacks.iter().filter(|stack| stack.why == StackTaken::Sampled) {
            clock.entry(stack.task).or_default().push(stack);
        }
        let mut holds = Holds {
            trace,
            lives,
            goroutines,
            queues: Vec::new(),
            of_locks: BTreeMap::new(),
            of_stacks: HashMap::new(),
            samples: clock,
        };
        for sighting in samples.rounds.iter().flat_map(|round| &round.sightings) {
            if let (Sighted::Waits(wait), Some(stack)) = (&sighting.doing, sighting.stack) {
                holds.join_queue(sighting.task, wait, stack);
            }
        }
        for (semaphore, stack) in goroutines.iter().filter_map(|g| Some((g.semaphore, g.stack?))) {
            let frames = user_frames(trace, stack);
            holds.add_taker(LockAt::Futex(semaphore), &frames);
        }
        holds.join_read_write_locks();
        holds.add_users();
        holds
    }

    /// Notes that a thread waits with a stack, unless it waits for no lock.
    fn join_queue(&mut self, task: u32, wait: &TracedWait, at: usize) {
        let Some(stack) = self.trace.stacks.get(at) else { return };
        let known = self.of_stacks.get(&(at, waits_at(wait))).copied();
        let queue = known.unwrap_or_else(|| {
            let frames = user_frames(self.trace, stack);
            let lock = self.lock_at(task, wait, &frames)?;
            Some(self.add_taker(lock, &frames))
        });
        self.of_stacks.insert((at, waits_at(wait)), queue);
        if let Some(queue) = queue {
            let queue = &mut self.queues[queue];
            queue.users.insert(task);
            queue.waited.insert(task, stack);
        }
    }

    fn lock_at(&self, task: u32, wait: &TracedWait, frames: &[&TracedFunction]) -> Option<LockAt> {
        if wait.lock != 0 {
            return Some(LockAt::Kernel(wait.lock));
        }
        let address = futex_address(wait)?;
        match java_wait(frames) {
            Some(JavaWait::Condition) => None,
            Some(java) => {
                let process = self.trace.tasks.get(&task).map_or(0, |task| task.process);
                let method = place(frames).map(|place| place.function);
                Some(LockAt::Java(process, java, method.unwrap_or_default()))
            }
            None => {
                let is_lock = kind_by_stack(frames) != Some(WaitKind::Condition);
                is_lock.then_some(LockAt::Futex(address))
            }
        }
    }

    fn add_taker(&mut self, lock: LockAt, frames: &[&TracedFunction]) -> usize {
        let next = self.queues.len();
        let is_kernel = matches!(lock, LockAt::Kernel(_));
        let index = *self.of_locks.entry(lock).or_insert(next);
        if index == next {
            self.queues.push(Queue { is_kernel, ..Queue::default() });
        }
        let queue = &mut self.queues[index];
        queue.is_read_write |= kind_by_stack(frames) == Some(WaitKind::ReadWriteLock);
        queue.writes |= java_writes(frames) == Some(true);
        if let Some(place) = place_outside_lock(frames) {
            queue.takers.insert(place.function);
            queue.callers.extend(place.callers.into_iter().take(1));
        }
        index
    }

    /// Puts the queues of one read-write lock together: its readers and its writers wait at different words, and in Java in
    /// different methods.
    fn join_read_write_locks(&mut self) {
        let known: Vec<(LockAt, usize)> =
            self.of_locks.iter().map(|(lock, queue)| (lock.clone(), *queue)).collect();
        let queue_at = |lock: &LockAt| known.iter().find(|(other, _)| other == lock);
        let writers = |process: u32, java: &JavaWait| {
            let is_its =
                |lock: &LockAt| matches!(lock, LockAt::Java(p, j, _) if (*p, j) == (process, java));
            only(known.iter().filter(|(lock, queue)| is_its(lock) && self.queues[*queue].writes))
        };
        let joined = |(lock, queue): &(LockAt, usize)| {
            let Queue { is_read_write, writes, .. } = self.queues[*queue];
            let (_, other) = match lock {
                LockAt::Futex(word) => queue_at(&LockAt::Futex(word + READ_WRITE_WORDS_APART)),
                LockAt::Java(process, java, _) if !writes => writers(*process, java),
                _ => None,
            }?;
            (is_read_write && self.queues[*other].is_read_write).then_some((*queue, *other))
        };
        let joined: Vec<(usize, usize)> = known.iter().filter_map(joined).collect();
        joined.into_iter().for_each(|(part, whole)| self.join(part, whole));
    }

    /// Makes a queue a part of another.
    fn join(&mut self, part: usize, whole: usize) {
        let Queue { takers, callers, users, waited, .. } = std::mem::take(&mut self.queues[part]);
        let queue = &mut self.queues[whole];
        queue.takers.extend(takers);
        queue.callers.extend(callers);
        queue.users.extend(users);
        queue.waited.extend(waited);
        let queues = self.of_locks.values_mut().chain(self.of_stacks.values_mut().flatten());
        queues.filter(|queue| **queue == part).for_each(|queue| *queue = whole);
    }

    /// Adds the threads that samples show in functions which take a lock.
    fn add_users(&mut self) {
        for (task, stack) in
            self.samples.iter().flat_map(|(task, all)| all.iter().map(move |one| (task, one)))
        {
            let frames = user_frames(self.trace, stack);
            for queue in &mut self.queues {
                if !queue.users.contains(task) && is_inside(&frames, &queue.takers) {
                    queue.users.insert(*task);
                }
            }
        }
    }

    /// The queue that a thread stands in.
    fn queue_of(&self, sighting: &Sighting) -> Option<usize> {
        let Sighted::Waits(wait) = &sighting.doing else { return None };
        let of_stack = |stack| self.of_stacks.get(&(stack, waits_at(wait))).copied();
        let by_stack = sighting.stack.and_then(of_stack);
        by_stack.unwrap_or_else(|| {
            let lock = if wait.lock == 0 { None } else { Some(LockAt::Kernel(wait.lock)) };
            let lock = lock.or_else(|| futex_address(wait).map(LockAt::Futex))?;
            self.of_locks.get(&lock).copied()
        })
    }

    /// Who has the lock, at each sighting of a thread or a goroutine that waits for it: as the lock says, or else the thread
    /// that is in a function that takes it.
    pub fn all(&self) -> Vec<Held> {
        let mut guesses: HashMap<(usize, u64), Option<u32>> = HashMap::new();
        let mut held = Vec::new();
        for (waiter, life) in &self.lives.0 {
            for ((_, to), (at_ns, sighting)) in life.bounds().into_iter().zip(&life.sightings) {
                let Sighted::Waits(wait) = &sighting.doing else { continue };
                let queue = self.queue_of(sighting);
                let named = self.named(*waiter, wait, queue);
                let owner = named.or_else(|| self.guessed(&mut guesses, *at_ns, queue?));
                if let Some(owner) = owner {
                    let stack = self.stack(owner, *at_ns, queue);
                    held.push(Held { waiter: *waiter, owner, to, stack });
                }
            }
        }
        for wait in self.goroutines {
            let queue = self.of_locks.get(&LockAt::Futex(wait.semaphore)).copied();
            let owner = queue.and_then(|queue| self.guessed(&mut guesses, wait.at_ns, queue));
            if let Some(owner) = owner {
                let stack = self.stack(owner, wait.at_ns, queue);
                held.push(Held { waiter: wait.number, owner, to: wait.to, stack });
            }
        }
        held
    }

    /// The thread that the lock itself names. Where a thread of Java is parked, nothing names any.
    fn named(&self, waiter: u32, wait: &TracedWait, queue: Option<usize>) -> Option<u32> {
        futex_address(wait)?;
        let queue = queue.map(|queue| &self.queues[queue]);
        let by_words = if queue.is_some_and(|queue| queue.is_read_write) {
            writer_by_words(wait)
        } else {
            owner_by_words(wait, waiter)
        };
        by_words.filter(|owner| self.lives.0.contains_key(owner))
    }

    fn guessed(
        &self,
        guesses: &mut HashMap<(usize, u64), Option<u32>>,
        at_ns: u64,
        queue: usize,
    ) -> Option<u32> {
        *guesses.entry((queue, at_ns)).or_insert_with(|| self.guess(at_ns, queue))
    }

    /// The thread that does not wait for a lock at a round, and is in a function that takes it: of several the one that was
    /// seen there nearest to the round, as a lock may change hands between two samples, and rather one that waits for
    /// something other than a futex, as those that wait for the interpreter may do so on their way to the lock. If there is
    /// none, one that a caller of such functions keeps: they may be a lock of the program's own making. Where no stack shows one,
    /// it is a thread that uses the lock and could run, as no sample was taken of it that near.
    fn guess(&self, at_ns: u64, queue: usize) -> Option<u32> {
        if self.lives.0.len() > GUESSED_MAX {
            return None;
        }
        let inside = |task: &u32| {
            let (stack, away_ns) = self.stack_at(*task, at_ns, Some(queue))?;
            let distance = self.distance(stack, queue)?;
            Some(((distance, away_ns, self.waits_at_futex(*task, at_ns)), *task))
        };
        let mut inside: Vec<_> = self.lives.0.keys().filter_map(inside).collect();
        inside.sort_unstable();
        match inside[..] {
            [(_, task)] => Some(task),
            [(nearest, task), (next, _), ..] if nearest < next => Some(task),
            [] => self.runnable(at_ns, queue),
            _ => None,
        }
    }

    /// How far away from a function that takes a lock the stack of a thread is which has it: in one, or in a caller of it.
    fn distance(&self, stack: &TracedStack, queue: usize) -> Option<u8> {
        let Queue { takers, callers, is_kernel, .. } = &self.queues[queue];
        let frames = user_frames(self.trace, stack);
        let is_sample = stack.why == StackTaken::Sampled;
        let is_elsewhere = (*is_kernel && is_sample)
            || waits_for_java_lock(&frames, takers)
            || waits_without_lock(&frames, takers);
        let is_kept = || is_sample || !waits_for_others(&frames);
        match () {
            () if is_elsewhere => None,
            () if is_inside(&frames, takers) => Some(0),
            () if is_inside(&frames, callers) && is_kept() => Some(1),
            () => None,
        }
    }

    /// The thread that could run at a round, of those that use a lock: the one that runs most, if no sample shows where. If samples
    /// show all of them elsewhere, it is the one whose sample is the farthest away: nobody else is left.
    fn runnable(&self, at_ns: u64, queue: usize) -> Option<u32> {
        let key = |task: &u32| {
            let (index, sighting) = self.sighting(*task, at_ns)?;
            let could_run = matches!(sighting.doing, Sighted::Runnable(_));
            let sample = self.stack_at(*task, at_ns, Some(queue));
            let away_ns = sample.filter(|_| !self.queues[queue].is_kernel).map(|(_, away)| away);
            let share = self.lives.0.get(task)?.running_share(index);
            let parts = (share * 1e6) as u64;
            could_run.then_some(((away_ns.is_none(), away_ns.unwrap_or(parts)), *task))
        };
        let nearest = self.queues[queue].users.iter().filter_map(key).max();
        nearest.map(|(_, task)| task)
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

    /// The stack of a thread at a round, if it does not wait in this queue itself, and how far away in its CPU time that was
    /// taken.
    fn stack_at(
        &self,
        task: u32,
        at_ns: u64,
        queue: Option<usize>,
    ) -> Option<(&'s TracedStack, u64)> {
        let (found, sighting) = self.sighting(task, at_ns)?;
        match &sighting.doing {
            Sighted::Waits(_) if queue.is_some() && self.queue_of(sighting) == queue => None,
            Sighted::Waits(_) => Some((self.trace.stacks.get(sighting.stack?)?, 0)),
            Sighted::Runnable(_) => self.sample(task, found),
        }
    }

    /// The stack of a thread that has a lock at a round, from the function on that takes such a lock, if it is there. Where no
    /// stack shows it there, the nearest sample in such a function does; of a lock of the kernel, where it waited for it.
    fn stack(&self, task: u32, at_ns: u64, queue: Option<usize>) -> Option<TracedStack> {
        let known = queue.map(|queue| &self.queues[queue]);
        if let Some(queue) = known.filter(|queue| queue.is_kernel) {
            let own = queue.waited.get(&task).or_else(|| queue.waited.values().next());
            return own.map(|stack| (*stack).clone());
        }
        let takes = |function: &&TracedFunction| {
            known.is_some_and(|queue| queue.takers.contains(&function.name))
        };
        let nearest_inside = || {
            let inside = self
                .samples
                .get(&task)?
                .iter()
                .filter(|stack| user_frames(self.trace, stack).iter().any(takes));
            inside.min_by_key(|stack| stack.at_ns.abs_diff(at_ns)).copied()
        };
        let at = self.stack_at(task, at_ns, queue).map(|(stack, _)| stack);
        let stack = at.or_else(nearest_inside)?;
        let frames = user_frames(self.trace, stack);
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

fn is_inside(frames: &[&TracedFunction], takers: &BTreeSet<String>) -> bool {
    frames.iter().any(|function| takers.contains(&function.name))
}

/// Whether a thread waits for clients or for other threads.
fn waits_for_others(frames: &[&TracedFunction]) -> bool {
    const CALLS: [&str; 12] = [
        "accept",
        "recv",
        "__recv",
        "read",
        "__read",
        "epoll_wait",
        "epoll_pwait",
        "poll",
        "__poll",
        "select",
        "pselect",
        "ppoll",
    ];
    let first = frames.first().filter(|function| is_c_library(&function.object));
    first.is_some_and(|function| CALLS.iter().any(|call| function.name.starts_with(call)))
        || kind_by_stack(frames) == Some(WaitKind::Condition)
}

/// Whether a thread waits at a condition in a function that takes this lock: it has given the lock back for so long. Threads of
/// Java sleep at one, and keep their locks.
fn waits_without_lock(frames: &[&TracedFunction], takers: &BTreeSet<String>) -> bool {
    let sleeps = |function: &&TracedFunction| function.name.starts_with("java.lang.Thread.sleep");
    waits_at_condition_variable(frames)
        && !frames.iter().any(sleeps)
        && place(frames).is_some_and(|place| takers.contains(&place.function))
}

/// Whether a thread of Java waits for the lock itself that is taken in these functions, at a place of its own.
fn waits_for_java_lock(frames: &[&TracedFunction], takers: &BTreeSet<String>) -> bool {
    let is_lock = matches!(java_wait(frames), Some(JavaWait::Lock(..)));
    is_lock && place(frames).is_some_and(|place| takers.contains(&place.function))
}

/// The address of the futex that a thread waits at.
fn futex_of(sighting: &Sighting) -> Option<u64> {
    match &sighting.doing {
        Sighted::Waits(wait) => futex_address(wait),
        Sighted::Runnable(_) => None,
    }
}

/// Where a thread waits for a lock; 0 if it waits for none.
fn waits_at(wait: &TracedWait) -> u64 {
    if wait.lock == 0 { futex_address(wait).unwrap_or(0) } else { wait.lock }
}

fn futex_address(wait: &TracedWait) -> Option<u64> {
    (wait.call == "futex").then_some(wait.arguments[0])
}
