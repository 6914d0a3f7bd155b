//! The sweep: undoes what dead knees left, as their journals name it. Each thing is undone only
//! if it is still what the journal says; what cannot be undone now keeps its journal, for the
//! next sweep.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use host::paths::user;

use crate::journal::{Folder, Identity, PREFIX, Setting, UndoStep, remove};

/// A journal longer than this is not ours.
const JOURNAL_BYTES_MAX: u64 = 1 << 20;

/// Undoes what dead processes left, and says in sentences what it undid. What cannot be undone
/// now, on a file system mounted read-only perhaps, must not keep anybody from measuring.
pub fn sweep(folder: &Folder) -> Result<Vec<String>> {
    let mut said = Vec::new();
    for name in folder.names()? {
        if name.extension() != Some(OsStr::new("journal")) {
            continue;
        }
        let Some(file) = open_dead(folder, &name, &mut said) else { continue };
        let mut text = Vec::new();
        if file.take(JOURNAL_BYTES_MAX).read_to_end(&mut text).is_err() {
            continue;
        }
        if undo(&text, &mut said) {
            folder.remove_file(name.as_os_str())?;
        }
    }
    Ok(said)
}

/// The same on request: what was undone, a sentence each.
pub fn clean() -> Result<Vec<String>> {
    sweep(&Folder::open(&super::folder()?)?)
}

/// Undoes what a journal names; whether nothing of it is left.
fn undo(journal: &[u8], said: &mut Vec<String>) -> bool {
    let settings: Vec<Setting> = texts(journal).filter_map(Setting::read).collect();
    let settings = settings.iter().filter(|setting| !setting.is_put_back(said)).count();
    let steps: Vec<UndoStep> = texts(journal).filter_map(UndoStep::read).collect();
    // The newest first, and no further where one stays: it stands on those before it.
    if !steps.iter().rev().all(|step| step.is_undone(said)) {
        return false;
    }
    let directories = entries(journal);
    let left = directories.into_iter().filter(|(path, made)| !is_gone(path, *made, said)).count();
    left + settings == 0
}

/// Opens and locks a journal of ours that nobody holds. Whatever else has such a name must
/// neither be believed nor make us wait, as a pipe would.
fn open_dead(folder: &Folder, name: &Path, said: &mut Vec<String>) -> Option<File> {
    // Writable, since NFS grants an exclusive lock only on such a descriptor.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(folder.entry(name.as_os_str()))
        .ok()?;
    let found = file.metadata().ok()?;
    if !found.is_file() || found.uid() != user() {
        return None;
    }
    match file.try_lock() {
        Ok(()) => Some(file),
        // Its knee lives.
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(why)) => {
            let path = folder.path.join(name);
            said.push(format!("whether a knee holds {} is not known: {why}", path.display()));
            None
        }
    }
}

/// The entries of a journal. What has no end was cut off before anything was done.
fn texts(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|b| *b == 0).filter_map(|entry| entry.strip_suffix(b"\0"))
}

/// The directories of a journal, and what they were once they had been made. What has no end
/// was cut off before its directory was made.
fn entries(text: &[u8]) -> Vec<(&Path, Option<Identity>)> {
    let mut entries = Vec::new();
    for entry in texts(text) {
        match (entry, entries.last_mut()) {
            ([b'=' | b'~', ..], _) => (),
            ([b'/', ..], _) => entries.push((Path::new(OsStr::from_bytes(entry)), None)),
            (_, Some((_, made))) => *made = Identity::read(entry),
            (_, None) => (),
        }
    }
    entries
}

/// Removes a directory that a dead process left; whether there is nothing left to remove.
fn is_gone(path: &Path, made: Option<Identity>, said: &mut Vec<String>) -> bool {
    let name = path.file_name().unwrap_or_default();
    if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
        return true;
    }
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        // Without its parent it may be hidden, by a container or for want of a mount.
        Err(e) => {
            return e.kind() == ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir);
        }
    };
    let ours = found.is_dir() && found.uid() == user();
    let removed = match made {
        Some(made) if ours && Identity::of(&found) == made => remove(path, made),
        // Killed before it could use what it made.
        None if ours && is_empty(path) => fs::remove_dir(path).context("removing it"),
        _ => {
            said.push(format!("{} is not what a killed knee made, and stays", path.display()));
            return true;
        }
    };
    said.push(match &removed {
        Ok(()) => format!("removed {}, left by a knee that was killed", path.display()),
        Err(why) => {
            format!("{}, left by a knee that was killed, is still there: {why:#}", path.display())
        }
    });
    removed.is_ok()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}
