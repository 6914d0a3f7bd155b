//! Folders that stay from one knee to the next, and that knees of this user use in turn: each has a lock file beside
//! it. The kernel frees the lock when the last process that inherited it ends, so one that is free means that no make
//! of a killed knee works there any more.
//!
//!     NAME        the folder
//!     NAME.lock   locked by whoever uses it; its time is that of the last use

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use host::signals;
use host::terminal::talk;
use rustix::io::FdFlags;
use setup::removal;

/// What ends the name of a lock file.
const LOCK: &str = "lock";

/// What ends the name of a folder whose removal has begun.
const REMOVED: &str = "removed";

/// Time between two tries to get a lock.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A folder that only this process uses, until it is dropped.
pub struct KeptFolder {
    path: PathBuf,
    lock: File,
    /// Whether another process had to end first.
    pub has_waited: bool,
}

impl KeptFolder {
    /// Opens or creates the folder `name` in `parent`. While another process uses it, waits, and says so once by
    /// `waiting`.
    pub fn open(parent: &Path, name: &str, waiting: &str) -> Result<KeptFolder> {
        make_folder(parent)?;
        let mut has_waited = false;
        let lock = loop {
            if let Some(lock) = try_lock(&lock_path(parent, name))? {
                break lock;
            }
            if !has_waited {
                has_waited = true;
                talk(waiting);
            }
            if let Some(signal) = signals::received() {
                bail!("interrupted by {}", signals::name(signal));
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        // make and what it starts hold it, too, in case knee is killed.
        rustix::io::fcntl_setfd(&lock, FdFlags::empty()).context("keeping a lock over an exec")?;
        lock.set_modified(SystemTime::now()).context("noting when a folder was used")?;
        let path = parent.join(name);
        make_folder(&path)?;
        Ok(KeptFolder { path, lock, has_waited })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for KeptFolder {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

/// The names of the folders in `parent`, the last used first.
pub fn names(parent: &Path) -> Vec<(String, SystemTime)> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let used = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let lock = fs::metadata(lock_path(parent, &name)).and_then(|lock| lock.modified());
        is_folder.then_some((name, lock.unwrap_or(SystemTime::UNIX_EPOCH)))
    };
    let mut names: Vec<_> = entries.filter_map(used).collect();
    names.retain(|(name, _)| !name.ends_with(REMOVED));
    names.sort_by_key(|(_, used)| std::cmp::Reverse(*used));
    names
}

/// Removes a folder. `false`: another process uses it.
pub fn remove(parent: &Path, name: &str) -> Result<bool> {
    let Some(lock) = try_lock(&lock_path(parent, name))? else { return Ok(false) };
    let removed = parent.join(format!("{name}.{REMOVED}"));
    removal::remove(&removed)?;
    // By one rename, so that no kill leaves a part of it.
    let path = parent.join(name);
    fs::rename(&path, &removed).with_context(|| format!("removing {}", path.display()))?;
    let _ = fs::remove_file(lock_path(parent, name));
    drop(lock);
    removal::remove(&removed)?;
    Ok(true)
}

/// Removes all but those `kept` folders of `parent` that were used last, and what a killed knee did not remove
/// whole. `tell` is called before each removal, which takes a while.
pub fn prune(parent: &Path, kept: usize, tell: impl Fn(&str)) -> Result<()> {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().ends_with(&format!(".{REMOVED}")) {
            removal::remove(&entry.path())?;
        }
    }
    for (name, _) in names(parent).into_iter().skip(kept) {
        tell(&name);
        remove(parent, &name)?;
    }
    Ok(())
}

/// The lock of a file, if nobody has it.
fn try_lock(path: &Path) -> Result<Option<File>> {
    let opening = || format!("opening {}", path.display());
    let file = File::options().create(true).append(true).open(path).with_context(opening)?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(why)) => {
            return Err(why).with_context(|| format!("locking {}", path.display()));
        }
    }
    // Whoever removes the folder removes its lock.
    let held = file.metadata().with_context(opening)?;
    let is_there = fs::metadata(path).is_ok_and(|named| named.ino() == held.ino());
    Ok(is_there.then_some(file))
}

fn lock_path(parent: &Path, name: &str) -> PathBuf {
    parent.join(format!("{name}.{LOCK}"))
}

fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().mode(0o700).recursive(true).create(path);
    made.with_context(|| format!("creating {} (set XDG_CACHE_HOME)", path.display()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::{KeptFolder, names, prune, remove};

    fn use_at(parent: &Path, name: &str, seconds: u64) {
        let folder = KeptFolder::open(parent, name, "test").unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        folder.lock.set_modified(time).unwrap();
    }

    fn known(parent: &Path) -> Vec<String> {
        names(parent).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn folders_that_were_used_last_stay() {
        let home = tempfile::tempdir().unwrap();
        let parent = home.path().join("trees");
        assert!(known(&parent).is_empty());
        for (name, seconds) in [("a", 30), ("b", 10), ("c", 20)] {
            use_at(&parent, name, seconds);
        }
        assert_eq!(known(&parent), ["a", "c", "b"]);
        std::fs::create_dir(parent.join("x.removed")).unwrap();
        prune(&parent, 2, |name| assert_eq!(name, "b")).unwrap();
        assert_eq!(known(&parent), ["a", "c"]);
        assert!(!parent.join("x.removed").exists());
    }

    #[test]
    fn a_folder_in_use_is_not_removed() {
        let home = tempfile::tempdir().unwrap();
        let used = KeptFolder::open(home.path(), "a", "test").unwrap();
        assert!(!remove(home.path(), "a").unwrap() && used.path().is_dir());
        drop(used);
        assert!(remove(home.path(), "a").unwrap());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
