//! Locks: who waits, where, for how long, and what the thread that has the lock does meanwhile.
//!
//! Only waits and wake-ups are seen, never that a lock is taken at once. The thread that ends a wait by futex(2) is the
//! one that had the lock; for a lock of the kernel, the one that ran where the wake-up came from:
//!
//!     waiters:      |---- a waits -------------|
//!                           |---- b waits ------------------|
//!     wake-ups:                    by c (a)               by a (b)
//!     had by:       |<------- c -------------->|<--- a ---->|       and what c and a did meanwhile
//!
//! Until the wake-up that ends a piece, its thread is taken to have had the lock since the wake-up before: another that
//! had it in between, without waiting, is not seen.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use records::live::{
    HolderState, HolderTime, LockPlace, OWN_THREADS, ObservedLock, Trace, TracedFunction,
    TracedStack, TracedWait, WORK_QUEUE, WaitKind, WaitsOn, Woken,
};

use self::goroutines::goroutine_waits;
use self::java::by_java_locks;
use self::split::{Holders, fill, split_overtaken, split_running};
use self::weighed::{Weighed, where_taken};
use crate::java_locks::JavaWait;
use crate::places::{
    ALLOCATOR_LOCK, database_lock, is_database_lock, kernel_frames, kernel_place, kind_by_stack,
    kind_by_values, place, user_frames, waits_for_work,
};
use crate::python::is_python;
use crate::timelines::{Behind, Doing, Timelines, before, during, is_wake_up};
use crate::waits::{StackIndex, is_disk_call, is_file_lock};
use crate::windows::Windows;

/// The locks, and which of them each wait is for.
pub struct Locks {
    pub locks: Vec<ObservedLock>,
    /// By process and address: a lock, or `None` for a condition.
    of: HashMap<(u32, u64), Option<usize>>,
    /// The conditions, by process and address, at which threads wait for work.
    queues: BTreeSet<(u32, u64)>,
    /// By address in the kernel.
    of_kernel: HashMap<u64, usize>,
    /// Waits for locks of a database and of files, by the thread and when they begin.
    of_calls: HashMap<(u32, u64), usize>,
    /// Waits of Java, by the thread and when they begin: for a lock, or `None` for a condition.
    of_java: BTreeMap<(u32, u64), Option<usize>>,
}

/// A wait for a lock.
struct LockWait<'t> {
    task: u32,
    from: u64,
    /// When it is woken.
    to: u64,
    /// When it runs again, if only an idle CPU took its time for that: till then it cannot take the lock.
    awake: u64,
    woken: Option<Woken>,
    /// Absent for a goroutine.
    wait: Option<&'t TracedWait>,
    stack: Option<&'t TracedStack>,
}

/// Waits for locks of one name.
struct LockWaits<'t> {
    /// Processes and addresses of the futex words, or of locks of the kernel, whose process is 0: a read-write lock has two
    /// words, and processes may share one.
    places: Vec<(u32, u64)>,
    at: WaitsAt,
    /// What a program in Java waits for.
    java: Option<JavaWait>,
    /// By the time at which they begin.
    waits: Vec<LockWait<'t>>,
}

/// What threads wait at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WaitsAt {
    Futex,
    Kernel,
    /// Another process sets the latch of one that waits, and sends it a signal.
    Latch,
    /// A file that somebody has locked; its address is the number of the open file.
    File,
}

impl Locks {
    /// Finds the locks of a trace.
    pub fn find(trace: &Trace, lives: &Timelines, stacks: &StackIndex, windows: &Windows) -> Locks {
        let mut found = Locks {
            locks: Vec::new(),
            of: HashMap::new(),
            queues: BTreeSet::new(),
            of_kernel: HashMap::new(),
            of_calls: HashMap::new(),
            of_java: BTreeMap::new(),
        };
        let mut named: BTreeMap<(String, WaitKind), LockWaits> = BTreeMap::new();
        for group in groups(trace, lives, stacks) {
            let kind = group.kind(trace);
            if kind == WaitKind::Condition {
                found.insert(&group, None);
                if group.waits_for_work(trace) {
                    found.queues.insert(group.places[0]);
                }
                continue;
            }
            let name = group.name(trace, kind);
            match named.entry((name, kind)) {
                Entry::Occupied(mut known) => known.get_mut().add(group),
                Entry::Vacant(place) => drop(place.insert(group)),
            }
        }
        for (index, ((name, kind), group)) in named.iter().enumerate() {
            found.insert(group, Some(index));
            let (name, process) = (name.clone(), group.places[0].0);
            found.locks.push(ObservedLock {
                name,
                kind: *kind,
                process,
                ..ObservedLock::default()
            });
        }
        for (index, group) in named.values().enumerate() {
            let seen = Seen { trace, lives, stacks, windows, locks: &found };
            let ObservedLock { name, kind, process, .. } = found.locks[index].clone();
            let observed = group.observed(&seen, kind);
            found.locks[index] = ObservedLock { name, kind, process, ..observed };
        }
        found
    }

