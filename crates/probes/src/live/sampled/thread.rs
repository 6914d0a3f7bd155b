//! A thread that is followed, and what it was charged with.

use std::time::Duration;

use records::sampled::Sighted;

use crate::live::clock_samples::ClockSamples;
use crate::live::page_faults;
use crate::live::task_files::{Charged, Counters, TaskFiles};

/// A followed thread.
pub(super) struct Thread {
    pub process: u32,
    pub files: TaskFiles,
    pub last: Option<(Counters, Sighted, Option<usize>)>,
    /// For how many rounds its counters have been the same.
    pub still: u32,
    /// CPU time since it was met.
    pub ran_ns: u64,
    pub clock: Option<ClockSamples>,
    /// How often it was met when threads were looked for.
    pub met: u32,
    /// What it was charged with when it was met, or what was seen was given away, and at the last edge, each with its CPU time.
    pub charged: [(Charged, u64); 2],
}

impl Thread {
    pub fn new(process: u32, files: TaskFiles) -> Thread {
        let mut thread = Thread {
            process,
            files,
            last: None,
            still: 0,
            ran_ns: 0,
            clock: None,
            met: 0,
            charged: [(Charged::default(), 0); 2],
        };
        thread.read_charged();
        thread.charged[0] = thread.charged[1];
        thread
    }

    pub fn read_charged(&mut self) {
        let ran = self.files.counters().map(|counters| counters.run_ns);
        if let Some(now) = self.files.charged().zip(ran) {
            self.charged[1] = now;
        }
    }

    /// The shares of its CPU time in the kernel and in page faults, each of which takes so long.
    pub fn in_kernel(&self, fault_ns: u64) -> (f64, f64) {
        let [(before, ran_before), (after, ran)] = self.charged;
        let ran = Duration::from_nanos(ran.saturating_sub(ran_before));
        page_faults::shares(before, after, ran, fault_ns)
    }
}
