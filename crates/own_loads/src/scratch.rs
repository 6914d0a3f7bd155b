//! Folders in which a compiler works, below the cache of programs. Each is locked while it is in use and removed at its
//! end. What a process left that was killed is removed when the next one is made.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::{Context, Result};
use host::signals::Held;
use tempfile::{Builder, TempDir};

use crate::cache;

/// What the names of the folders begin with.
const PREFIX: &str = "building-";

/// A folder of this process alone. Until it is gone, signals that ask the process to end wait, and compilers that it
/// calls end at one.
pub struct Scratch {
    folder: TempDir,
    _lock: File,
    // After the folder: then the signal is delivered.
    _held: Held,
}

impl Scratch {
    /// Makes a folder, and removes those that nobody uses.
    pub fn new() -> Result<Scratch> {
        let held = Held::new();
        let root = cache::root()?;
        let making = || format!("making a folder for the compiler in {}", root.display());
        let all = File::open(&root).with_context(making)?;
        // So that nobody removes the new folder before it is locked.
        lock(&all, libc::LOCK_EX).with_context(making)?;
        remove_unused(&root);
        let folder = Builder::new().prefix(PREFIX).tempdir_in(&root).with_context(making)?;
        let own = File::open(folder.path()).with_context(making)?;
        lock(&own, libc::LOCK_EX).with_context(making)?;
        Ok(Scratch { folder, _lock: own, _held: held })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn remove_unused(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_scratch = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_unused = || {
            let folder = File::open(&path);
            folder.is_ok_and(|folder| lock(&folder, libc::LOCK_EX | libc::LOCK_NB).is_ok())
        };
        if is_scratch && is_unused() {
            // Next time, if not now.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn lock(file: &File, operation: i32) -> io::Result<()> {
    loop {
        // SAFETY: a plain call on an open file.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let why = io::Error::last_os_error();
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
}
