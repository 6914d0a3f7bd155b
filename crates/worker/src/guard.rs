//! The guard of a server: a process that outlives worker and knee for the moment that it takes to kill the server's
//! process group. A kill signal at a parent's death reaches only a child; what the child started would live on if
//! knee and its worker are killed at once.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Ends the group when it is dropped, or with the worker.
pub struct Guard {
    /// The guard waits until nobody has this end of the pipe open.
    _end: OwnedFd,
}

impl Guard {
    /// Guards the process group of this number.
    pub fn of_group(group: i32) -> Result<Guard, String> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(format!("pipe2: {}", io::Error::last_os_error()));
        }
        // SAFETY: nobody else owns the ends.
        let [read, write] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        // SAFETY: the child makes only system calls, and ends.
        match unsafe { libc::fork() } {
            -1 => Err(format!("fork: {}", io::Error::last_os_error())),
            // SAFETY: this is the child.
            0 => unsafe { wait_and_kill(read.as_raw_fd(), group) },
            _ => Ok(Guard { _end: write }),
        }
    }
}

/// What the guard does.
///
/// # Safety
/// In a child that has just been forked, whose descriptors nobody uses.
unsafe fn wait_and_kill(read: i32, group: i32) -> ! {
    // SAFETY: plain system calls.
    unsafe {
        libc::setsid();
        // The worker's output, too: its reader waits for the last who has it.
        libc::dup2(read, 0);
        if libc::syscall(libc::SYS_close_range, 1, u32::MAX, 0) != 0 {
            for descriptor in 1..1024 {
                libc::close(descriptor);
            }
        }
        let mut byte = 0_u8;
        while libc::read(0, (&raw mut byte).cast(), 1) > 0 {}
        libc::kill(-group, libc::SIGKILL);
        libc::_exit(0)
    }
}
