//! How knee recognizes what it made itself: by the names of its directories, and by device and
//! inode number, which differ where something else took the same name later. And where it makes
//! nothing: in directories in which other users can rename.

use std::env;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use host::paths::user;

/// The prefix of the names of the directories that runs create.
pub const DIRECTORY_PREFIX: &str = ".knee-";

/// Distinguishes a directory or file from another one that takes its name later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Number of the device that holds it.
    pub device: u64,
    pub inode: u64,
}

impl FileIdentity {
    pub fn from_metadata(metadata: &Metadata) -> FileIdentity {
        FileIdentity { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Its text in a journal: `DEVICE INODE`.
    pub fn text(self) -> String {
        format!("{} {}", self.device, self.inode)
    }

    pub fn parse(text: &[u8]) -> Option<FileIdentity> {
        let (device, inode) = str::from_utf8(text).ok()?.split_once(' ')?;
        Some(FileIdentity { device: device.parse().ok()?, inode: inode.parse().ok()? })
    }
}

/// Refuses a directory in which another user could rename, or in a directory above it: a run works by
/// path, and so it would create and overwrite files where a symbolic link leads that took the place of
/// one of its directories. `directory` is absolute and without symbolic links.
pub fn check_that_nobody_else_can_rename_in(directory: &Path) -> Result<()> {
    let trusted = Trusted::current();
    if let Some((who, above)) = trusted.who_can_rename_in(directory)? {
        bail!(
            "{who} can rename in {}, and could put another directory in place of knee's during a run: \
             choose another --dir (in /tmp, only the owner of a file can rename it)",
            above.display()
        );
    }
    Ok(())
}

/// Users who may change what knee uses: this user, root, and who called sudo.
pub(crate) struct Trusted {
    pub(crate) user: u32,
    /// The user who started knee with sudo, and can do as root what root can.
    pub(crate) sudo_user: Option<u32>,
    /// What the kernel shows in a user namespace for users outside it, root among them.
    outside: Option<u32>,
}

impl Trusted {
    pub(crate) fn current() -> Trusted {
        let number = |text: String| text.trim().parse().ok();
        let is_root = user() == 0;
        let maps = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let is_namespace = maps.split_whitespace().ne(["0", "0", "4294967295"]);
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
        Trusted {
            user: user(),
            sudo_user: env::var("SUDO_UID").ok().and_then(number).filter(|_| is_root),
            outside: overflow.and_then(number).filter(|_| is_namespace),
        }
    }

    /// Who else can rename in a directory, or in one above it, and in which. `directory` is absolute and
    /// without symbolic links.
    pub(crate) fn who_can_rename_in<'a>(
        &self,
        directory: &'a Path,
    ) -> Result<Option<(String, &'a Path)>> {
        for above in directory.ancestors() {
            let metadata = fs::symlink_metadata(above)
                .with_context(|| format!("reading the owner of {}", above.display()))?;
            let stranger = self.stranger(metadata.uid(), metadata.gid(), metadata.mode());
            if let Some(who) = stranger {
                return Ok(Some((who, above)));
            }
        }
        Ok(None)
    }

    /// Who else owns, or can write to, what has this owner, group and mode; in a directory that means to
    /// rename.
    pub(crate) fn stranger(&self, owner: u32, group: u32, mode: u32) -> Option<String> {
        let trusted = [Some(0), Some(self.user), self.sudo_user, self.outside];
        if !trusted.contains(&Some(owner)) {
            return Some(format!("user {owner}"));
        }
        // With the sticky bit, only the owner of a file renames it, and the directory's.
        let (is_sticky, groups, others) =
            (mode & 0o1000 != 0, mode & 0o020 != 0, mode & 0o002 != 0);
        // Where each user has a group of their own, it has the user's number.
        let is_own_group = group == owner || group == 0;
        match (is_sticky, others, groups && !is_own_group) {
            (true, ..) | (_, false, false) => None,
            (_, true, _) => Some("every user".to_string()),
            (_, _, true) => Some(format!("group {group}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(caller: (u32, Option<u32>), directory: (u32, u32, u32), expected: Option<&str>) {
        let trusted = Trusted { user: caller.0, sudo_user: caller.1, outside: None };
        let (owner, group, mode) = directory;
        assert_eq!(trusted.stranger(owner, group, mode).as_deref(), expected);
    }

    #[test]
    fn others_can_rename_where_they_own_or_write_without_the_sticky_bit() {
        let (root, sudo, anna) = ((0, None), (0, Some(7)), (7, None));
        check(root, (0, 0, 0o755), None);
        check(root, (0, 0, 0o1777), None);
        check(root, (0, 0, 0o777), Some("every user"));
        check(root, (0, 0, 0o775), None);
        check(root, (0, 50, 0o2775), Some("group 50"));
        check(root, (7, 7, 0o755), Some("user 7"));
        check(root, (7, 7, 0o1777), Some("user 7"));
        check(sudo, (7, 7, 0o755), None);
        check(anna, (7, 7, 0o775), None);
        check(anna, (7, 50, 0o775), Some("group 50"));
        check(anna, (8, 8, 0o755), Some("user 8"));
        check(anna, (0, 0, 0o1777), None);
    }
}