    /// Notes what the waits of a group are for: a lock, or `None` for a condition.
    fn insert(&mut self, group: &LockWaits, lock: Option<usize>) {
        let waits = || group.waits.iter().map(|wait| (wait.task, wait.from));
        if group.java.is_some() {
            self.of_java.extend(waits().map(|wait| (wait, lock)));
            return;
        }
        match (group.at, lock) {
            (WaitsAt::Futex, _) => self.of.extend(group.places.iter().map(|place| (*place, lock))),
            (WaitsAt::Kernel, Some(lock)) => {
                self.of_kernel.extend(group.places.iter().map(|place| (place.1, lock)));
            }
            (WaitsAt::Latch | WaitsAt::File, Some(lock)) => {
                self.of_calls.extend(waits().map(|wait| (wait, lock)))
            }
            (WaitsAt::Kernel | WaitsAt::Latch | WaitsAt::File, None) => {}
        }
    }

    /// The lock of a database, or on a file, that a wait is for.
    pub fn of_call(&self, task: u32, from: u64) -> Option<usize> {
        self.of_calls.get(&(task, from)).copied()
    }

    /// The lock that a thread waits for at some time: `None` if it is for no lock and no condition, `Some(None)` for a
    /// condition.
    pub fn of_wait(
        &self,
        (task, process): (u32, u32),
        at_ns: u64,
        wait: &TracedWait,
    ) -> Option<Option<usize>> {
        if wait.on == WaitsOn::Stopped {
            return None;
        }
        if wait.lock != 0 {
            return self.of_kernel.get(&wait.lock).map(|index| Some(*index));
        }
        let java = || {
            let mut begun = self.of_java.range((task, 0)..=(task, at_ns));
            begun.next_back().and_then(|(_, lock)| *lock)
        };
        let known = || self.of.get(&(process, wait.arguments[0])).copied();
        wait.call.starts_with("futex").then(|| known().unwrap_or_else(java))
    }
}

/// What finding out about a lock needs.
struct Seen<'s, 't> {
    trace: &'t Trace,
    lives: &'s Timelines<'t>,
    stacks: &'s StackIndex<'t>,
    windows: &'s Windows,
    locks: &'s Locks,
}

/// All waits at futexes and for kernel locks, by address.
fn groups<'t>(
    trace: &'t Trace,
    lives: &Timelines<'t>,
    stacks: &StackIndex<'t>,
) -> Vec<LockWaits<'t>> {
    let mut groups: BTreeMap<(WaitsAt, u32, u64), LockWaits> = BTreeMap::new();
    let waiters = waiters_at_latches(trace, stacks);
    for (task, segments) in lives {
        let Some(process) = trace.tasks.get(task).map(|task| task.process) else { continue };
        for (index, segment) in segments.iter().enumerate() {
            let Doing::Waits(wait, woken) = &segment.what else { continue };
            let next = segments.get(index + 1).filter(|next| is_wake_up(segment, next));
            let is_latch = || {
                let stack = stacks.of_wait(*task, segment.from);
                waiters.contains(task)
                    && stack.map_or(woken.is_some_and(|woken| woken.by_signal), |stack| {
                        is_database_lock(&user_frames(trace, stack))
                    })
            };
            let (at, process, address) = match wait.lock {
                // It waits for whoever stopped it, whatever call that interrupted.
                _ if wait.on == WaitsOn::Stopped => continue,
                0 if wait.call.starts_with("futex") => (WaitsAt::Futex, process, wait.arguments[0]),
                0 if is_file_lock(wait) => (WaitsAt::File, process, wait.arguments[0]),
                0 if is_latch() => (WaitsAt::Latch, 0, 0),
                0 => continue,
                lock => (WaitsAt::Kernel, 0, lock),
            };
            let group = groups.entry((at, process, address)).or_insert_with(|| LockWaits {
                places: vec![(process, address)],
                at,
                java: None,
                waits: Vec::new(),
            });
            group.waits.push(LockWait {
                task: *task,
                from: segment.from,
                to: segment.to,
                awake: next.map_or(segment.to, |next| next.to),
                woken: *woken,
                wait: Some(wait),
                stack: stacks.of_wait(*task, segment.from),
            });
        }
    }
    for (process, address, wait) in goroutine_waits(trace, stacks) {
        let place = (WaitsAt::Futex, process, address);
        let group = groups.entry(place).or_insert_with(|| LockWaits {
            places: vec![(process, address)],
            at: WaitsAt::Futex,
            java: None,
            waits: Vec::new(),
        });
        group.waits.push(wait);
    }
    if trace.switches.is_empty() {
        join_read_write_words(&mut groups, trace);
    }
    let mut groups: Vec<LockWaits> = groups.into_values().collect();
    groups.iter_mut().for_each(|group| group.waits.sort_by_key(|wait| wait.from));
    by_java_locks(groups, trace, stacks)
}

