//! The program break, moved up by a page and back.
//!
//! The oldest way to get memory: each operation grows the heap by one page, untouched,
//! and shrinks it again. It takes the lock of the task's own address space, which is
//! never contended, and charges one page of committed memory. So its curve should be
//! nearly as straight as getppid's, and a bend comes from that accounting.
//! will-it-scale's brk1 is the same load and counts each call: two per operation. Its
//! brk2 leaves the heap one page longer than its start, so that growth extends a VMA
//! instead of making one; knee's heap is in use, as any program's, so it is always so.

use std::io;

use crate::mapping::{is_writable, page_bytes};
use crate::{Failure, Family, Forms, Load, Prepared, Spec, Task, TaskForm, each_task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["brk1"],
    family: Family::Memory,
    operation: "one brk up by a page and one back",
    forms: Forms::Only(
        TaskForm::Processes,
        "all threads share one program break, where malloc's heap ends: threads that move \
         it would take memory from each other",
    ),
    parameters: &[],
    needs: &[],
    prepare,
};

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    each_task(|_| Ok(Mover { page: page_bytes() }))
}

struct Mover {
    page: usize,
}

impl Task for Mover {
    /// Nothing may allocate between the two calls: the second would take that memory away.
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // Between operations malloc may have moved the break.
        let here = program_break();
        move_break(here + self.page)?;
        move_break(here)
    }

    /// Moves the break once more: the page must exist while it is up, and be gone after.
    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        let here = program_break();
        let new_page = here.next_multiple_of(self.page) as *mut u8;
        move_break(here + self.page)?;
        let writable_up = is_writable(new_page);
        move_break(here)?;
        let writable_down = is_writable(new_page);
        if (writable_up, writable_down) != (true, false) {
            return Err(Failure::new(format!(
                "page above the break is writable: {writable_up} with the break moved up (expected \
                 true), {writable_down} with it moved back (expected false)"
            )));
        }
        Ok(())
    }
}

/// The current break. glibc knows it without a system call; other C libraries ask.
#[inline(always)]
fn program_break() -> usize {
    // SAFETY: moves nothing.
    unsafe { libc::sbrk(0) as usize }
}

/// Moves the break by the system call itself. libc, which remembers the break, need not
/// know: the break is back before libc looks.
#[inline(always)]
fn move_break(to: usize) -> Result<(), Failure> {
    // SAFETY: `to` is the break as this process's only thread read it, or a page above.
    let now = unsafe { libc::syscall(libc::SYS_brk, to) } as usize;
    if now == to { Ok(()) } else { Err(refused()) }
}

#[cold]
fn refused() -> Failure {
    Failure::from_error("moving the program break", io::ErrorKind::OutOfMemory.into())
}
