//! The run's own directory on the file system under test.

use std::fs;
use std::path::{Path, PathBuf};

use setup::removal;

/// The directory, removed with its content on success and on failure.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates the directory, which must not exist.
    pub fn create(path: &Path) -> Result<Scratch, String> {
        match fs::create_dir(path) {
            Ok(()) => Ok(Scratch { path: path.to_path_buf() }),
            Err(e) => Err(format!("creating the directory {}: {e}", path.display())),
        }
    }

    /// Leaves the directory to knee.
    pub fn keep(self) -> Result<(), String> {
        std::mem::forget(self);
        Ok(())
    }

    pub fn remove(self) -> Result<(), String> {
        remove(&self.path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The run has failed already and has its reason; knee removes what is left.
        let _ = remove(&self.path);
    }
}

fn remove(path: &Path) -> Result<(), String> {
    removal::remove(path).map_err(|e| format!("{e:#}"))
}
