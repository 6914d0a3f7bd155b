//! The ledger's probe: accounts for every nanosecond of the measured CPUs while a workload
//! runs, by BPF programs on tracepoints. It lives in the worker and dies with it: links and
//! maps are descriptors, nothing is pinned.
//!
//!     begin ─ (tasks start and are marked) ─ snapshot ─ window ─ snapshot ─ … ─ snapshot ─ end
//!
//! README.md beside this file explains how to read the results.

#[cfg_attr(not(any(feature = "bpf", test)), expect(dead_code, reason = "the ledger needs BPF"))]
pub(crate) mod calls;
#[cfg(feature = "bpf")]
mod counters;
#[cfg(feature = "bpf")]
mod hardware;
#[cfg(feature = "bpf")]
mod load;
mod mark;
#[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "the ledger needs BPF"))]
pub(crate) mod programs;
#[cfg(feature = "bpf")]
mod raw;
#[cfg(feature = "bpf")]
mod samples;
#[cfg(any(feature = "bpf", test))]
mod sampling_schedule;
#[cfg(feature = "bpf")]
mod slab;
#[cfg(feature = "bpf")]
mod steal;
#[cfg(feature = "bpf")]
#[cfg(feature = "bpf")]
mod watcher;

#[cfg(not(feature = "bpf"))]
mod unsupported;
#[cfg(not(feature = "bpf"))]
pub use unsupported::Watcher;

#[cfg(feature = "bpf")]
pub use watcher::Watcher;

pub use mark::Marker;

use std::collections::BTreeMap;
use std::time::Duration;

use records::{ProfileKind, Window};

/// What to watch in a run.
#[derive(Clone, Debug)]
pub struct WatchPlan {
    /// Which programs to attach.
    pub kind: ProfileKind,
    /// Samples per second and CPU; 0 for none.
    pub hertz: u32,
    /// For how long samples of all CPUs have room without [`Watcher::drain`].
    pub room: Duration,
    /// The measured CPUs.
    pub cpus: Vec<u32>,
    /// Tasks whose operations are counted; task i is pinned to `cpus[i % cpus.len()]`.
    pub tasks: u32,
    /// Whether frequent events may be counted in bursts: the run must last some seconds, however
    /// long its operations are, and count its operations as they are done.
    pub bursts: bool,
    /// The process that started the worker: its time is knee's own too.
    pub knee: u32,
    /// Kernel functions whose calls by the workload are counted.
    pub functions: Vec<String>,
}

/// A scheduled step of a [`Watcher`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingStep {
    /// The snapshot that ends one window and begins the next.
    Snapshot,
    /// A burst of this length; the burst before the first snapshot is the trial.
    Burst(Duration),
}

/// What a [`Watcher`] observed.
#[derive(Clone, Debug, Default)]
pub struct Observations {
    /// One window for each two consecutive snapshots.
    pub windows: Vec<Window>,
    /// Probes that could not observe, and why.
    pub unavailable_probes: BTreeMap<String, String>,
}
