//! Whether a file is the user's own, so that what it asks for may be run without a question. Own is a
//! file that only the user (or root) can have written, below a folder that is the user's: the home
//! folder, or the current directory.

use std::env;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host::paths::{home_given, home_of};
use host::{Limit, TrustedUsers, given_file};

use crate::ownership::{Writable, who_can_rename_in};

/// Why an open file is not the user's own, to follow the file's name; `None` if it is. Looks at the file
/// that is open, which may no longer be the one that has its name.
pub fn why_not_own(file: &File) -> Result<Option<String>> {
    if let Some(why) = why_written_by_others(file)? {
        return Ok(Some(why));
    }
    let path = path_of(file)?;
    let parent = path.parent().unwrap_or(&path);
    Ok(why_elsewhere(parent, &own_folders(&TrustedUsers::current())))
}

/// Why others than the user and root may have written an open file, to follow the file's name; `None` if
/// they cannot.
pub fn why_written_by_others(file: &File) -> Result<Option<String>> {
    let path = path_of(file)?;
    let trusted = TrustedUsers::current();
    let metadata = file.metadata().with_context(|| format!("reading {}", path.display()))?;
    if !metadata.is_file() {
        return Ok(Some("is not a file: nobody knows who wrote it".to_string()));
    }
    let writable = Writable::from_file(file, &metadata)
        .with_context(|| format!("finding who can write to {}", path.display()))?;
    if let Some(who) = writable.stranger(&trusted) {
        return Ok(Some(format!("can be written by {who}")));
    }
    let Some(parent) = path.parent() else { return Ok(None) };
    let who = who_can_rename_in(&trusted, parent)?;
    Ok(who.map(|(who, above)| {
        format!("can be replaced by {who}, who can rename in {}", above.display())
    }))
}

/// Why others than the user and root may have written a file of code, to follow its name; `None` if they
/// cannot. Where it lies does not matter: the user named it, or a file of the user's own did.
pub fn why_code_not_own(path: &Path) -> Result<Option<String>> {
    why_written_by_others(&given_file::open(path, ANY_LENGTH).context("looking for the file")?)
}

/// Why others decide what lies in a folder, to follow its name; `None` if they do not.
pub fn why_others_can_rename_in(folder: &Path) -> Result<Option<String>> {
    let real = folder.canonicalize().with_context(|| format!("opening {}", folder.display()))?;
    let who = who_can_rename_in(&TrustedUsers::current(), &real)?;
    Ok(who.map(|(who, above)| {
        format!("is a directory where {who} can rename in {}", above.display())
    }))
}

/// Why what is kept in a folder, such as a record, may be another's than the user's; `None` if it is the
/// user's: nobody else can write the files with these names, and it lies below a folder of the user's or in the
/// store that the user named.
pub fn why_kept_by_others(folder: &Path, names: &[&str], store: &Path) -> Result<Option<String>> {
    let folder = folder.canonicalize().with_context(|| format!("opening {}", folder.display()))?;
    for name in names {
        let path = folder.join(name);
        if !path.exists() {
            continue;
        }
        if let Some(why) = why_written_by_others(&given_file::open(&path, ANY_LENGTH)?)? {
            return Ok(Some(why));
        }
    }
    let mut own = own_folders(&TrustedUsers::current());
    own.extend(store.canonicalize().ok());
    Ok(why_elsewhere(&folder, &own))
}

/// A file that is judged, and read elsewhere.
const ANY_LENGTH: Limit = Limit { bytes: u64::MAX, what: "a file" };

/// The path of an open file, without symbolic links.
fn path_of(file: &File) -> Result<PathBuf> {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    fs::read_link(&link).with_context(|| format!("reading {link}"))
}

fn why_elsewhere(parent: &Path, own_folders: &[PathBuf]) -> Option<String> {
    let is_below = own_folders.iter().any(|folder| parent.starts_with(folder));
    (!is_below).then(|| {
        let folders: Vec<String> = own_folders.iter().map(|f| f.display().to_string()).collect();
        match folders.as_slice() {
            [] => "lies in no folder of yours".to_string(),
            _ => format!("does not lie below a folder of yours ({})", folders.join(", ")),
        }
    })
}

/// The user's folders without symbolic links: the home folder, that of the user who called sudo, and the
/// current directory if it belongs to one of them. The root directory is nobody's own.
fn own_folders(trusted: &TrustedUsers) -> Vec<PathBuf> {
    let users = [Some(trusted.user), trusted.sudo_user];
    let homes = users.iter().flatten().filter_map(|user| home_of(*user));
    let is_own = |folder: &PathBuf| {
        fs::metadata(folder).is_ok_and(|metadata| users.contains(&Some(metadata.uid())))
    };
    let here = env::current_dir().ok().filter(is_own);
    let folders = home_given().filter(is_own).into_iter().chain(homes).chain(here);
    let mut own: Vec<PathBuf> = Vec::new();
    for folder in folders.filter_map(|folder| folder.canonicalize().ok()) {
        if folder != Path::new("/") && !own.contains(&folder) {
            own.push(folder);
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_can_write_or_that_is_a_pipe_is_not_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.toml");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        let said = |path: &Path| why_not_own(&File::open(path).unwrap()).unwrap().unwrap();
        assert_eq!(said(&path), "can be written by every user");
        assert_eq!(said(Path::new("/dev/null")), "is not a file: nobody knows who wrote it");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(said(&path).contains("can be replaced by every user, who can rename in /"));
    }

    #[test]
    fn own_is_what_lies_below_an_own_folder() {
        let own = [PathBuf::from("/home/a"), PathBuf::from("/work")];
        assert_eq!(why_elsewhere(Path::new("/home/a/x"), &own), None);
        assert_eq!(why_elsewhere(Path::new("/work"), &own), None);
        assert_eq!(
            why_elsewhere(Path::new("/home/ab"), &own).unwrap(),
            "does not lie below a folder of yours (/home/a, /work)"
        );
        assert_eq!(why_elsewhere(Path::new("/x"), &[]).unwrap(), "lies in no folder of yours");
    }
}
