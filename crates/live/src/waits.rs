//! Waits of threads that are not for locks, and the stacks that belong to waits.

use std::collections::{BTreeMap, HashMap};

use records::live::{StackTaken, ThreadState, Trace, TracedStack, TracedWait, WaitsOn};
use records::sampled::Samples;

use crate::goroutines::GoroutineWait;

/// A thread that has what another waits for.
pub struct Held {
    pub waiter: u32,
    pub owner: u32,
    /// Until when the sighting of the waiter counts.
    pub to: u64,
    /// The owner's stack then.
    pub stack: Option<TracedStack>,
}

/// Stacks by the thread, the time and the reason.
pub struct StackIndex<'t> {
    waits: HashMap<(u32, u64), &'t TracedStack>,
    wake_ups: HashMap<(u32, u64), &'t TracedStack>,
    /// Samples of each thread, by time.
    samples: HashMap<u32, Vec<&'t TracedStack>>,
    /// Who has what a thread waits for, by the waiter and until when it was seen to wait; only of sightings.
    owners: HashMap<(u32, u64), u32>,
    /// Goroutines that were sighted to wait.
    goroutines: &'t [GoroutineWait<'t>],
    /// The share of each thread's CPU time in page faults, where its samples do not show it.
    faulting: BTreeMap<u32, f64>,
    /// How much a sighting of each thread counts that could run, and one that waits.
    weights: BTreeMap<u32, [f64; 2]>,
}

impl<'t> StackIndex<'t> {
    pub fn new(trace: &'t Trace) -> StackIndex<'t> {
        let of = |why: StackTaken| {
            let stacks = trace.stacks.iter().filter(move |stack| stack.why == why);
            stacks.map(|stack| ((stack.task, stack.at_ns), stack)).collect()
        };
        let mut samples: HashMap<u32, Vec<&TracedStack>> = HashMap::new();
        for stack in trace.stacks.iter().filter(|stack| stack.why == StackTaken::Sampled) {
            samples.entry(stack.task).or_default().push(stack);
        }
        StackIndex {
            waits: of(StackTaken::Waits),
            wake_ups: of(StackTaken::Wakes),
            samples,
            owners: HashMap::new(),
            goroutines: &[],
            faulting: BTreeMap::new(),
            weights: BTreeMap::new(),
        }
    }

    /// Stacks of waits by when they begin, and of threads that have what others wait for; samples are those of the trace.
    pub fn of_sightings(
        mut waits: HashMap<(u32, u64), &'t TracedStack>,
        held: &'t [Held],
        goroutines: &'t [GoroutineWait<'t>],
        samples: &'t Samples,
        weights: BTreeMap<u32, [f64; 2]>,
    ) -> StackIndex<'t> {
        waits.extend(goroutines.iter().filter_map(|g| Some(((g.number, g.from), g.stack?))));
        let stack = |held: &'t Held| Some(((held.owner, held.to), held.stack.as_ref()?));
        StackIndex {
            waits,
            wake_ups: held.iter().filter_map(stack).collect(),
            owners: held.iter().map(|held| ((held.waiter, held.to), held.owner)).collect(),
            goroutines,
            weights,
            faulting: samples.faulting.clone(),
            ..StackIndex::new(&samples.trace)
        }
    }

    /// Who has what a thread was seen to wait for until then.
    pub fn owner(&self, waiter: u32, to: u64) -> Option<u32> {
        self.owners.get(&(waiter, to)).copied()
    }

    /// The share of a thread's CPU time in page faults, as far as only its counters show it.
    pub fn faulting(&self, task: u32) -> f64 {
        self.faulting.get(&task).copied().unwrap_or(0.0)
    }

    /// Whether sightings count for more or less than the time for which they stand.
    pub fn is_weighed(&self) -> bool {
        !self.weights.is_empty()
    }

    /// How much the time of a thread counts in which it was sighted to wait, or not to: 1 is whole.
    pub fn weight(&self, task: u32, waits: bool) -> f64 {
        self.weights.get(&task).map_or(1.0, |weights| weights[usize::from(waits)])
    }

    /// Goroutines that were sighted to wait.
    pub fn goroutines(&self) -> &'t [GoroutineWait<'t>] {
        self.goroutines
    }

    /// All stacks of waits.
    pub fn waits(&self) -> impl Iterator<Item = &'t TracedStack> {
        self.waits.values().copied()
    }

    /// The stack of a thread that began to wait then, if one was taken.
    pub fn of_wait(&self, task: u32, from: u64) -> Option<&'t TracedStack> {
        self.waits.get(&(task, from)).copied()
    }

    /// The stack of a thread that woke another then, if one was taken.
    pub fn of_wake_up(&self, task: u32, at: u64) -> Option<&'t TracedStack> {
        self.wake_ups.get(&(task, at)).copied()
    }

    /// The samples of a thread in a time.
    pub fn samples(&self, task: u32, from: u64, to: u64) -> &[&'t TracedStack] {
        let Some(all) = self.samples.get(&task) else { return &[] };
        let first = all.partition_point(|stack| stack.at_ns < from);
        let end = all.partition_point(|stack| stack.at_ns < to);
        &all[first..end.max(first)]
    }

    /// All samples of a thread.
    pub fn all_samples(&self, task: u32) -> &[&'t TracedStack] {
        self.samples.get(&task).map_or(&[], Vec::as_slice)
    }
}

/// The state of a thread in a wait that is for no lock and no condition.
pub fn state(wait: &TracedWait) -> ThreadState {
    let call = || wait.call.clone();
    match wait.on {
        WaitsOn::Memory => ThreadState::Reclaim,
        WaitsOn::Stopped => ThreadState::Stopped,
        WaitsOn::Disk if wait.call.is_empty() => ThreadState::Disk("page fault".to_string()),
        WaitsOn::Disk => ThreadState::Disk(call()),
        WaitsOn::Pipe => ThreadState::Call(format!("{} of a pipe", wait.call)),
        WaitsOn::Socket => ThreadState::Call(format!("{} of a socket", wait.call)),
        WaitsOn::Device if wait.call.is_empty() => ThreadState::Call("an unknown call".to_string()),
        WaitsOn::Device => ThreadState::Call(format!("{} of a device", wait.call)),
        WaitsOn::Call if wait.call.is_empty() => ThreadState::PageFault,
        WaitsOn::Call if is_disk_call(&wait.call) => ThreadState::Disk(call()),
        WaitsOn::Call if wait.call.ends_with("nanosleep") => ThreadState::Sleep,
        WaitsOn::Call => ThreadState::Call(call()),
    }
}

/// Whether a call waits for the lock of a file: nothing else that these do sleeps for long.
pub fn is_file_lock(wait: &TracedWait) -> bool {
    wait.on == WaitsOn::Call && ["flock", "fcntl"].contains(&wait.call.as_str())
}

/// Whether a call waits for storage, even where the kernel does not count it so: as for a journal.
pub fn is_disk_call(call: &str) -> bool {
    const CALLS: [&str; 18] = [
        "fsync",
        "fdatasync",
        "sync",
        "syncfs",
        "msync",
        "sync_file_range",
        "read",
        "write",
        "readv",
        "writev",
        "pread64",
        "pwrite64",
        "preadv",
        "pwritev",
        "preadv2",
        "pwritev2",
        "fallocate",
        "ftruncate",
    ];
    CALLS.contains(&call)
}
