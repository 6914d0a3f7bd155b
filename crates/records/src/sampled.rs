//! What knee reads in /proc, many times a second, of tasks that it did not start: the raw material of an
//! [`Observation`](crate::live::Observation) where BPF is not allowed.
//!
//!     rounds:    |    |    |    |    |        each sees every thread once, with its counters
//!     windows:   edge           edge          edges are rounds, too

use std::collections::BTreeMap;

use crate::live::{Trace, TracedWait};

/// Threads as they were seen, round by round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Edges, tasks, stacks, names and the use of CPUs. It has no switches.
    pub trace: Trace,
    /// In the order of time.
    pub rounds: Vec<Round>,
    /// How many of the online CPUs each task may use.
    pub cpus_allowed: BTreeMap<u32, u32>,
    /// The share of each task's CPU time in page faults, as far as its counters tell.
    pub faulting: BTreeMap<u32, f64>,
    /// The share of each task's CPU time in the kernel.
    pub in_kernel: BTreeMap<u32, f64>,
    /// How long the quota of a control group kept CPUs from its tasks in each window, ns of all CPUs together.
    pub throttled_ns: Vec<u64>,
}

/// All threads at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    pub at_ns: u64,
    pub sightings: Vec<Sighting>,
    /// Goroutines that wait at semaphores: their threads do other work meanwhile.
    pub goroutines: Vec<SightedGoroutine>,
}

/// A goroutine that waits at a semaphore at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SightedGoroutine {
    pub process: u32,
    /// Tells it from others; no task has this number.
    pub number: u32,
    /// The address of the semaphore.
    pub semaphore: u64,
    /// Index into the stacks of the trace, if one was taken.
    pub stack: Option<usize>,
}

/// A thread at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sighting {
    pub task: u32,
    /// CPU time since the thread was started, ns.
    pub run_ns: u64,
    /// How long it could run and had no CPU, ns.
    pub delay_ns: u64,
    /// How often it was given a CPU.
    pub arrivals: u64,
    pub doing: Sighted,
    /// Index into the stacks of the trace, if one was taken.
    pub stack: Option<usize>,
}

/// What a thread was found doing.
#[derive(Clone, Debug, PartialEq)]
pub enum Sighted {
    /// It runs on this CPU, or could run there.
    Runnable(u32),
    Waits(TracedWait),
}

impl Default for Sighted {
    fn default() -> Sighted {
        Sighted::Runnable(0)
    }
}