/// How far apart the words are at which readers and writers of one lock wait, in bytes: in Rust its state and the count of
/// notified writers (library/std/src/sys/sync/rwlock/futex.rs), in the C library its phase and its writers (glibc,
/// sysdeps/nptl/bits/struct_rwlock.h).
pub const READ_WRITE_WORDS_APART: u64 = 4;

/// Puts the waits at both words of a read-write lock together. Where switches are followed, wake-ups tell who has which.
fn join_read_write_words(groups: &mut BTreeMap<(WaitsAt, u32, u64), LockWaits>, trace: &Trace) {
    let is_read_write = |group: &LockWaits| group.kind(trace) == WaitKind::ReadWriteLock;
    let of_words = |((at, _, _), group): &(&(WaitsAt, u32, u64), &LockWaits)| {
        *at == WaitsAt::Futex && is_read_write(group)
    };
    let words: BTreeSet<_> = groups.iter().filter(of_words).map(|(place, _)| *place).collect();
    for (at, process, word) in &words {
        let second = (*at, *process, word + READ_WRITE_WORDS_APART);
        // The word of another lock may follow.
        if !groups.contains_key(&(*at, *process, *word)) || !words.contains(&second) {
            continue;
        }
        let writers = groups.remove(&second);
        if let (Some(lock), Some(writers)) = (groups.get_mut(&(*at, *process, *word)), writers) {
            lock.add(writers);
        }
    }
}

/// The one thing that there is; `None` if there are none or several.
pub fn only<T>(mut things: impl Iterator<Item = T>) -> Option<T> {
    let first = things.next();
    first.filter(|_| things.next().is_none())
}

/// The threads that were seen to wait for a lock of a database.
fn waiters_at_latches(trace: &Trace, stacks: &StackIndex) -> BTreeSet<u32> {
    let waits = stacks.waits().filter(|stack| is_database_lock(&user_frames(trace, stack)));
    waits.map(|stack| stack.task).collect()
}

impl<'t> LockWaits<'t> {
    /// The kind that most stacks tell, or the values at the address.
    fn kind(&self, trace: &Trace) -> WaitKind {
        match self.at {
            WaitsAt::Kernel => return WaitKind::Kernel,
            WaitsAt::Latch => return WaitKind::Database,
            WaitsAt::File => return WaitKind::File,
            WaitsAt::Futex => {}
        }
        if let Some(java) = &self.java {
            return java.kind();
        }
        let mut counts: BTreeMap<WaitKind, u64> = BTreeMap::new();
        for wait in &self.waits {
            let kind = wait.stack.and_then(|stack| kind_by_stack(&user_frames(trace, stack)));
            if let Some(kind) = kind {
                *counts.entry(kind).or_default() += 1;
            }
        }
        let by_stacks = counts.into_iter().max_by_key(|(_, times)| *times).map(|(kind, _)| kind);
        let kind =
            by_stacks.unwrap_or_else(|| self.waits[0].wait.map_or(WaitKind::Mutex, kind_by_values));
        match kind {
            WaitKind::Semaphore if !self.is_handed_on(trace) => WaitKind::Condition,
            kind => kind,
        }
    }

