//! Files as the workloads use them: opened by path with words for what went wrong,
//! filled to a size, counted.

use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::Failure;

/// Creates a file that must not exist yet, open for reading and writing.
pub fn create(path: &Path) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| Failure::of(format!("creating {}", path.display()), e))
}

/// Opens an existing file for reading and writing: a file description of its own.
pub fn open(path: &Path) -> Result<File, Failure> {
    File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(|e| Failure::of(format!("opening {}", path.display()), e))
}

/// The path as system calls take it.
pub fn c_path(path: &Path) -> Result<CString, Failure> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Failure::new(format!("{} contains a zero byte", path.display())))
}

/// The number of names in a directory.
pub fn names_in(path: &Path) -> Result<u64, Failure> {
    let entries =
        fs::read_dir(path).map_err(|e| Failure::of(format!("listing {}", path.display()), e))?;
    Ok(entries.count() as u64)
}
