//! Follows tasks that knee did not start, by BPF programs on the scheduler's tracepoints: each switch to and from
//! them, who woke them, what they wait for, and stacks. Nothing is started, stopped or moved, and nothing stays:
//! links and maps are descriptors that die with this process.
//!
//!     begin (marks the threads) ─ drain … edge … drain … edge ─ end → Trace
//!                                                            └ cut → Trace, and goes on
//!
//! Without BPF, [`sampled`] reads /proc many times a second.

#[cfg(feature = "bpf")]
mod attach;
#[cfg(feature = "bpf")]
mod bpf_object;
pub mod busiest;
mod clock_samples;
#[cfg(feature = "bpf")]
mod compat_calls;
#[cfg(feature = "bpf")]
mod count_operations;
mod cpython;
mod function_names;
mod go_semaphores;
mod host_use;
mod hotspot;
mod kernel_waits;
pub mod operations;
mod page_faults;
pub mod processes;
#[cfg(feature = "bpf")]
mod raw;
mod refusals;
mod sampled;
mod task_files;
mod throttling;
mod touches;
mod user_registers;
mod user_stacks;

pub use refusals::bpf_needs;
pub use sampled::{ProcWatch, SampledResult};

#[cfg(not(feature = "bpf"))]
mod unsupported;
#[cfg(not(feature = "bpf"))]
pub use unsupported::LiveWatch;

#[cfg(feature = "bpf")]
pub use attach::LiveWatch;

use std::collections::BTreeMap;

use records::live::Trace;

/// What following tasks gave.
#[derive(Debug, Default)]
pub struct Followed {
    pub trace: Trace,
    /// Events that came too fast for the ring.
    pub lost_events: u64,
    /// Share of stacks that were walked to their end.
    pub whole_stacks: f64,
    /// Probes that could not be attached, and why.
    pub missing: BTreeMap<String, String>,
    /// CPU time that knee's own process used in each window, ns.
    pub own_ns: Vec<u64>,
}
