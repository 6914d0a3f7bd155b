//! The lock of a folder of builds that one knee leaves to the next, beside that folder. Its text says what the builds were made
//! with, and for which repository.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

/// Builds that no gate used for so long are removed: 30 days.
const UNUSED_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct BuildsLock {
    path: PathBuf,
    file: File,
}

impl BuildsLock {
    /// The path of the lock of a folder.
    pub fn path(builds: &Path) -> PathBuf {
        builds.with_extension("lock")
    }

    /// Locks a folder. `None` if another process has it.
    pub fn of(builds: &Path) -> Result<Option<BuildsLock>> {
        let path = BuildsLock::path(builds);
        let locking = || format!("locking {}", path.display());
        loop {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).with_context(locking)?;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                locked => locked.with_context(locking)?,
            }
            // Who removes builds removes their lock: one that was opened before that locks nothing.
            let inode = file.metadata().with_context(locking)?.ino();
            if fs::metadata(&path).is_ok_and(|found| found.ino() == inode) {
                return Ok(Some(BuildsLock { path, file }));
            }
        }
    }

    /// Whether builds were made with these tools for this repository.
    pub fn says(&self, tools: &str, repository: &Path) -> Result<bool> {
        let found =
            fs::read(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        Ok(found == text(tools, repository))
    }

    /// Notes what further builds are made with, for which repository, and that they are used now.
    pub fn say(&mut self, tools: &str, repository: &Path) -> Result<()> {
        let written =
            self.file.set_len(0).and_then(|()| self.file.write_all_at(&text(tools, repository), 0));
        written.with_context(|| format!("writing {}", self.path.display()))
    }

    /// Removes the lock with what it locks.
    pub fn remove(self) -> Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }
}

fn text(tools: &str, repository: &Path) -> Vec<u8> {
    [tools.as_bytes(), b" ", repository.as_os_str().as_bytes()].concat()
}

/// Whether a gate's builds are of no use: their repository is gone, or no gate used them for long.
pub fn is_unused(builds: &Path) -> bool {
    let lock = BuildsLock::path(builds);
    let text = fs::read(&lock).unwrap_or_default();
    let repository = text.splitn(2, |byte| *byte == b' ').nth(1);
    let is_gone = repository.is_some_and(|path| !Path::new(OsStr::from_bytes(path)).exists());
    // A folder without a lock is of an older knee.
    let used =
        fs::metadata(&lock).or_else(|_| fs::metadata(builds)).and_then(|file| file.modified());
    let is_old = used.is_ok_and(|at| at.elapsed().is_ok_and(|since| since > UNUSED_MAX));
    is_gone || is_old
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use super::{BuildsLock, UNUSED_MAX, is_unused};

    #[test]
    fn one_process_has_the_builds_and_what_they_were_made_with_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let builds = root.path().join("gate-1");
        let take = || BuildsLock::of(&builds).unwrap();
        let made = |tools: &str| {
            let mut lock = take().unwrap();
            let is_known = lock.says(tools, root.path()).unwrap();
            lock.say(tools, root.path()).unwrap();
            is_known
        };
        let tools = ["gcc 12", "gcc 12", "gcc 9", "gcc 12"];
        assert_eq!(tools.map(made), [false, true, false, false]);
        let lock = take().unwrap();
        assert!(take().is_none(), "two have it");
        lock.remove().unwrap();
        assert!(!made("gcc 12"), "the lock was removed");
    }

    #[test]
    fn builds_of_a_repository_that_is_gone_and_old_ones_are_of_no_use() {
        let root = tempfile::tempdir().unwrap();
        let check = |name: &str, repository: &Path, expected: bool| {
            let builds = root.path().join(name);
            fs::create_dir(&builds).unwrap();
            let mut lock = BuildsLock::of(&builds).unwrap().unwrap();
            lock.say("0123", repository).unwrap();
            assert_eq!(is_unused(&builds), expected, "{name}");
            builds
        };
        let used = check("gate-here", root.path(), false);
        check("gate-gone", &root.path().join("a b"), true);
        let old = SystemTime::now() - 2 * UNUSED_MAX;
        File::open(BuildsLock::path(&used)).unwrap().set_modified(old).unwrap();
        assert!(is_unused(&used));
        let without_lock = root.path().join("gate-of-an-older-knee");
        fs::create_dir(&without_lock).unwrap();
        assert!(!is_unused(&without_lock));
    }
}
