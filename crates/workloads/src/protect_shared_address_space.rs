//! mprotect of the task's own pages, in an address space that all threads share.
//!
//! Each operation writes to its pages, makes them read-only and writable again. No two
//! tasks touch the same page, but threads share what lies around them: mprotect takes
//! the address space's lock for writing, and taking a right away flushes the TLB of
//! every CPU that runs the address space (on x86 by an interrupt, unless the CPU can
//! broadcast the flush). So operations per second as threads fall where the same tasks
//! as processes go on rising: run both, the difference is the price of sharing. Count
//! the TLB and function-call interrupts per operation beside it, to tell more
//! interrupts from dearer ones.

use crate::mapping::{self, Fenced, SIZE};
use crate::{Failure, Family, Form, Forms, Load, Prepared, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Memory,
    operation: "a write to each page, one mprotect to read-only and one back",
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
        let page = mapping::page_bytes();
        Ok(Box::new(Protector { memory: Fenced::new(self.size)?, page, mark: 0 }))
    }
}

struct Protector {
    memory: Fenced,
    page: usize,
    /// What the last operation wrote: operations so far, in a byte.
    mark: u8,
}

impl Protector {
    #[inline(always)]
    fn close(&self) -> Result<(), Failure> {
        self.memory.protect("mprotect to read-only", libc::PROT_READ)
    }

    #[inline(always)]
    fn open(&self) -> Result<(), Failure> {
        self.memory.protect("mprotect to writable", libc::PROT_READ | libc::PROT_WRITE)
    }
}

impl Task for Protector {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.mark = self.mark.wrapping_add(1);
        // The write lets the TLB know the page as writable, so the flush has a reason.
        self.memory.mark_pages(self.page, self.mark);
        self.close()?;
        self.open()
    }

    /// The pages carry the count; and once more, looking: read-only memory cannot be
    /// written, writable memory can.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if !self.memory.pages_marked(self.page, operations as u8) {
            return Err(Failure::new(format!("a page misses the mark of operation {operations}")));
        }
        for (step, writable) in
            [(Protector::close as fn(&Self) -> _, false), (Protector::open, true)]
        {
            step(self)?;
            if mapping::is_writable(self.memory.byte(0)) != writable {
                return Err(Failure::new("mprotect did not change what may be written"));
            }
        }
        Ok(())
    }
}
