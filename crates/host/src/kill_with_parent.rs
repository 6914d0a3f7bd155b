//! Children that die with knee, however knee dies.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the kernel send `signal` to the child that this command starts when knee dies, even of a
/// signal that knee cannot catch.
pub fn kill_with_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id() as i32;
    // SAFETY: plain calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, signal);
            // knee may have died before the call.
            if libc::getppid() != parent {
                libc::_exit(1);
            }
            Ok(())
        });
    }
}
