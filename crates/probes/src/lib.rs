//! What the kernel reports: counters read around a run, facts about the host and the
//! directory under test, the permissions and limits of this process, and other activity on the
//! host. Everything comes from /proc, /sys and harmless trial calls; nothing is changed.
//! A source that cannot be read is reported with the reason, and the others are still read.
//! The probes of `ledger` attach BPF programs for the duration of one run.

mod activity;
mod allocations;
#[cfg(feature = "bpf")]
mod bpf_programs;
mod cgroups;
pub mod counters;
mod directory;
mod host;
pub mod ledger;
#[cfg(feature = "bpf")]
mod libbpf_log;
mod limits;
pub mod live;
pub mod lock_delay;
mod passes;
mod perf_event;
mod permissions;
mod spinlocks;
mod tree;

pub use activity::{Activity, BusyProcess, Namesake, activity};
pub use allocations::{AllocationCounter, AllocationCounts, CountFrom};
pub use directory::directory;
pub use host::host;
pub use ledger::calls::name as call_name;
pub use limits::{Limit, Limits, cpu_quota, limits};
pub use passes::Passes;
pub use permissions::{Permissions, permissions};
