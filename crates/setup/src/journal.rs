//! The journal: directories, mounts, loop devices and kernel settings that a run must undo. Each is
//! written to the journal before it is made or changed, and the run holds a lock on its journal. A
//! journal whose lock is free belongs to a dead knee, and the next start undoes what it names
//! (`sweep.rs`).
//!
//! A journal is a sequence of entries that end in NUL:
//!
//! - a directory's path, and once the directory exists, its device and inode;
//! - a kernel setting (`changed_setting.rs`), which begins with `=`;
//! - a step (`undo_step.rs`), which begins with `~`.
//!
//! knee may be root, and others may write where it measures. So a journal counts only in a folder
//! that only this user can write to, a directory only if it is still the one created, a setting
//! only if it still has the value that knee set, and a mount or a loop device only if it still
//! shows what knee made.

mod changed_setting;
mod folder;
mod sweep;
mod undo_step;

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use host::terminal::talk;

use self::changed_setting::ChangedSetting;
use self::folder::JournalFolder;
use crate::directory::OwnDirectory;
use crate::metal;
use crate::ownership::{self, DIRECTORY_PREFIX, FileIdentity};
use crate::settings;

pub use self::sweep::clean;
pub use self::undo_step::UndoStep;

/// The journal of this process.
pub struct Journal {
    folder: JournalFolder,
    /// The name of its file, which exists from the first entry on: a knee that ends before it changes anything leaves
    /// nothing.
    name: String,
    file: Option<File>,
    directories: Vec<OwnDirectory>,
    settings: Vec<ChangedSetting>,
    steps: Vec<WrittenStep>,
    /// Length up to the last entry that stays until the journal is closed.
    lasting_bytes: u64,
    /// Whether everything has been undone, or at least tried.
    closed: bool,
}

/// A step, and where its entry begins in the journal.
struct WrittenStep {
    step: UndoStep,
    offset: u64,
}

impl Journal {
    /// Begins a journal for this process, after undoing what dead knees left.
    pub fn open() -> Result<Journal> {
        let folder =
            JournalFolder::open_default().context("keeping a journal (set XDG_STATE_HOME)")?;
        sweep::sweep(&folder)?.into_iter().chain(metal::sweep()?).for_each(talk);
        // Random, as two containers that share a home may have the same process ids.
        let name = format!("{:016x}.journal", host::random());
        Ok(Journal {
            folder,
            name,
            file: None,
            directories: Vec::new(),
            settings: Vec::new(),
            steps: Vec::new(),
            lasting_bytes: 0,
            closed: false,
        })
    }

    /// Creates a scratch directory in `parent`, once for each name; [`Journal::close`] removes it.
    pub fn directory(&mut self, parent: &Path, name: &str) -> Result<PathBuf> {
        let parent = parent
            .canonicalize()
            .with_context(|| format!("looking for the directory {}", parent.display()))?;
        let path = parent.join(format!("{DIRECTORY_PREFIX}{name}"));
        if self.directories.iter().any(|directory| directory.path() == path) {
            return Ok(path);
        }
        ownership::check_that_nobody_else_can_rename_in(&parent)?;
        self.write(path.as_os_str().as_bytes(), Lifetime::Lasting)?;
        let directory = OwnDirectory::create(&path).with_context(|| {
            format!("creating a directory in {}: choose another --dir", parent.display())
        })?;
        directory.spread_subdirectories();
        let identity = directory.identity().text();
        self.directories.push(directory);
        self.write(identity.as_bytes(), Lifetime::Lasting)?;
        Ok(path)
    }

    /// The path of the journal's own file.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// All values that knee has set, by the setting's file.
    pub fn given(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.settings.iter().map(|setting| (setting.path.as_path(), setting.set.as_str()))
    }

    /// Keeps other knees of this user from changing kernel settings while this process lives:
    /// otherwise one would record a value set by another one as the value before.
    pub fn claim_settings(&self) -> Result<()> {
        self.folder.claim_settings()
    }

