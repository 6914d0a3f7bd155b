//! Leftovers: directories that a killed knee could not remove. Before a run makes one, its
//! path is written to a journal that the run holds a lock on; a journal whose lock is free
//! belongs to a dead knee, and the next start removes what it names.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The journal of this process.
pub struct Journal {
    path: PathBuf,
    file: File,
    directories: Vec<PathBuf>,
}

impl Journal {
    /// A journal for this process, after the dead ones' leftovers are removed.
    pub fn open() -> Result<Journal> {
        let folder = folder();
        fs::create_dir_all(&folder)
            .with_context(|| format!("creating {} (set XDG_STATE_HOME)", folder.display()))?;
        sweep(&folder)?;
        let path = folder.join(format!("{}.journal", std::process::id()));
        let file = create(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Journal { path, file, directories: Vec::new() })
    }

    /// A directory of our own in `parent`, for scratch; removed by [`Journal::close`].
    pub fn directory(&mut self, parent: &Path, name: &str) -> Result<PathBuf> {
        let parent = parent
            .canonicalize()
            .with_context(|| format!("looking for the directory {}", parent.display()))?;
        let path = parent.join(format!(".knee-{name}"));
        if self.directories.contains(&path) {
            return Ok(path);
        }
        writeln!(self.file, "{}", path.display())
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("writing {}", self.path.display()))?;
        fs::create_dir(&path).with_context(|| {
            format!("creating a directory in {}: choose another --dir", parent.display())
        })?;
        spread_subdirectories(&path);
        self.directories.push(path.clone());
        Ok(path)
    }

    /// Removes all directories, then the journal.
    pub fn close(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        for directory in &self.directories {
            remove(directory)?;
        }
        remove_file(&self.path)
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After an error elsewhere, which is the one to tell; after `close` nothing is left.
        let _ = self.remove();
    }
}

/// Creates a journal. It is locked before it has the name by which others find it.
fn create(path: &Path) -> io::Result<File> {
    let beside = path.with_extension("new");
    loop {
        let file = File::create(&beside)?;
        file.lock()?;
        match fs::rename(&beside, path) {
            // Somebody's sweep came between creating and locking.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            renamed => return renamed.map(|()| file),
        }
    }
}

/// Asks ext2, ext3 and ext4 to put each subdirectory into a block group of its own choice, as
/// they do below the root (`chattr +T`). Else all runs share a group, and a run that creates
/// files after one that deleted some measures ext4 stepping over inodes deleted in the last
/// minutes (`recently_deleted` in fs/ext4/ialloc.c): 25 times slower was seen.
fn spread_subdirectories(directory: &Path) {
    const TOP_DIRECTORY: libc::c_int = 0x0002_0000; // FS_TOPDIR_FL
    let Ok(directory) = File::open(directory) else { return };
    let mut flags: libc::c_int = 0;
    // SAFETY: both calls take a live int. Other file systems refuse, which is well.
    unsafe {
        if libc::ioctl(directory.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags) == 0 {
            flags |= TOP_DIRECTORY;
            libc::ioctl(directory.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags);
        }
    }
}

/// Journals lie in the user's state folder, apart by host, since homes may be shared.
fn folder() -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    crate::paths::state().join(host.trim())
}

/// Removes what dead processes left.
fn sweep(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        let ours = path.extension().is_some_and(|e| e == "journal" || e == "new");
        if !ours || file.try_lock().is_err() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let directories = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
        let left = directories.filter(|directory| !sweep_directory(Path::new(directory))).count();
        if left == 0 {
            remove_file(&path)?;
        }
    }
    Ok(())
}

/// Removes one directory that a dead process left; whether it is gone. What cannot be removed
/// now, on a file system mounted read-only perhaps, must not keep anybody from measuring.
fn sweep_directory(directory: &Path) -> bool {
    // Only what has a name that we give.
    let name = directory.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if !name.starts_with(".knee-") || !directory.is_dir() {
        return true;
    }
    match remove(directory) {
        Ok(()) => eprintln!("removed {}, left by a knee that was killed", directory.display()),
        Err(why) => eprintln!("left by a knee that was killed, and still there: {why:#}"),
    }
    !directory.is_dir()
}

fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        // Two sweeps at once: the other was first.
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", directory.display()))
        }
        _ => Ok(()),
    }
}
