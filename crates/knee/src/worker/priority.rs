//! The worker goes before its tasks. It decides when they start and stop; behind thousands
//! of runnable tasks on its CPU it would come to that seconds late. It sleeps nearly all
//! the time, so the tasks lose nothing. They get back the policy that the user gave knee.

use std::io;

use workloads::Failure;

/// A scheduling policy, as sched_setattr(2) takes it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Policy {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// For the fair policy, the slice asked for in ns (Linux 6.12): a short one runs early.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Children start as if nothing had been set.
const RESET_ON_FORK: u64 = 1;

impl Policy {
    /// The calling thread's policy.
    pub fn current() -> Policy {
        let mut policy = Policy::default();
        let size = size_of::<Policy>();
        // SAFETY: the struct is live and its size given.
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut policy, size, 0) };
        Policy { size: size as u32, flags: policy.flags & !RESET_ON_FORK, ..policy }
    }

    /// Gives the calling thread this policy.
    pub fn apply(&self) -> Result<(), Failure> {
        // SAFETY: the struct is live and says its own size.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, self, 0) } {
            0 => Ok(()),
            _ => Err(Failure::from_error("sched_setattr", io::Error::last_os_error())),
        }
    }

    /// Whether it is what every process has unless told otherwise.
    pub fn is_default(&self) -> bool {
        self.policy == libc::SCHED_OTHER as u32 && self.nice == 0
    }
}

/// Puts the calling thread before its children: by the real-time policy where we may, else
/// by what the fair one allows. Whether it is the real-time one.
pub fn raise() -> bool {
    let fair = Policy {
        size: size_of::<Policy>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: RESET_ON_FORK,
        ..Policy::default()
    };
    let real_time = Policy { policy: libc::SCHED_FIFO as u32, priority: 1, ..fair };
    let favoured = Policy { nice: -20, runtime_ns: 100_000, ..fair };
    let short_slice = Policy { runtime_ns: 100_000, ..fair };
    if real_time.apply().is_ok() {
        return true;
    }
    let _ = favoured.apply().or_else(|_| short_slice.apply());
    false
}
