//! Directories that knee made: held open from the moment they are made, and removed only if they
//! are still the ones that were made.
//!
//!     parent ── held ──> name ── held ──> content
//!
//! Others may be able to rename what is around them and put a symbolic link or another directory
//! in its place. So nothing here follows a path again: the content is removed through the
//! directory that is held, and the name only if it still leads to that directory.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::paths::check_private;
use rustix::fs::{AtFlags, IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags};
use rustix::fs::{mkdirat, openat, unlinkat};

use crate::ownership::FileIdentity;
use crate::removal;

/// A directory that this process made, or a dead knee before it.
#[derive(Debug)]
pub struct OwnDirectory {
    path: PathBuf,
    name: OsString,
    parent: File,
    content: File,
    identity: FileIdentity,
}

impl OwnDirectory {
    /// Makes a directory that did not exist, accessible to this user only.
    pub fn create(path: &Path) -> Result<OwnDirectory> {
        let (parent, name) = parent_and_name(path)?;
        mkdirat(&parent, name, Mode::RWXU).map_err(io::Error::from)?;
        let made = OwnDirectory::within(path, parent, name)?;
        // Between the two calls, others could have put a directory with files of theirs in its place.
        let is_empty = fs::read_dir(path_of_open(&made.content))?.next().is_none();
        ensure!(is_empty, replaced(path));
        Ok(made)
    }

    /// Opens a directory that was made before. `None` if its name is gone.
    ///
    /// # Errors
    /// The name leads to another directory now, or to none.
    pub fn find(path: &Path, identity: FileIdentity) -> Result<Option<OwnDirectory>> {
        let opening = || format!("opening {}", path.display());
        let (parent, name) = parent_and_name(path).with_context(opening)?;
        let found = match OwnDirectory::within(path, parent, name) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            found => found.with_context(opening)?,
        };
        ensure!(found.identity == identity, replaced(path));
        Ok(Some(found))
    }

    fn within(path: &Path, parent: File, name: &OsStr) -> io::Result<OwnDirectory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let content = File::from(openat(&parent, name, flags, Mode::empty())?);
        let identity = FileIdentity::from_metadata(&content.metadata()?);
        let (path, name) = (path.to_path_buf(), name.to_owned());
        Ok(OwnDirectory { path, name, parent, content, identity })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn identity(&self) -> FileIdentity {
        self.identity
    }

    /// Asks ext2, ext3 and ext4 to put each subdirectory into a block group of its own choice, as
    /// they do below the root (`chattr +T`). Otherwise all runs share a group, and a run that creates
    /// files after one that deleted some measures ext4 stepping over inodes deleted in the last
    /// minutes (`recently_deleted` in fs/ext4/ialloc.c): 25 times slower was seen.
    pub fn spread_subdirectories(&self) {
        // Other file systems refuse, which does no harm.
        if let Ok(flags) = ioctl_getflags(&self.content) {
            let _ = ioctl_setflags(&self.content, flags | IFlags::TOPDIR);
        }
    }

    /// Removes a directory in this one, with its content.
    pub fn remove_entry(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_dir_all(path_of_open(&self.content).join(name))
    }

    /// Removes the directory with its content, after unmounting what is mounted in it.
    ///
    /// # Errors
    /// Something stays mounted, the content cannot be removed, or the name leads to another directory
    /// now, which stays.
    pub fn remove(&self) -> Result<()> {
        removal::unmount_below(&self.path)?;
        let removing = || format!("removing {}", self.path.display());
        self.empty().with_context(removing)?;
        let named = path_of_open(&self.parent).join(&self.name);
        match fs::symlink_metadata(named) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            metadata => {
                let named = FileIdentity::from_metadata(&metadata.with_context(removing)?);
                ensure!(named == self.identity, replaced(&self.path));
            }
        }
        // Whatever takes the name in this moment is removed only if it is an empty directory.
        unlinkat(&self.parent, &self.name, AtFlags::REMOVEDIR).with_context(removing)
    }

    fn empty(&self) -> io::Result<()> {
        for entry in fs::read_dir(path_of_open(&self.content))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                self.remove_entry(&entry.file_name())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// Removes a directory from one that only this user can write to, after unmounting what is mounted in it. It
/// may be gone already.
///
/// # Errors
/// Something stays mounted or cannot be removed, or the directory above is a symbolic link now, or one that
/// others can write to.
pub fn remove_from_private(path: &Path) -> Result<()> {
    let removing = || format!("removing {}", path.display());
    if fs::symlink_metadata(path).is_err_and(|e| e.kind() == ErrorKind::NotFound) {
        return Ok(());
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(());
    };
    let held = open_directory(parent).with_context(removing)?;
    check_private(parent, &held.metadata()?).with_context(removing)?;
    removal::unmount_below(path)?;
    match fs::remove_dir_all(path_of_open(&held).join(name)) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e).with_context(removing),
        _ => Ok(()),
    }
}

fn replaced(path: &Path) -> String {
    let path = path.display();
    format!("{path} was replaced by another directory, which stays: remove it if it is not needed")
}

fn parent_and_name(path: &Path) -> io::Result<(File, &OsStr)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(ErrorKind::InvalidInput, "the path names no directory"));
    };
    // By path only: its entries may be made by those who cannot list them.
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;
    Ok((OpenOptions::new().read(true).custom_flags(flags).open(parent)?, name))
}

/// A path that leads to an open file, whatever has become of its name.
pub fn path_of_open(opened: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Opens a directory; fails on a symbolic link.
pub fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// What can take a directory's name: a link to files of others, or a directory with files of others.
    #[derive(Clone, Copy, Debug)]
    enum Swap {
        Link,
        Directory,
    }

    /// A thousand times, makes a directory, fills it and removes it, while another thread puts the victim
    /// in its place and takes it away again. The victim has the same names as the directory.
    fn check(swap: Swap) {
        let folder = tempfile::tempdir().unwrap();
        let (name, aside) = (folder.path().join("own"), folder.path().join("aside"));
        let victim = folder.path().join("victim");
        fs::create_dir_all(victim.join("task")).unwrap();
        fs::write(victim.join("task/file"), "precious").unwrap();
        fs::write(victim.join("file"), "precious").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let _ = fs::rename(&name, &aside);
                    let _ = match swap {
                        Swap::Link => symlink(&victim, &name).and_then(|()| fs::remove_file(&name)),
                        Swap::Directory => {
                            fs::rename(&victim, &name).and_then(|()| fs::rename(&name, &victim))
                        }
                    };
                    let _ = fs::rename(&aside, &name);
                }
            });
            for _ in 0..1000 {
                // The attacker may hold the name, or have renamed a directory over the empty one.
                let Ok(own) = OwnDirectory::create(&name) else { continue };
                let content = path_of_open(&own.content);
                let _ = fs::create_dir(content.join("task"));
                let _ = fs::write(content.join("file"), "own");
                let _ = own.remove_entry(OsStr::new("task"));
                let _ = own.remove();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        for file in ["task/file", "file"] {
            assert_eq!(fs::read_to_string(victim.join(file)).unwrap(), "precious", "{swap:?}");
        }
    }

    #[test]
    fn what_takes_the_place_of_an_own_directory_stays() {
        check(Swap::Link);
        check(Swap::Directory);
    }
}
