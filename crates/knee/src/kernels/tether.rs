//! Children that end when knee does, in whichever way that ends.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// The child that this starts gets `signal` when knee dies, also of a signal that it cannot
/// catch.
pub fn tie(command: &mut Command, signal: i32) {
    let parent = std::process::id() as i32;
    // SAFETY: plain calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal);
            // knee may have died before we asked.
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
}
