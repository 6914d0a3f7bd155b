//! A call of the scheduler that gives the CPU to whoever is next.
//!
//! With one task a CPU nobody is next and the call comes back at once: it has taken the
//! lock of this CPU's run queue and gone once through the scheduler's choice. Run queues
//! are per CPU, so the curve should be as straight as getppid's. Where others want the
//! CPU too, another task or a stranger, the operation becomes a context switch.

use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, sys};

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
    Ok(Box::new(Prepare))
}

struct Prepare;

impl Prepared for Prepare {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        Ok(Box::new(Yielder))
    }
}

struct Yielder;

impl Task for Yielder {
    /// The call leaves nothing behind; that it succeeded is all there is to verify.
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: no preconditions.
        sys("sched_yield", unsafe { libc::sched_yield() }).map(drop)
    }
}
