//! Files without a name: they vanish with the last process that has them open, even if it is
//! killed. Programs that need a path get one below /proc.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_setfl, memfd_create};

/// An empty file in memory; memfd_create(2). `name` shows in /proc/PID/fd.
pub fn create(name: &CStr) -> Result<File> {
    Ok(File::from(memfd_create(name, MemfdFlags::CLOEXEC).context("memfd_create")?))
}

/// A file in memory that cannot grow beyond this length: writes behind it fail. Nothing is written yet.
pub fn create_bounded(name: &CStr, bytes: u64) -> Result<File> {
    let making = || format!("making a file in memory of {bytes} bytes");
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(name, flags).with_context(making)?);
    file.set_len(bytes).with_context(making)?;
    fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK).with_context(making)?;
    Ok(file)
}

/// An empty file in memory; all writes to it append (O_APPEND).
pub fn create_append_only(name: &CStr) -> Result<File> {
    let file = create(name)?;
    fcntl_setfl(&file, OFlags::APPEND).context("making a file in memory append-only")?;
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
    let mut options = File::options();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_TMPFILE);
    let file = options.open(directory).with_context(making)?;
    file.set_len(bytes).with_context(making)?;
    Ok(file)
}

/// A path to an open file. Any process of the same user can open it for as long as this process
/// keeps the file open.
pub fn path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()))
}