    /// Sets a kernel setting until [`Journal::put_back`]. Returns the value that it then reads as.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<String> {
        let mut before = settings::read_beside(path, value)?;
        for setting in self.settings.iter().filter(|setting| setting.path == path) {
            if settings::are_alike(path, &setting.before, value)? {
                before = setting.before.clone();
                break;
            }
        }
        let path_buf = path.to_path_buf();
        self.note(ChangedSetting {
            path: path_buf.clone(),
            before: before.clone(),
            set: value.into(),
        })?;
        settings::write(path, value)?;
        // The kernel may round the value or format it differently, and a sweep compares with that.
        let set = settings::read_beside(path, value)?;
        self.note(ChangedSetting { path: path_buf, before, set: set.clone() })?;
        Ok(set)
    }

    fn note(&mut self, setting: ChangedSetting) -> Result<()> {
        if !self.settings.contains(&setting) {
            self.write(&setting.entry(), Lifetime::Lasting)?;
            self.settings.push(setting);
        }
        Ok(())
    }

    /// Restores all kernel settings. Tries each, and returns the first error.
    pub fn put_back(&mut self) -> Result<()> {
        let mut restored = Ok(());
        for setting in &self.settings {
            // The others are restored even if one cannot be; the first error is returned.
            restored = restored.and(setting.restore());
        }
        restored
    }

    /// Journals a step that the caller takes next. Returns the number of steps before it, for
    /// [`Journal::undo_to`].
    pub fn step(&mut self, step: UndoStep) -> Result<usize> {
        let offset = self.write(&step.entry(), Lifetime::UntilUndone)?;
        self.steps.push(WrittenStep { step, offset });
        Ok(self.steps.len() - 1)
    }

    /// The number of steps that have been taken and not undone.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Undoes the newest steps until `remaining` are left. Stops at the first step that cannot be
    /// undone, because it stands on those before it.
    pub fn undo_to(&mut self, remaining: usize) -> Result<()> {
        while self.steps.len() > remaining {
            let Some(newest) = self.steps.last() else { break };
            newest.step.undo()?;
            // Truncates the journal, which the steps of many runs would make long.
            let length = newest.offset.max(self.lasting_bytes);
            self.steps.pop();
            let truncated = self.file.as_ref().map_or(Ok(()), |file| file.set_len(length));
            truncated.with_context(|| {
                format!("truncating a journal in {}", self.folder.path.display())
            })?;
        }
        Ok(())
    }

    /// Appends an entry durably and returns its offset.
    fn write(&mut self, entry: &[u8], lifetime: Lifetime) -> Result<u64> {
        let mut append = || -> io::Result<(u64, u64)> {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(create(&self.folder, &self.name)?),
            };
            let offset = file.metadata()?.len();
            file.write_all(&[entry, b"\0"].concat())?;
            file.sync_data()?;
            Ok((offset, file.metadata()?.len()))
        };
        let (offset, end) = append()
            .with_context(|| format!("writing a journal in {}", self.folder.path.display()))?;
        if lifetime == Lifetime::Lasting {
            self.lasting_bytes = end;
        }
        Ok(offset)
    }

    /// Undoes all steps, restores settings, removes all directories, then the journal.
    pub fn close(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        self.closed = true;
        // Settings are restored even if a step cannot be undone.
        let undone = self.undo_to(0);
        self.put_back().and(undone)?;
        for directory in &self.directories {
            directory.remove()?;
        }
        self.folder.remove_file(OsStr::new(&self.name))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // Reached after an error elsewhere, which is the one to report. What `close` tried and
        // could not undo stays for the next sweep.
        if !self.closed {
            let _ = self.remove();
        }
    }
}

/// How long an entry counts.
#[derive(Clone, Copy, PartialEq)]
enum Lifetime {
    /// Until the journal is closed.
    Lasting,
    UntilUndone,
}

/// How often a file is created that a concurrent sweep removes.
const CREATIONS: usize = 1000;

/// Creates the file of a journal and locks it.
fn create(folder: &JournalFolder, name: &str) -> io::Result<File> {
    let path = folder.entry(OsStr::new(name));
    let mut options = OpenOptions::new();
    options.append(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    for _ in 0..CREATIONS {
        match options.open(&path) {
            Ok(file) => match file.try_lock() {
                Ok(()) if leads_to(&path, &file) => return Ok(file),
                Ok(()) | Err(TryLockError::WouldBlock) => (),
                Err(TryLockError::Error(e)) => return Err(e),
            },
            Err(e) if e.kind() == ErrorKind::AlreadyExists => (),
            Err(e) => return Err(e),
        }
        // A concurrent sweep took it for a dead knee's before it was locked, and removes it.
        thread::sleep(Duration::from_millis(1));
    }
    Err(io::Error::other("another process keeps removing it"))
}

/// Whether a path still leads to an open file.
fn leads_to(path: &Path, file: &File) -> bool {
    let identity = |metadata: io::Result<Metadata>| {
        metadata.ok().map(|metadata| FileIdentity::from_metadata(&metadata))
    };
    identity(fs::symlink_metadata(path)) == identity(file.metadata())
}
