//! The program break moved up by a page and back.
//!
//! The oldest way to get memory: each operation grows the heap by one page, untouched,
//! and shrinks it again. It takes the lock of the task's own address space, which nobody
//! else wants, and accounts one page of promised memory; so its curve should be nearly
//! as straight as getppid's, and a bend is that accounting. will-it-scale's brk1 is the
//! same load and counts each call: two per operation.

use std::io;

use crate::mapping::{is_writable, page_bytes};
use crate::{Failure, Family, Form, Forms, Load, Prepared, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["brk1"],
    family: Family::Memory,
    operation: "one brk a page up and one back",
    forms: Forms::Only(
        Form::Processes,
        "all threads share one program break, and malloc's heap ends there: threads that \
         move it cut into each other's memory",
    ),
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
        Ok(Box::new(Mover { page: page_bytes() }))
    }
}

struct Mover {
    page: usize,
}

impl Task for Mover {
    /// Nothing may allocate between the two calls, or it would lose its memory.
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // Between operations malloc may have moved the break.
        let here = program_break();
        move_break(here + self.page)?;
        move_break(here)
    }

    /// Once more, looking: the page exists above, and is gone below.
    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        let here = program_break();
        let gained = here.next_multiple_of(self.page) as *mut u8;
        move_break(here + self.page)?;
        let above = is_writable(gained);
        move_break(here)?;
        let below = is_writable(gained);
        if (above, below) != (true, false) {
            return Err(Failure::new(format!(
                "the page gained could be written: {above} with the break above, {below} below it"
            )));
        }
        Ok(())
    }
}

/// Where the break is: glibc knows without a call, others ask.
#[inline(always)]
fn program_break() -> usize {
    // SAFETY: moves nothing.
    unsafe { libc::sbrk(0) as usize }
}

/// Moves the break by the call itself: libc, which keeps its own note of the break, need
/// not know, as it is back before anybody looks.
#[inline(always)]
fn move_break(to: usize) -> Result<(), Failure> {
    // SAFETY: `to` is the break that this process's only thread found, or a page above.
    let now = unsafe { libc::syscall(libc::SYS_brk, to) } as usize;
    if now == to { Ok(()) } else { Err(refused()) }
}

#[cold]
fn refused() -> Failure {
    Failure::of("moving the program break", io::ErrorKind::OutOfMemory.into())
}
