//! Removal of a run's directory with its content, but never with what somebody has mounted in it: a
//! command's preparation may have mounted a file system and not unmounted it, and its files are not
//! knee's.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use host::paths::check_private;
use rustix::mount::UnmountFlags;

use crate::directory::{open_directory, path_of_open};

/// Removes a directory, which may be gone already, after unmounting what is mounted in it.
pub fn remove(path: &Path) -> Result<()> {
    unmount_below(path)?;
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Removes a directory like [`remove`], from a directory that only this user can write to. Does nothing
/// where others have put another one in that directory's place.
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
    unmount_below(path)?;
    match fs::remove_dir_all(path_of_open(&held).join(name)) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e).with_context(removing),
        _ => Ok(()),
    }
}

/// Unmounts everything mounted in a directory, the newest first. Fails at the first that stays.
pub fn unmount_below(path: &Path) -> Result<()> {
    for mount in host::mounts::below(path).iter().rev() {
        rustix::mount::unmount(mount, UnmountFlags::NOFOLLOW).with_context(|| {
            format!(
                "{} is still mounted: unmount it, then remove {}",
                mount.display(),
                path.display()
            )
        })?;
    }
    Ok(())
}
