//! Files without a name: they vanish with the last process that has them open, even if it is
//! killed. Programs that need a path get one below /proc.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// An empty file in memory; memfd_create(2). `name` shows in /proc/PID/fd.
pub fn create(name: &CStr) -> Result<File> {
    // SAFETY: a live C string; the descriptor is new and owned by nobody else.
    match unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()).context("memfd_create"),
        // SAFETY: as above.
        fd => Ok(unsafe { File::from_raw_fd(fd) }),
    }
}

/// An empty file in memory; all writes to it append (O_APPEND).
pub fn create_append_only(name: &CStr) -> Result<File> {
    let file = create(name)?;
    // SAFETY: a descriptor that is open.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) };
    Ok(file)
}

/// A file in memory that holds these bytes.
pub fn in_memory(name: &str, bytes: &[u8]) -> Result<File> {
    let name = CString::new(name).context("naming a file in memory")?;
    let mut file = create(&name)?;
    file.write_all(bytes).context("filling a file in memory (is memory short?)")?;
    Ok(file)
}

/// An unnamed sparse file of this length on the file system of a directory.
pub fn in_directory(directory: &Path, bytes: u64) -> Result<File> {
    let making = || format!("making a file without a name in {}", directory.display());
    let path = CString::new(directory.as_os_str().as_bytes()).with_context(making)?;
    let flags = libc::O_TMPFILE | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: a live C string and a mode; the descriptor is new and owned by nobody else.
    let file = match unsafe { libc::open(path.as_ptr(), flags, 0o600) } {
        -1 => return Err(io::Error::last_os_error()).with_context(making),
        // SAFETY: as above.
        fd => unsafe { File::from_raw_fd(fd) },
    };
    file.set_len(bytes).with_context(making)?;
    Ok(file)
}

/// A path to an open file. Any process of the same user can open it for as long as this process
/// keeps the file open.
pub fn path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}
