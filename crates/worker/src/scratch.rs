//! The run's own directory on the file system under test.

use std::fs;
use std::path::{Path, PathBuf};

use setup::removal;

/// Removed with all that is in it, on success and on failure.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes the directory, which must not exist.
    pub fn make(path: &Path) -> Result<Scratch, String> {
        match fs::create_dir(path) {
            Ok(()) => Ok(Scratch { path: path.to_path_buf() }),
            Err(e) => Err(format!("creating the directory {}: {e}", path.display())),
        }
    }

    /// Leaves it to whoever asked for it.
    pub fn keep(self) -> Result<(), String> {
        std::mem::forget(self);
        Ok(())
    }

    /// Removes it, or says why it could not.
    pub fn remove(self) -> Result<(), String> {
        remove(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The run has failed already, and says why; the parent looks here again.
        let _ = remove(&self.path);
    }
}

fn remove(path: &Path) -> Result<(), String> {
    removal::remove(path).map_err(|e| format!("{e:#}"))
}
