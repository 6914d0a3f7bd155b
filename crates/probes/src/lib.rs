//! What the kernel tells: counters read around a run, facts about the host and the
//! directory under test, what this process is allowed, and what else is going on.
//! Everything is read from /proc, /sys and harmless trial calls; nothing is changed.
//! A source that cannot be read is reported with the reason, and the rest goes on. The probes of
//! `ledger` attach BPF programs for the length of one run.

mod activity;
mod cgroups;
pub mod counters;
mod directory;
mod host;
pub mod ledger;
mod limits;
mod mounts;
mod perf_event;
mod permissions;
mod spinlocks;
mod tree;

pub use activity::{Activity, Busy, activity};
pub use directory::directory;
pub use host::host;
pub use limits::{Limit, Limits, limits};
pub use mounts::{Mount, mounts, mounts_below, parse_mounts};
pub use permissions::{Permissions, permissions};
