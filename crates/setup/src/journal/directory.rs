//! A run's own directory: created with `chattr +T` where the file system knows it, and removed only
//! if it is still the one that was created.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

use crate::ownership::FileIdentity;
use crate::removal;

/// A directory that this process created.
pub struct OwnDirectory {
    pub path: PathBuf,
    pub identity: FileIdentity,
}

impl OwnDirectory {
    /// Creates a directory that did not exist, accessible to this user only.
    pub fn create(path: &Path) -> Result<OwnDirectory> {
        let parent = path.parent().unwrap_or(path);
        DirBuilder::new().mode(0o700).create(path).with_context(|| {
            format!("creating a directory in {}: choose another --dir", parent.display())
        })?;
        let metadata = fs::symlink_metadata(path)
            .with_context(|| format!("reading the metadata of {}", path.display()))?;
        let identity = FileIdentity::from_metadata(&metadata);
        Ok(OwnDirectory { path: path.to_path_buf(), identity })
    }
}

/// A path that leads to an open file, whatever has become of its name.
pub fn path_of_open(opened: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Opens a directory; fails on a symbolic link.
pub fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Asks ext2, ext3 and ext4 to put each subdirectory into a block group of its own choice, as
/// they do below the root (`chattr +T`). Otherwise all runs share a group, and a run that creates
/// files after one that deleted some measures ext4 stepping over inodes deleted in the last
/// minutes (`recently_deleted` in fs/ext4/ialloc.c): 25 times slower was seen.
pub fn spread_subdirectories(directory: &Path) {
    let Ok(directory) = open_directory(directory) else { return };
    // Other file systems refuse, which does no harm.
    if let Ok(flags) = ioctl_getflags(&directory) {
        let _ = ioctl_setflags(&directory, flags | IFlags::TOPDIR);
    }
}

/// Removes a directory with its content, if it is still the one that was created.
pub fn remove(path: &Path, identity: FileIdentity) -> Result<()> {
    let directory = match open_directory(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.with_context(|| format!("opening {}", path.display()))?,
    };
    ensure!(
        FileIdentity::from_metadata(&directory.metadata()?) == identity,
        "{} was replaced by another directory, which stays: remove it if it is not needed",
        path.display()
    );
    removal::unmount_below(path)?;
    empty(&directory)
        .and_then(|()| fs::remove_dir(path))
        .with_context(|| format!("removing {}", path.display()))
}

/// Empties the directory that is open, not another one that was put in its place.
fn empty(directory: &File) -> io::Result<()> {
    for entry in fs::read_dir(path_of_open(directory))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
