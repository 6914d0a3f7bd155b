//! A call that yields the CPU to the next runnable task.
//!
//! With one task per CPU no other is runnable and the call returns immediately: it has
//! taken this CPU's run-queue lock and run the scheduler's choice once. Run queues are per
//! CPU, so the curve should be as straight as getppid's. Where another task of the run, or
//! of another program, wants the CPU too, the operation becomes a context switch.

use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, each_task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Scheduling,
    operation: "one sched_yield() call",
    forms: Forms::Both,
    parameters: &[],
    needs: &[],
    prepare,
};

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    each_task(|_| Ok(Yielder))
}

struct Yielder;

impl Task for Yielder {
    /// The call has no effect to verify but its success.
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: no preconditions.
        sys("sched_yield", unsafe { libc::sched_yield() }).map(drop)
    }
}
