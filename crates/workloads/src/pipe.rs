//! Write to and read from a pipe of the task's own.
//!
//! No task waits on the pipe, so this is the cost of the two calls and of moving the
//! bytes into a page and out again: the pipe's mutex, which no other task takes, and for
//! larger messages the page allocator. It should scale like getppid; where it does not,
//! look at what all pipes share: the page allocator and the charging of pages to the
//! memory cgroup. Threads share one file table, so each call also takes and drops a
//! reference on the open file, which a process of one thread does not.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::message::{self, Message};
use crate::{Failure, Family, Forms, Load, Need, Prepared, Spec, Task, each_task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pipe1"],
    family: Family::Scheduling,
    operation: "one message written to a pipe and read from it",
    forms: Forms::Both,
    parameters: &[message::SIZE],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let size = load.values.number("size_bytes") as usize;
    each_task(move |_| {
        let (reader, writer) = pipe(libc::O_NONBLOCK)?;
        make_room(&writer, size)?;
        Ok(Passer { reader, writer, message: Message::new(size) })
    })
}

struct Passer {
    reader: OwnedFd,
    writer: OwnedFd,
    message: Message,
}

impl Task for Passer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (reader, writer) = (self.reader.as_raw_fd(), self.writer.as_raw_fd());
        self.message.pass(
            // SAFETY: the descriptor is open and the bytes are live.
            |bytes| unsafe { libc::write(writer, bytes.as_ptr().cast(), bytes.len()) },
            // SAFETY: as above.
            |bytes| unsafe { libc::read(reader, bytes.as_mut_ptr().cast(), bytes.len()) },
        )
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let mut left: libc::c_int = 0;
        // SAFETY: the descriptor is open and the kernel writes one live int.
        sys("FIONREAD of the pipe", unsafe {
            libc::ioctl(self.reader.as_raw_fd(), libc::FIONREAD, &mut left)
        })?;
        self.message.verify(operations, left as usize)
    }
}

/// A new pipe: its end for reading, and its end for writing.
pub(crate) fn pipe(flags: libc::c_int) -> Result<(OwnedFd, OwnedFd), Failure> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two live ints.
    sys("pipe2", unsafe { libc::pipe2(ends.as_mut_ptr(), flags | libc::O_CLOEXEC) })?;
    // SAFETY: just opened, owned by nothing else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

/// Makes the pipe hold a whole message. A user with many pipes gets smaller ones
/// (/proc/sys/fs/pipe-user-pages-soft).
fn make_room(pipe: &OwnedFd, size: usize) -> Result<(), Failure> {
    // SAFETY: the descriptor is open.
    let room = sys("F_GETPIPE_SZ", unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ) })?;
    if room as usize >= size {
        return Ok(());
    }
    // SAFETY: as above.
    match unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, size as libc::c_int) } {
        -1 => Err(Failure::from_error(
            format!(
                "growing a pipe from {room} to {size} bytes (see pipe-user-pages-soft in pipe(7))"
            ),
            std::io::Error::last_os_error(),
        )),
        _ => Ok(()),
    }
}
