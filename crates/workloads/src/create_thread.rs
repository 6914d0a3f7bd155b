//! A thread created, and joined when it has ended.
//!
//! The new thread does nothing but add 1 to a counter of its creator. The C library keeps stacks of ended threads, so no
//! memory is mapped; what remains is clone, a wake-up on some CPU, exit, and the wake-up of the creator, so on an idle
//! host most of the time is spent asleep. Threads share the list of their process's threads and its lock; processes
//! share the table of process ids, whose lock each clone and each exit takes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, each_task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Processes,
    operation: "one thread created and joined",
    forms: Forms::Both,
    parameters: &[],
    needs: &[],
    prepare,
};

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    each_task(|_| Ok(Creator { ran: AtomicU64::new(0) }))
}

struct Creator {
    /// How many threads have run.
    ran: AtomicU64,
}

impl Task for Creator {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let ran = &self.ran;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .spawn_scoped(scope, || ran.fetch_add(1, Relaxed))
                .map_err(|e| Failure::from_error("creating a thread", e))?;
            thread.join().map(drop).map_err(|_| Failure::new("a thread panicked"))
        })
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let ran = self.ran.load(Relaxed);
        if ran == operations {
            return Ok(());
        }
        Err(Failure::new(format!("{operations} threads counted, but {ran} ran")))
    }
}
