//! The sweep: undoes what dead knees left, as their journals name it. It undoes each thing only if
//! that is still what the journal says. A journal stays for the next sweep until everything in it
//! is undone.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use host::paths::user;

use super::changed_setting::ChangedSetting;
use super::folder::JournalFolder;
use super::undo_step::UndoStep;
use crate::directory::OwnDirectory;
use crate::metal;
use crate::ownership::{DIRECTORY_PREFIX, FileIdentity};

/// knee writes no journal longer than this.
const JOURNAL_BYTES_MAX: u64 = 1 << 20;

/// Undoes what dead knees left; returns a sentence about each thing undone or not. A thing that
/// cannot be undone now, perhaps on a file system mounted read-only, keeps nobody from measuring.
pub fn sweep(folder: &JournalFolder) -> Result<Vec<String>> {
    let mut messages = Vec::new();
    for name in folder.names()? {
        if name.extension() != Some(OsStr::new("journal")) {
            continue;
        }
        let Some(file) = open_dead(folder, &name, &mut messages) else { continue };
        let mut text = Vec::new();
        if file.take(JOURNAL_BYTES_MAX).read_to_end(&mut text).is_err() {
            continue;
        }
        if undo(&text, &mut messages) {
            folder.remove_file(name.as_os_str())?;
        }
    }
    Ok(messages)
}

/// Sweeps the user's journals on request (`knee doctor --clean`).
pub fn clean() -> Result<Vec<String>> {
    let mut messages = sweep(&JournalFolder::open_default()?)?;
    messages.extend(metal::sweep()?);
    Ok(messages)
}

/// Undoes what a journal names; returns whether nothing of it is left.
fn undo(journal: &[u8], messages: &mut Vec<String>) -> bool {
    let settings: Vec<ChangedSetting> =
        entries(journal).filter_map(ChangedSetting::parse).collect();
    let changed_settings = settings.iter().filter(|setting| !setting.sweep(messages)).count();
    let steps: Vec<UndoStep> = entries(journal).filter_map(UndoStep::parse).collect();
    // The newest first; a step that stays stands on those before it, so they stay too.
    if !steps.iter().rev().all(|step| step.sweep(messages)) {
        return false;
    }
    let directories = directories(journal).into_iter();
    let left = directories.filter(|(path, identity)| !is_gone(path, *identity, messages)).count();
    left + changed_settings == 0
}

/// Opens and locks a journal of this user's that no process holds. Any other file of such a name
/// must be neither believed nor waited for, as opening a pipe would.
fn open_dead(folder: &JournalFolder, name: &Path, messages: &mut Vec<String>) -> Option<File> {
    // Writable, since NFS grants an exclusive lock only on such a descriptor.
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
        .open(folder.entry(name.as_os_str()))
        .ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.uid() != user() {
        return None;
    }
    match file.try_lock() {
        Ok(()) => Some(file),
        // Its knee lives.
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(why)) => {
            let path = folder.path.join(name);
            messages.push(format!(
                "{} stays, as knee cannot tell whether its owner is alive: {why}",
                path.display()
            ));
            None
        }
    }
}

/// The entries of a journal. An entry without its NUL was cut off before anything was done.
fn entries(journal: &[u8]) -> impl Iterator<Item = &[u8]> {
    journal.split_inclusive(|b| *b == 0).filter_map(|entry| entry.strip_suffix(b"\0"))
}

/// The directories of a journal, each with its identity once it was created.
fn directories(journal: &[u8]) -> Vec<(&Path, Option<FileIdentity>)> {
    let mut directories = Vec::new();
    for entry in entries(journal) {
        match (entry, directories.last_mut()) {
            ([b'=' | b'~', ..], _) => (),
            ([b'/', ..], _) => directories.push((Path::new(OsStr::from_bytes(entry)), None)),
            (_, Some((_, identity))) => *identity = FileIdentity::parse(entry),
            (_, None) => (),
        }
    }
    directories
}

/// Removes a directory that a dead knee left; returns whether nothing is left to remove.
fn is_gone(path: &Path, identity: Option<FileIdentity>, messages: &mut Vec<String>) -> bool {
    let name = path.file_name().unwrap_or_default();
    if !name.as_bytes().starts_with(DIRECTORY_PREFIX.as_bytes()) {
        return true;
    }
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        // Without its parent it may be hidden, by a container or because its mount is missing.
        Err(e) => {
            return e.kind() == ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir);
        }
    };
    let is_ours = metadata.is_dir() && metadata.uid() == user();
    let removed = match identity {
        Some(identity) if is_ours && FileIdentity::from_metadata(&metadata) == identity => {
            OwnDirectory::find(path, identity)
                .and_then(|found| found.map_or(Ok(()), |d| d.remove()))
        }
        // Its knee was killed before it could use what it had created.
        None if is_ours && is_empty(path) => fs::remove_dir(path).context("removing it"),
        _ => {
            messages.push(format!("{} is not what a killed knee made, and stays", path.display()));
            return true;
        }
    };
    messages.push(match &removed {
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
