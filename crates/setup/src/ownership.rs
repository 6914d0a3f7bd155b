//! How knee recognizes what it made itself: by the names of its directories, and by device and
//! inode number, which differ where something else took the same name later. And where it makes
//! nothing: in directories in which other users can rename.

use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use host::TrustedUsers;
use rustix::fs::{getxattr, lgetxattr};

use crate::access_list::{Attribute, Writer, writers};

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
    let trusted = TrustedUsers::current();
    if let Some((who, above)) = who_can_rename_in(&trusted, directory)? {
        bail!(
            "{who} can rename in {}, and could put another directory in place of knee's during a run: \
             choose another --dir (in /tmp, only the owner of a file can rename it)",
            above.display()
        );
    }
    Ok(())
}

/// Who else can rename in a directory, or in one above it, and in which. `directory` is absolute and without
/// symbolic links.
pub(crate) fn who_can_rename_in<'a>(
    trusted: &TrustedUsers,
    directory: &'a Path,
) -> Result<Option<(String, &'a Path)>> {
    for above in directory.ancestors() {
        let metadata = fs::symlink_metadata(above)
            .with_context(|| format!("reading the owner of {}", above.display()))?;
        let writable = Writable::from_path(above, &metadata)
            .with_context(|| format!("finding who can rename in {}", above.display()))?;
        if let Some(who) = writable.stranger(trusted) {
            return Ok(Some((who, above)));
        }
    }
    Ok(None)
}

/// What decides who can write to a file, or rename in a directory.
pub(crate) struct Writable {
    owner: u32,
    /// With it, only the owner of a file in the directory renames it, and the directory's owner.
    is_sticky: bool,
    everybody: bool,
    others: Vec<Writer>,
}

impl Writable {
    /// Looks at what has a path, itself and not where it leads.
    pub(crate) fn from_path(path: &Path, metadata: &Metadata) -> Result<Writable> {
        Writable::new(metadata, &|name, value| lgetxattr(path, name, value))
    }

    pub(crate) fn from_file(file: &File, metadata: &Metadata) -> Result<Writable> {
        // fgetxattr(2) refuses a file that is open by path only.
        let link = format!("/proc/self/fd/{}", file.as_raw_fd());
        Writable::new(metadata, &|name, value| getxattr(&link, name, value))
    }

    fn new(metadata: &Metadata, attribute: Attribute) -> Result<Writable> {
        let mode = metadata.mode();
        Ok(Writable {
            owner: metadata.uid(),
            is_sticky: metadata.is_dir() && mode & 0o1000 != 0,
            everybody: mode & 0o002 != 0,
            others: writers(attribute, metadata.gid(), mode)?,
        })
    }

    /// Who else owns it or can write to it.
    pub(crate) fn stranger(&self, trusted: &TrustedUsers) -> Option<String> {
        if !trusted.contains(self.owner) {
            return Some(format!("user {}", self.owner));
        }
        if self.is_sticky {
            return None;
        }
        if self.everybody {
            return Some("every user".to_string());
        }
        self.others.iter().find_map(|writer| match writer {
            Writer::User(user) => (!trusted.contains(*user)).then(|| format!("user {user}")),
            // Where each user has a group of their own, it has the user's number.
            Writer::Group(group) if [self.owner, 0].contains(group) => None,
            Writer::Group(group) => Some(format!("group {group}")),
            Writer::Principal(name) => Some(name.clone()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(caller: (u32, Option<u32>), directory: (u32, u32, u32), expected: Option<&str>) {
        let trusted = TrustedUsers { user: caller.0, sudo_user: caller.1, outside: None };
        let (owner, group, mode) = directory;
        let no_list: Attribute = &|_, _| Err(rustix::io::Errno::NODATA);
        let (is_sticky, everybody) = (mode & 0o1000 != 0, mode & 0o002 != 0);
        let others = writers(no_list, group, mode).unwrap();
        let writable = Writable { owner, is_sticky, everybody, others };
        assert_eq!(writable.stranger(&trusted).as_deref(), expected);
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

    /// Gives a file or directory of root's the list: owner, named user 64321, group, mask, everybody.
    fn give_list(path: &Path, named: u16, mask: u16) {
        let entries =
            [(1, 7, u32::MAX), (2, named, 64_321), (4, 5, u32::MAX), (0x10, mask, u32::MAX)];
        let mut list = 2u32.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries.into_iter().chain([(0x20, 5, u32::MAX)]) {
            list.extend_from_slice(&u16::to_le_bytes(tag));
            list.extend_from_slice(&u16::to_le_bytes(permissions));
            list.extend_from_slice(&u32::to_le_bytes(id));
        }
        rustix::fs::setxattr(
            path,
            "system.posix_acl_access",
            &list,
            rustix::fs::XattrFlags::empty(),
        )
        .unwrap();
    }

    #[test]
    fn others_can_rename_where_an_access_control_list_lets_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let none = rustix::fs::lgetxattr(&path, "system.posix_acl_access", &mut [0; 1][..]);
        if none == Err(rustix::io::Errno::OPNOTSUPP) {
            return eprintln!("skipped: {} has no access control lists", path.display());
        }
        check_that_nobody_else_can_rename_in(&path).unwrap();
        give_list(&path, 7, 5);
        check_that_nobody_else_can_rename_in(&path).unwrap();
        give_list(&path, 5, 7);
        check_that_nobody_else_can_rename_in(&path).unwrap();
        give_list(&path, 7, 7);
        let why = check_that_nobody_else_can_rename_in(&path).unwrap_err().to_string();
        assert!(why.contains("user 64321 can rename in"), "{why}");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
        check_that_nobody_else_can_rename_in(&path).unwrap();
    }
}
