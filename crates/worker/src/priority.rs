//! The worker has a higher priority than its tasks. It decides when they start and stop; behind
//! thousands of runnable tasks on its CPU it would do so seconds late. It sleeps nearly all the time,
//! so the tasks lose nothing. They get back the policy that the user gave knee.

use std::io;

use workloads::Failure;

/// A scheduling policy, as sched_setattr(2) takes it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct SchedulingPolicy {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    /// The fair policy's requested slice in ns (Linux 6.12): a thread with a short one runs early.
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Children start with the default policy.
const RESET_ON_FORK: u64 = 1;

impl SchedulingPolicy {
    /// The calling thread's policy.
    pub fn current() -> SchedulingPolicy {
        let mut policy = SchedulingPolicy::default();
        let size = size_of::<SchedulingPolicy>();
        // SAFETY: the struct is live and its size given.
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut policy, size, 0) };
        SchedulingPolicy { size: size as u32, flags: policy.flags & !RESET_ON_FORK, ..policy }
    }

    /// Gives the calling thread this policy.
    pub fn apply(&self) -> Result<(), Failure> {
        // SAFETY: the struct is live and says its own size.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, self, 0) } {
            0 => Ok(()),
            _ => Err(Failure::from_error("sched_setattr", io::Error::last_os_error())),
        }
    }

    /// Whether this is the policy of a process that nobody gave another.
    pub fn is_default(&self) -> bool {
        self.policy == libc::SCHED_OTHER as u32 && self.nice == 0
    }
}

/// Gives the calling thread priority over its children: by the real-time policy where permitted,
/// else as far as the fair policy goes. Returns whether it got the real-time policy.
pub fn raise() -> bool {
    let fair = SchedulingPolicy {
        size: size_of::<SchedulingPolicy>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: RESET_ON_FORK,
        ..SchedulingPolicy::default()
    };
    // Above tasks that the user gave a real-time policy.
    let priority = (SchedulingPolicy::current().priority + 1).min(99);
    let real_time = SchedulingPolicy { policy: libc::SCHED_FIFO as u32, priority, ..fair };
    let favoured = SchedulingPolicy { nice: -20, runtime_ns: 100_000, ..fair };
    let short_slice = SchedulingPolicy { runtime_ns: 100_000, ..fair };
    if real_time.apply().is_ok() {
        return true;
    }
    let _ = favoured.apply().or_else(|_| short_slice.apply());
    false
}