    /// Whether threads that wait here also give back what they waited for, as with a lock.
    ///
    /// At a queue of work, others wake those that wait, or nobody does while there is none: a pool of CPython. A semaphore that
    /// only one thread ever waits for is how a runtime puts that thread to sleep: CPython's conditions.
    fn is_handed_on(&self, trace: &Trace) -> bool {
        let waiters: BTreeSet<u32> = self.waits.iter().map(|wait| wait.task).collect();
        let mut releasers = self.waits.iter().filter_map(|wait| self.releaser(wait));
        let is_followed = !trace.switches.is_empty();
        let is_seen_to_be = !is_followed && !self.waits_of_all(waiters.len());
        waiters.len() > 1 && (is_seen_to_be || releasers.any(|task| waiters.contains(&task)))
    }

    /// Whether all threads that ever wait here often do so at once: then none of them has what the others wait for.
    ///
    /// What is seen in /proc has no wake-ups. Threads are looked at one after the other, so that two which take turns with a
    /// lock may both be seen to wait.
    fn waits_of_all(&self, waiters: usize) -> bool {
        const OFTEN: f64 = 0.3;
        let begun = self.waits.iter().map(|wait| (wait.from, 1_i64));
        let ended = self.waits.iter().map(|wait| (wait.to, -1_i64));
        let mut changes: Vec<(u64, i64)> = begun.chain(ended).collect();
        changes.sort_unstable();
        let (mut any_ns, mut all_ns, mut waiting, mut since) = (0, 0, 0, 0);
        for (at, change) in changes {
            any_ns += if waiting > 0 { at - since } else { 0 };
            all_ns += if waiting == waiters as i64 { at - since } else { 0 };
            (waiting, since) = (waiting + change, at);
        }
        all_ns as f64 > OFTEN * any_ns as f64
    }

    /// The stacks of waits that tell who waits: of the interpreter's own functions none does, where others have the program's.
    fn telling(&self, trace: &Trace) -> impl Iterator<Item = (&LockWait<'t>, &'t TracedStack)> {
        let has_python = |stack: &TracedStack| {
            user_frames(trace, stack).iter().any(|function| is_python(function))
        };
        let stacks = || self.waits.iter().filter_map(|wait| Some((wait, wait.stack?)));
        let is_of_python = stacks().any(|(_, stack)| has_python(stack));
        stacks().filter(move |(_, stack)| !is_of_python || has_python(stack))
    }

    fn waits_for_work(&self, trace: &Trace) -> bool {
        let mut stacks = self.waits.iter().filter_map(|wait| wait.stack);
        stacks.any(|stack| waits_for_work(&user_frames(trace, stack)))
    }

    /// Adds the waits for another lock of the same name.
    fn add(&mut self, other: LockWaits<'t>) {
        self.places.extend(other.places);
        self.waits.extend(other.waits);
        self.waits.sort_by_key(|wait| wait.from);
    }

    /// The variable, or what it is and where it is waited for.
    fn name(&self, trace: &Trace, kind: WaitKind) -> String {
        let variable = trace.variables.get(&self.places[0]);
        match (kind, variable) {
            (WaitKind::Interpreter, _) => return "the interpreter's lock (GIL)".to_string(),
            (WaitKind::Allocator, _) => return ALLOCATOR_LOCK.to_string(),
            (_, Some(variable)) => return variable.clone(),
            _ => {}
        }
        let places = self.telling(trace).filter_map(|(_, stack)| match kind {
            WaitKind::Kernel => kernel_place(&kernel_frames(trace, stack)),
            _ => place(&user_frames(trace, stack)).map(|place| place.function),
        });
        let of_database = || {
            let stacks = self.waits.iter().filter_map(|wait| wait.stack);
            most_frequent(stacks.map(|s| database_lock(&user_frames(trace, s)).to_string()))
        };
        let of_database = if kind == WaitKind::Database { of_database() } else { None };
        let of_java = match &self.java {
            Some(JavaWait::Lock(_, class)) => Some(class.as_str()),
            _ => None,
        };
        let what = match kind {
            _ if of_java.is_some() => of_java.unwrap_or_default(),
            _ if of_database.is_some() => of_database.as_deref().unwrap_or_default(),
            WaitKind::Mutex => "mutex",
            WaitKind::ReadWriteLock => "read-write lock",
            WaitKind::Semaphore => "semaphore",
            WaitKind::File => "file lock",
            WaitKind::Kernel => "kernel lock",
            _ => "lock",
        };
        match most_frequent(places) {
            Some(place) => format!("{what} waited for in {place}"),
            None => format!("{what} at {:#x}", self.places[0].1),
        }
    }

