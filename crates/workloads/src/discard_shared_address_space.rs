//! madvise(MADV_DONTNEED) of the task's own pages, in an address space that threads share.
//!
//! Each operation writes to its pages, which faults them in, and discards them: what a
//! memory allocator does when it gives pages back. No two tasks touch the same page, but
//! discarding flushes the TLB of every CPU that runs the address space (on x86 by an
//! interrupt, unless the CPU can broadcast the flush), and the address space's lock is
//! taken for reading. So operations per second as threads fall where the same tasks as
//! processes go on rising: run both, the difference is the price of sharing. Compare with
//! protect_shared_address_space, whose lock is taken for writing.

use crate::mapping::{self, Fenced, SIZE};
use crate::{Failure, Family, Form, Forms, Load, Prepared, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Memory,
    operation: "a write to each page, which faults, and one madvise(MADV_DONTNEED)",
    forms: Forms::Noted(
        Form::Processes,
        "each process has an address space of its own: nothing is shared, this is the \
         control to compare the threads with",
    ),
    parameters: &[SIZE],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Prepare { size: mapping::size(load) }))
}

struct Prepare {
    size: usize,
}

impl Prepared for Prepare {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let memory = Fenced::new(self.size)?;
        let page = mapping::page_bytes();
        Ok(Box::new(Discarder { memory, page, faults_before: mapping::faults() }))
    }
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

    /// What was written is gone, and had to be faulted in each time: at least one fault
    /// an operation, as a huge page may serve many pages.
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
