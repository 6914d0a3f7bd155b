//! mprotect of the task's own pages, in an address space that threads share.
//!
//! Each operation writes to its pages, makes them read-only and writable again. No two
//! tasks touch the same page, but threads share the address space: mprotect takes its
//! lock for writing, and revoking write access flushes the TLB of every CPU that runs the
//! address space (on x86 by an IPI, unless the CPU can broadcast the flush). So the rate
//! of threads falls where that of processes keeps rising: run both, the difference is the
//! cost of sharing. Also count the TLB and function-call interrupts per operation, to tell
//! more interrupts from more expensive ones.

use crate::mapping::{self, Fenced, SIZE};
use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, TaskForm, each_task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Memory,
    operation: "a write to each page, one mprotect to read-only and one back",
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
        let page = mapping::page_bytes();
        Ok(Protector { memory: Fenced::new(size)?, page, mark: 0 })
    })
}

struct Protector {
    memory: Fenced,
    page: usize,
    /// What the last operation wrote: the low byte of the number of operations so far.
    mark: u8,
}

impl Protector {
    #[inline(always)]
    fn make_read_only(&self) -> Result<(), Failure> {
        self.memory.protect("mprotect to read-only", libc::PROT_READ)
    }

    #[inline(always)]
    fn make_writable(&self) -> Result<(), Failure> {
        self.memory.protect("mprotect to writable", libc::PROT_READ | libc::PROT_WRITE)
    }
}

impl Task for Protector {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.mark = self.mark.wrapping_add(1);
        // The write puts the page into the TLB as writable, so that the flush is needed.
        self.memory.mark_pages(self.page, self.mark);
        self.make_read_only()?;
        self.make_writable()
    }

    /// The pages hold the number of operations. One more pair of calls must make them
    /// read-only and writable again.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if !self.memory.pages_marked(self.page, operations as u8) {
            return Err(Failure::new(format!("a page lacks the mark of operation {operations}")));
        }
        for (step, writable) in
            [(Protector::make_read_only as fn(&Self) -> _, false), (Protector::make_writable, true)]
        {
            step(self)?;
            if mapping::is_writable(self.memory.byte(0)) != writable {
                return Err(Failure::new("mprotect did not change whether the page is writable"));
            }
        }
        Ok(())
    }
}
