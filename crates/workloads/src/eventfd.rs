//! Write to and read from an eventfd of the task's own.
//!
//! The write adds 1 to the eventfd's counter, the read takes it out: the smallest read
//! and write there are, under a spinlock that no other task takes. What it costs beyond
//! twice getppid is the way through the file table and the VFS. Threads share one file
//! table, so each call also takes and drops a reference on the open file, which a
//! process of one thread does not.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::{Failure, Family, Forms, Load, Need, Prepared, Spec, Task, each_task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["eventfd1"],
    family: Family::Scheduling,
    operation: "one write of 1 to an eventfd and one read of it",
    forms: Forms::Both,
    parameters: &[],
    needs: &[Need::OpenFiles(1)],
    prepare,
};

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    each_task(|_| Ok(Adder { event: eventfd(0)?, taken: 0 }))
}

struct Adder {
    event: OwnedFd,
    /// The sum of the values read.
    taken: u64,
}

impl Task for Adder {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let one: u64 = 1;
        // SAFETY: the descriptor is open and the kernel reads eight live bytes.
        sys("adding to the eventfd", unsafe {
            libc::write(self.event.as_raw_fd(), (&raw const one).cast(), 8)
        })?;
        let mut value: u64 = 0;
        // SAFETY: the descriptor is open and the kernel writes eight live bytes.
        sys("reading the eventfd", unsafe {
            libc::read(self.event.as_raw_fd(), (&raw mut value).cast(), 8)
        })?;
        self.taken += value;
        Ok(())
    }

    /// The values read add up to the values written.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.taken == operations {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{operations} added to the eventfd, but {} read from it",
            self.taken
        )))
    }
}

/// A new non-blocking eventfd that holds `value`: reading 0 is an error.
pub(crate) fn eventfd(value: u32) -> Result<OwnedFd, Failure> {
    // SAFETY: no preconditions.
    let fd =
        sys("eventfd", unsafe { libc::eventfd(value, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: just opened, owned by nothing else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
