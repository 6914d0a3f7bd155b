//! The run's own directory on the file system under test.

use std::ffi::OsStr;
use std::path::Path;

use setup::directory::OwnDirectory;

/// The directory, removed with its content on success and on failure.
pub struct Scratch {
    directory: Option<OwnDirectory>,
}

impl Scratch {
    /// Creates the directory, which must not exist.
    pub fn create(path: &Path) -> Result<Scratch, String> {
        let made = OwnDirectory::create(path);
        let made =
            made.map_err(|why| format!("creating the directory {}: {why:#}", path.display()));
        Ok(Scratch { directory: Some(made?) })
    }

    /// Removes a directory in it. An error is no failure of the run: knee removes what is left.
    pub fn remove_entry(&self, name: &OsStr) {
        if let Some(directory) = &self.directory {
            let _ = directory.remove_entry(name);
        }
    }

    /// Removes the directory of a run that has failed already and has its reason. knee removes what is left.
    pub fn try_remove(&self) {
        if let Some(directory) = &self.directory {
            let _ = directory.remove();
        }
    }

    /// Leaves the directory to knee.
    pub fn keep(mut self) -> Result<(), String> {
        self.directory = None;
        Ok(())
    }

    pub fn remove(mut self) -> Result<(), String> {
        self.directory
            .take()
            .map_or(Ok(()), |directory| directory.remove())
            .map_err(|e| format!("{e:#}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.try_remove();
    }
}
