//! What functions of the kernel do with locks, and how they enter it, by their names.

use records::operations::RecordedLockKind;

/// What a function does with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Take(RecordedLockKind),
    TakeShared(RecordedLockKind),
    Give,
    /// Waits, as a simulated lock does by itself.
    Waits,
    /// Notes that an object has an owner, such as a locked file, for whom others sleep.
    Owns,
    /// Notes that it has none.
    Disowns,
    /// Gives the CPU to others for a moment.
    Yields,
    /// Tries again if another task came between.
    Compares,
    /// Interrupts other CPUs.
    Interrupts,
    /// Enters the kernel by a system call: what it accesses first lies on no task's stack.
    Enters,
    /// Enters it by an exception.
    Faults,
    Other,
}

/// What functions whose names begin so do; the first that fits decides.
const CALLS: [(&str, Call); 48] = {
    use Call::{
        Compares, Disowns, Enters, Faults, Give, Interrupts, Other, Owns, Take, TakeShared, Waits,
        Yields,
    };
    use RecordedLockKind::{Mutex, ReadWriteSpin, Semaphore, Spin};
    [
        ("native_queued_spin_lock_slowpath", Waits),
        ("__pv_queued_spin_lock_slowpath", Waits),
        ("queued_spin_lock_slowpath", Waits),
        ("queued_read_lock_slowpath", Waits),
        ("queued_write_lock_slowpath", Waits),
        ("_raw_spin_lock", Take(Spin)),
        ("_raw_spin_trylock", Take(Spin)),
        ("_raw_spin_unlock", Give),
        ("_raw_read_lock", TakeShared(ReadWriteSpin)),
        ("_raw_read_trylock", TakeShared(ReadWriteSpin)),
        ("_raw_write_lock", Take(ReadWriteSpin)),
        ("_raw_write_trylock", Take(ReadWriteSpin)),
        ("_raw_read_unlock", Give),
        ("_raw_write_unlock", Give),
        ("rwsem_down_", Waits),
        ("rwsem_optimistic_spin", Waits),
        ("rwsem_spin_on_owner", Waits),
        ("rwsem_mark_wake", Waits),
        ("rwsem_wake", Waits),
        ("osq_", Waits),
        ("__down_read", TakeShared(Semaphore)),
        ("down_read", TakeShared(Semaphore)),
        ("__down_write", Take(Semaphore)),
        ("down_write", Take(Semaphore)),
        ("__up_read", Give),
        ("up_read", Give),
        ("__up_write", Give),
        ("up_write", Give),
        ("__mutex_lock", Waits),
        ("__mutex_unlock", Waits),
        ("mutex_spin_on_owner", Waits),
        ("mutex_optimistic_spin", Waits),
        ("mutex_lock", Take(Mutex)),
        ("mutex_trylock", Take(Mutex)),
        ("mutex_unlock", Give),
        ("schedule_preempt_disabled", Waits),
        ("locks_insert_lock_ctx", Owns),
        ("locks_unlink_lock_ctx", Disowns),
        ("do_sched_yield", Yields),
        ("lockref_", Compares),
        ("entry_SYSCALL_64_", Other),
        ("entry_SYSCALL_64", Enters),
        ("error_entry", Faults),
        ("smp_call_function", Interrupts),
        ("native_smp_send", Interrupts),
        ("x2apic_send_IPI", Interrupts),
        ("default_send_IPI", Interrupts),
        ("native_send_call_func", Interrupts),
    ]
};

/// What the function of this name does with a lock.
pub fn call_of(function: &str) -> Call {
    let known = CALLS.iter().find(|(name, _)| function.starts_with(name));
    known.map_or(Call::Other, |(_, call)| *call)
}

/// What every system call executes on its way to the function that it is for, and back to user code: beginnings of functions.
const OF_ALL_CALLS: [&str; 9] = [
    "entry_SYSCALL_64",
    "entry_SYSRETQ",
    "syscall_return_via_sysret",
    "do_syscall_64",
    "x64_sys_call",
    "syscall_enter_from_user_mode",
    "syscall_exit_to_user_mode",
    "exit_to_user_mode_prepare",
    "fpregs_assert_state_consistent",
];

/// Whether every system call executes a function.
pub(super) fn is_of_all_calls(function: &str) -> bool {
    OF_ALL_CALLS.iter().any(|begins| function.starts_with(begins))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_for_a_lock_is_told_from_who_waits_for_something_else() {
        use RecordedLockKind::{Mutex, Spin};
        for (function, expected) in [
            ("schedule_preempt_disabled", Call::Waits),
            ("rwsem_down_write_slowpath", Call::Waits),
            ("mutex_lock", Call::Take(Mutex)),
            ("_raw_spin_lock_irqsave", Call::Take(Spin)),
            ("locks_insert_lock_ctx", Call::Owns),
            ("locks_unlink_lock_ctx", Call::Disowns),
            ("do_sched_yield", Call::Yields),
            ("synchronize_rcu_expedited", Call::Other),
            ("io_cqring_wait", Call::Other),
        ] {
            assert_eq!(call_of(function), expected, "{function}");
        }
    }
}
