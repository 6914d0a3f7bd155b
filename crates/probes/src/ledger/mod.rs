//! The ledger's probe: accounts for every nanosecond of the CPUs under measurement while a
//! workload runs, by BPF programs on tracepoints. It lives in the worker and dies with it:
//! links and maps are descriptors, nothing is pinned.
//!
//!     begin ─ (tasks are born and marked) ─ edge ─ window ─ edge ─ … ─ edge ─ end
//!
//! README.md beside this file says how to read what comes of it.

#[cfg(any(feature = "bpf", test))]
mod btf_walk;
#[cfg(feature = "bpf")]
mod calls;
#[cfg(feature = "bpf")]
mod counters;
#[cfg(feature = "bpf")]
mod hardware;
#[cfg(feature = "bpf")]
mod load;
mod mark;
mod moments;
#[cfg(feature = "bpf")]
mod programs;
#[cfg(feature = "bpf")]
mod raw;
#[cfg(feature = "bpf")]
mod samples;
#[cfg(feature = "bpf")]
mod slab;
#[cfg(feature = "bpf")]
mod steal;
#[cfg(feature = "bpf")]
mod symbols;
#[cfg(feature = "bpf")]
mod watcher;

#[cfg(not(feature = "bpf"))]
mod without;
#[cfg(not(feature = "bpf"))]
pub use without::Watcher;

#[cfg(feature = "bpf")]
pub use watcher::Watcher;

pub use mark::Marker;
pub use moments::Moment;

use std::collections::BTreeMap;
use std::time::Duration;

use records::{ProfileKind, Window};

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What of it.
    pub kind: ProfileKind,
    /// Samples a second and CPU; 0 for none.
    pub hertz: u32,
    /// How long the samples of all CPUs have room while nobody drains them.
    pub room: Duration,
    /// The CPUs under measurement.
    pub cpus: Vec<u32>,
    /// Tasks whose operations are counted; task i is pinned to `cpus[i % cpus.len()]`.
    pub tasks: u32,
    /// Whether what is frequent may be counted in bursts: the run lasts some seconds, whatever its
    /// operations do, and its operations are counted while it lasts.
    pub bursts: bool,
    /// The process that started the worker: its time is knee's own too.
    pub knee: u32,
    /// Functions of the kernel whose calls by the workload are counted.
    pub functions: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// One window for each two neighbouring edges.
    pub windows: Vec<Window>,
    /// Probes that could not see, and why.
    pub blind: BTreeMap<String, String>,
}