    fn observed(&self, seen: &Seen<'_, 't>, kind: WaitKind) -> ObservedLock {
        let pieces = self.pieces(seen, kind);
        let waited = Weighed::new(self.telling(seen.trace).filter_map(|(wait, stack)| {
            let frames = user_frames(seen.trace, stack);
            Some((self.place_of(seen.trace, stack, &frames)?, wait.awake - wait.from))
        }));
        let given_back = Weighed::new(pieces.iter().filter_map(|piece| {
            let stack = seen.stacks.of_wake_up(piece.holder?, piece.to)?;
            let frames = user_frames(seen.trace, stack);
            Some((self.place_of(seen.trace, stack, &frames)?, piece.to - piece.from))
        }));
        let (mut wait_ns, mut waits_begun) = (seen.windows.zeros(), seen.windows.zeros());
        for wait in &self.waits {
            seen.windows.count(&mut waits_begun, wait.from);
            seen.windows.add(&mut wait_ns, wait.from, wait.awake);
        }
        let mut contended_ns = seen.windows.zeros();
        for piece in &pieces {
            seen.windows.add(&mut contended_ns, piece.from, piece.to);
        }
        let waited_in = waited.places(wait_ns.iter().sum());
        let contended = contended_ns.iter().sum();
        let held_in = where_taken(given_back.places(contended), &waited_in, self.java.is_some());
        let used_in = used_in(seen.trace, &waited_in, &held_in);
        ObservedLock {
            address: self.places[0].1,
            locks: self.places.len() as u64,
            waits: self.waits.len() as u64,
            waits_begun,
            wait_ns,
            contended_ns,
            holder: self.holders(seen, &pieces, &used_in),
            held_in,
            waited_in,
            ..ObservedLock::default()
        }
    }

    fn place_of(
        &self,
        trace: &Trace,
        stack: &TracedStack,
        frames: &[&TracedFunction],
    ) -> Option<LockPlace> {
        let of_program = place(frames);
        if self.at != WaitsAt::Kernel {
            return of_program;
        }
        let function = kernel_place(&kernel_frames(trace, stack))?;
        let callers = of_program.into_iter().map(|place| place.function).collect();
        Some(LockPlace { function, callers, times: 0, ns: 0 })
    }

    /// The times in which at least one thread waited, cut at wake-ups, each with the thread that had the lock: one that is woken
    /// is taken to have it from then on.
    fn pieces(&self, seen: &Seen<'_, 't>, kind: WaitKind) -> Vec<Piece> {
        let mut wake_ups: Vec<(u64, u32)> =
            self.waits.iter().filter_map(|wait| Some((wait.to, self.releaser(wait)?))).collect();
        wake_ups.sort_unstable();
        wake_ups.dedup();
        let mut pieces = Vec::new();
        let mut until = 0;
        for wait in &self.waits {
            let mut from = wait.from.max(until);
            let first = wake_ups.partition_point(|(at, _)| *at <= from);
            for (at, by) in wake_ups[first..].iter().take_while(|(at, _)| *at <= wait.to) {
                pieces.push(Piece { from, to: *at, holder: Some(*by) });
                from = *at;
            }
            let owner = || {
                let seen = seen.stacks.owner(wait.task, wait.to);
                let named = seen.or_else(|| self.owner(wait, kind));
                named.or_else(|| gives_later(&wake_ups, wait.to).filter(|_| is_timed(kind)))
            };
            if from < wait.to {
                pieces.push(Piece { from, to: wait.to, holder: owner() });
            }
            until = until.max(wait.to);
            if until < wait.awake {
                // One whose time is over is woken, and has nothing.
                let holder = self.releaser(wait).map(|_| wait.task).or_else(owner);
                pieces.push(Piece { from: until, to: wait.awake, holder });
                until = wait.awake;
            }
        }
        pieces
    }

    /// The owner that a mutex of the C library names, eight bytes behind its futex word (glibc,
    /// sysdeps/nptl/bits/struct_mutex.h), or one with priority inheritance in the word itself (futex(2)), or the one that
    /// writes.
    fn owner(&self, wait: &LockWait, kind: WaitKind) -> Option<u32> {
        let words = wait.wait.filter(|_| self.java.is_none())?;
        match kind {
            WaitKind::Mutex => owner_by_words(words, wait.task),
            WaitKind::ReadWriteLock => writer_by_words(words),
            _ => None,
        }
    }

