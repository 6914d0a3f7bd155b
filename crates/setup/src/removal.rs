//! Removal of a run's directory with its content, but never with what somebody has mounted in it: a
//! command's preparation may have mounted a file system and not unmounted it, and its files are not
//! knee's.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::mount::UnmountFlags;

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
