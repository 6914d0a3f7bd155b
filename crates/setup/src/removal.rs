//! Removal of a run's directory with all that is in it, but never with what somebody mounted
//! there: a command may have prepared a mount and not undone it, and what lies on it is not
//! ours.

use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Context, Result};

/// Removes a directory; one that is gone is fine.
pub fn remove(path: &Path) -> Result<()> {
    unmount_below(path)?;
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Unmounts what is mounted in a directory, the last first. What cannot be is an error.
pub fn unmount_below(path: &Path) -> Result<()> {
    for mount in probes::mounts_below(path).iter().rev() {
        let name = CString::new(mount.as_os_str().as_bytes()).context("a path has no NUL")?;
        // SAFETY: a live C string.
        if unsafe { libc::umount2(name.as_ptr(), libc::UMOUNT_NOFOLLOW) } != 0 {
            return Err(io::Error::last_os_error()).with_context(|| {
                format!(
                    "{} is still mounted: unmount it, then remove {}",
                    mount.display(),
                    path.display()
                )
            });
        }
    }
    Ok(())
}