    /// The thread that gave the lock back, if its wake-up shows it.
    fn releaser(&self, wait: &LockWait) -> Option<u32> {
        let woken = wait.woken?;
        let gave = match woken.futex {
            _ if matches!(self.at, WaitsAt::Kernel | WaitsAt::File) => {
                woken.waker != 0 && woken.waker != wait.task
            }
            _ if self.at == WaitsAt::Latch => woken.by_signal,
            Some(address) => self.places.iter().any(|(_, known)| *known == address),
            None => false,
        };
        gave.then_some(woken.waker)
    }

    /// What the threads that had the lock did while others waited.
    fn holders(
        &self,
        seen: &Seen<'_, 't>,
        pieces: &[Piece],
        used_in: &BTreeSet<&str>,
    ) -> Vec<HolderTime> {
        let mut holders = Holders::new();
        let mut add = |state: HolderState, by: String, from: u64, to: u64| {
            let ns = holders.entry((state, by)).or_insert_with(|| seen.windows.zeros());
            seen.windows.add(ns, from, to);
        };
        let (mut samples, mut behind_own, mut wakes_up) = (Vec::new(), Vec::new(), Vec::new());
        for piece in pieces {
            let life = piece.holder.and_then(|holder| seen.lives.get(&holder));
            let Some(life) = life else {
                add(HolderState::Unknown, String::new(), piece.from, piece.to);
                continue;
            };
            let holder = piece.holder.unwrap_or_default();
            let mut before = before(life, piece.from);
            for (from, to, what) in during(life, piece.from, piece.to) {
                let weight = seen.stacks.weight(holder, matches!(what, Doing::Waits(..)));
                let to = from + ((to - from) as f64 * weight) as u64;
                let (state, by) = if self.is_overtaken(before, what) {
                    (HolderState::Running, String::new())
                } else {
                    self.did(seen, (holder, from), what)
                };
                match state {
                    HolderState::Preempted if by == OWN_THREADS => behind_own.push((from, to)),
                    HolderState::WakeUp => wakes_up.push((from, to)),
                    _ => {}
                }
                // What ran was in page faults first: only how long is known.
                let faults =
                    if state == HolderState::Running { seen.stacks.faulting(holder) } else { 0.0 };
                let ran = from + ((to - from) as f64 * faults) as u64;
                if ran > from {
                    add(HolderState::PageFault, String::new(), from, ran);
                }
                add(state, by, ran, to);
                before = Some(what);
            }
            samples.extend(seen.stacks.samples(holder, piece.from, piece.to));
        }
        if seen.stacks.is_weighed() {
            fill(&mut holders, seen.windows, pieces);
        }
        split_running(&mut holders, seen.trace, &samples);
        let preempted = (HolderState::Preempted, OWN_THREADS);
        split_overtaken(&mut holders, seen.trace, (preempted, &behind_own), used_in);
        split_overtaken(&mut holders, seen.trace, ((HolderState::WakeUp, ""), &wakes_up), used_in);
        let time = |((reason, by), ns)| HolderTime { reason, by, ns };
        let mut times: Vec<HolderTime> = holders.into_iter().map(time).collect();
        times.sort_by_key(|time| std::cmp::Reverse(time.ns.iter().sum::<u64>()));
        times
    }

    /// Whether another thread has this lock of the kernel while the one that was woken for it could run: threads of its own
    /// program on the CPUs spin for the lock, and get it before one that was woken (kernel/locking/mutex.c,
    /// `__mutex_trylock`; rwsem.c, `rwsem_optimistic_spin`).
    fn is_overtaken(&self, before: Option<&Doing>, what: &Doing) -> bool {
        let is_this = |lock| self.places.iter().any(|(_, place)| *place == lock);
        let waited = matches!(before, Some(Doing::Waits(wait, _)) if is_this(wait.lock));
        self.at == WaitsAt::Kernel && waited && matches!(what, Doing::CouldRun(Behind::Own))
    }

