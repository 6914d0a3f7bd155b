//! The folder of the journals. It is held open, so that nobody who can rename a directory above it
//! can substitute another folder after the checks.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::paths::{self, check_private};
use rustix::fs::{FlockOperation, flock};

use crate::directory::{open_directory, path_of_open};

/// The folder that holds one journal for each running knee.
pub struct JournalFolder {
    pub path: PathBuf,
    opened: File,
}

impl JournalFolder {
    /// The user's folder, a separate one for each host, since homes may be shared.
    pub fn open_default() -> Result<JournalFolder> {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        JournalFolder::open(&paths::state()?.join(host.trim()))
    }

    fn open(path: &Path) -> Result<JournalFolder> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("creating {}", path.display()))?;
        let opened = open_directory(path).with_context(|| format!("opening {}", path.display()))?;
        check_private(path, &opened.metadata()?)?;
        Ok(JournalFolder { path: path.to_path_buf(), opened })
    }

    /// The path of an entry of the folder that is open, whatever its name has become.
    pub fn entry(&self, name: &OsStr) -> PathBuf {
        path_of_open(&self.opened).join(name)
    }

    pub fn names(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(path_of_open(&self.opened))
            .with_context(|| format!("listing {}", self.path.display()))?;
        Ok(entries.flatten().map(|entry| PathBuf::from(entry.file_name())).collect())
    }

    pub fn remove_file(&self, name: &OsStr) -> Result<()> {
        match fs::remove_file(self.entry(name)) {
            // Of two concurrent sweeps, the other one was first.
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(e).with_context(|| format!("removing {}", self.path.join(name).display()))
            }
            _ => Ok(()),
        }
    }

    /// Keeps every other knee of this user from changing kernel settings while this process
    /// lives. Locks the folder itself, as a lock file would stay behind.
    pub fn claim_settings(&self) -> Result<()> {
        let claimed = flock(&self.opened, FlockOperation::NonBlockingLockExclusive);
        ensure!(
            claimed.is_ok(),
            "another knee is changing kernel settings, as its variants require: wait until it ends"
        );
        Ok(())
    }
}
