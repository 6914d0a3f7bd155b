//! A dose for the kernel's locks: each time a task of the workload has got a lock of one kind for which it had to wait, it
//! waits a given time more while it holds it. A BPF program does that where the kernel says that a wait is over, so no
//! kernel is changed, and nothing outlives the worker. `perf lock contention -J` does it in the same place.
//!
//!     contention_begin ── waits ── contention_end │ delay │ ── holds the lock ── unlocks
//!
//! A lock that is free is not delayed, nor one that its waiter gets before the kernel reports a wait: a spinlock by the
//! first waiter (`pending`), an rwsem by a writer that spins.

#[cfg(feature = "bpf")]
mod delay;
#[cfg(not(feature = "bpf"))]
mod unsupported;

#[cfg(feature = "bpf")]
pub use delay::LockDelay;
#[cfg(not(feature = "bpf"))]
pub use unsupported::LockDelay;

/// A kind of kernel lock, as the tracepoint contention_begin tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    Mutex,
    Rwsem,
    Spinlock,
}

impl LockKind {
    /// The kind that `--dose` calls this.
    pub fn from_name(name: &str) -> Option<LockKind> {
        match name {
            "mutex" => Some(LockKind::Mutex),
            "rwsem" => Some(LockKind::Rwsem),
            "spinlock" => Some(LockKind::Spinlock),
            _ => None,
        }
    }
}

/// What was delayed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delayed {
    /// Acquisitions that had waited, and were delayed.
    pub times: u64,
    /// The delays, in ns: measured, since a delay ends at the first look at the clock past its end.
    pub ns: u64,
}