    fn did(&self, seen: &Seen, (holder, at_ns): (u32, u64), what: &Doing) -> (HolderState, String) {
        let (wait, process) = match what {
            Doing::Runs => return (HolderState::Running, String::new()),
            Doing::CouldRun(Behind::Own) => {
                return (HolderState::Preempted, OWN_THREADS.to_string());
            }
            Doing::CouldRun(Behind::Other(name)) => {
                return (HolderState::Preempted, (*name).to_string());
            }
            Doing::CouldRun(Behind::Quota) => return (HolderState::Quota, String::new()),
            Doing::CouldRun(Behind::Idle) => return (HolderState::WakeUp, String::new()),
            Doing::Waits(wait, _) => {
                (wait, seen.trace.tasks.get(&holder).map_or(0, |task| task.process))
            }
        };
        match seen.locks.of_wait((holder, process), at_ns, wait) {
            Some(Some(lock)) => {
                return (HolderState::Lock, seen.locks.locks[lock].name.clone());
            }
            Some(None) if seen.locks.queues.contains(&(process, wait.arguments[0])) => {
                return (HolderState::Sleeping, WORK_QUEUE.to_string());
            }
            Some(None) => return (HolderState::Sleeping, "futex".to_string()),
            None => {}
        }
        match wait.on {
            WaitsOn::Memory => (HolderState::PageFault, "memory reclaim".to_string()),
            WaitsOn::Stopped => {
                (HolderState::Sleeping, "stopped by a signal or a debugger".to_string())
            }
            _ if wait.call.is_empty() => (HolderState::PageFault, String::new()),
            WaitsOn::Disk => (HolderState::InputOutput, wait.call.clone()),
            WaitsOn::Call if is_disk_call(&wait.call) => {
                (HolderState::InputOutput, wait.call.clone())
            }
            _ => (HolderState::Sleeping, wait.call.clone()),
        }
    }
}

/// The functions in which threads use a lock: those that wait for it, and where no wake-up shows more, those that were
/// often found to have it. One that writes may hardly ever wait, while those that read always do.
fn used_in<'p>(
    trace: &Trace,
    waited_in: &'p [LockPlace],
    held_in: &'p [LockPlace],
) -> BTreeSet<&'p str> {
    const OFTEN: u64 = 10;
    let all: u64 = held_in.iter().map(|place| place.ns).sum();
    let is_often = |place: &&LockPlace| trace.switches.is_empty() && place.ns * OFTEN >= all;
    let places = waited_in.iter().chain(held_in.iter().filter(is_often));
    places.map(|place| place.function.as_str()).collect()
}

/// Whether threads wait for a lock for some milliseconds at a time, again and again: CPython's for its interpreter
/// (Python/ceval_gil.c, `take_gil`).
fn is_timed(kind: WaitKind) -> bool {
    kind == WaitKind::Interpreter
}

/// The thread that is the next to give a lock back, if it does so soon: it has had the lock since.
fn gives_later(wake_ups: &[(u64, u32)], at: u64) -> Option<u32> {
    const SOON_NS: u64 = 100_000_000;
    let (given_ns, by) = wake_ups.get(wake_ups.partition_point(|(given, _)| *given <= at))?;
    (given_ns - at <= SOON_NS).then_some(*by)
}

/// A part of the time in which threads waited.
struct Piece {
    from: u64,
    to: u64,
    holder: Option<u32>,
}

/// The owner of what a task waits for, if it is a mutex.
pub fn owner_by_words(wait: &TracedWait, task: u32) -> Option<u32> {
    const FUTEX_TID_MASK: u32 = 0x3fff_ffff;
    let in_word = wait.words[0] & FUTEX_TID_MASK;
    let owner = if in_word > 2 { in_word } else { wait.words[2] };
    (owner != 0 && owner != task).then_some(owner)
}

/// The thread that has a read-write lock of the C library to write: behind the futex of its phases, or behind that of its
/// writers (glibc, sysdeps/nptl/bits/struct_rwlock.h: they lie 8 and 12 bytes behind the lock, the writer 24).
pub fn writer_by_words(wait: &TracedWait) -> Option<u32> {
    wait.words[3..].iter().copied().find(|writer| *writer > 1)
}

fn most_frequent(names: impl Iterator<Item = String>) -> Option<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    names.for_each(|name| *counts.entry(name).or_default() += 1);
    counts.into_iter().max_by_key(|(_, times)| *times).map(|(name, _)| name)
}

mod goroutines;
mod java;
mod split;
#[cfg(test)]
mod tests;
mod weighed;
