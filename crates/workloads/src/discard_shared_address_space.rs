//! madvise(MADV_DONTNEED) of the task's own pages, in an address space that threads share.
//!
//! Each operation writes to its pages, which faults them in, and discards them: what a
//! memory allocator does when it gives pages back. No two tasks touch the same page, but
//! discarding flushes the TLB of every CPU that runs the address space (on x86 by an IPI,
//! unless the CPU can broadcast the flush), and takes the address space's lock for
//! reading. So the rate of threads falls where that of processes keeps rising: run both,
//! the difference is the cost of sharing. Compare with protect_shared_address_space, which
//! takes that lock for writing.

use crate::mapping::{self, Fenced, SIZE};
use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, TaskForm, each_task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Memory,
    operation: "a write to each page, which faults, and one madvise(MADV_DONTNEED)",
    forms: Forms::Noted(
        TaskForm::Processes,
        "each process has an address space of its own, so nothing is shared: this form is \
         the control to compare threads with",
    ),
    parameters: &[SIZE],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let size = mapping::size(load);
    each_task(move |_| {
        let memory = Fenced::new(size)?;
        let page = mapping::page_bytes();
        Ok(Discarder { memory, page, faults_before: mapping::faults() })
    })
}

struct Discarder {
    memory: Fenced,
    page: usize,
    faults_before: u64,
}

impl Task for Discarder {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.memory.mark_pages(self.page, 1);
        self.memory.advise("madvise(MADV_DONTNEED)", libc::MADV_DONTNEED)
    }

    /// The pages read as zero, and each operation took at least one fault; no more is
    /// certain, as a huge page may serve many pages.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let faults = mapping::faults() - self.faults_before;
        if faults < operations {
            return Err(Failure::new(format!(
                "{operations} discards counted, but {faults} faults"
            )));
        }
        if !self.memory.pages_marked(self.page, 0) {
            return Err(Failure::new("a discarded page is not zero"));
        }
        Ok(())
    }
}
