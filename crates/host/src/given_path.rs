//! Paths that the user named. A symbolic link on the way is followed only if it belongs to this user, to root
//! or to who called sudo: anybody else could let it lead to files of theirs.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::fs::{fstat, fstatfs, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use crate::trusted_users::TrustedUsers;

/// As many links as the kernel follows; path_resolution(7).
const LINKS_MAX: usize = 40;

/// Where a path leads.
pub(crate) struct Place {
    /// The folder, by descriptor.
    pub(crate) folder: OwnedFd,
    /// A name in it, of no link unless it is replaced now; that of the folder itself is `.`.
    pub(crate) name: OsString,
    /// Whether the name is a link of /proc to what a process has open. It has no path.
    pub(crate) is_open: bool,
}

/// Follows a path to the folder that holds its last name, which nothing need have. `None` if a folder before
/// it is missing, unless these are to be made with `mode`.
pub(crate) fn walk(path: &Path, mode: Option<Mode>) -> Result<Option<Place>> {
    let following = || format!("following {}", path.display());
    let trusted = TrustedUsers::current();
    let mut names = VecDeque::new();
    let mut at = begin(path, &mut names).with_context(following)?;
    let mut links = 0;
    while let Some(name) = names.pop_front() {
        let is_last = names.is_empty();
        let place = |folder, is_open| Ok(Some(Place { folder, name: name.clone(), is_open }));
        let next = match (openat(&at, &name, ITSELF, Mode::empty()), mode) {
            (Err(Errno::NOENT), _) if is_last => return place(at, false),
            (Err(Errno::NOENT), Some(mode)) => make(&at, &name, mode).with_context(following)?,
            (Err(Errno::NOENT), None) => return Ok(None),
            (next, _) => next.with_context(following)?,
        };
        let found = fstat(&next)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
            if is_last {
                return place(at, false);
            }
            at = next;
        } else if fstatfs(&next)?.f_type == PROC_SUPER_MAGIC {
            if is_last {
                return place(at, true);
            }
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            at = openat(&at, &name, flags, Mode::empty()).with_context(following)?;
        } else {
            let target = OsString::from_vec(readlinkat(&next, "", Vec::new())?.into_bytes());
            ensure!(
                trusted.contains(found.st_uid),
                "{} leads over the symbolic link {} of user {}, who may let it lead elsewhere: name the path \
                 without it (it leads to {})",
                path.display(),
                name.display(),
                found.st_uid,
                target.display()
            );
            links += 1;
            ensure!(links <= LINKS_MAX, "{} leads over too many symbolic links", path.display());
            if let Some(root) = begin_link(Path::new(&target), &mut names)? {
                at = root;
            }
        }
    }
    Ok(Some(Place { folder: at, name: ".".into(), is_open: false }))
}

/// A name itself, be it a link.
const ITSELF: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder that a path begins at, and its names.
fn begin(path: &Path, names: &mut VecDeque<OsString>) -> Result<OwnedFd> {
    ensure!(!path.as_os_str().is_empty(), "a path is empty");
    match begin_link(path, names)? {
        Some(root) => Ok(root),
        None => folder(CWD, OsStr::new(".")),
    }
}

/// Puts the names of a path before others. Returns the root directory if the path begins there.
fn begin_link(path: &Path, names: &mut VecDeque<OsString>) -> Result<Option<OwnedFd>> {
    let mut root = None;
    for component in path.components().rev() {
        match component {
            Component::RootDir => root = Some(folder(CWD, OsStr::new("/"))?),
            Component::CurDir => (),
            Component::ParentDir => names.push_front("..".into()),
            Component::Normal(name) => names.push_front(name.to_owned()),
            Component::Prefix(_) => bail!("{} is no path", path.display()),
        }
    }
    Ok(root)
}

fn folder(above: impl AsFd, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(above, name, flags, Mode::empty())?)
}

fn make(above: &OwnedFd, name: &OsStr, mode: Mode) -> Result<OwnedFd> {
    match mkdirat(above, name, mode) {
        Ok(()) | Err(Errno::EXIST) => Ok(openat(above, name, ITSELF, Mode::empty())?),
        Err(e) => Err(e.into()),
    }
}

/// The folder that holds a file; a name alone lies in the current one.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => Path::new("/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_lies_in_the_current_folder() {
        assert_eq!(folder_of(Path::new("page.html")), Path::new("."));
        assert_eq!(folder_of(Path::new("pages/page.html")), Path::new("pages"));
        assert_eq!(folder_of(Path::new("/")), Path::new("/"));
    }
}
