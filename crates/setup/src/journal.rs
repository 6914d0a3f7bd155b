//! Leftovers: directories that a killed knee could not remove, mounts and loop devices that it
//! could not undo, kernel settings that it could not put back. Before a run makes or changes one,
//! that is written to a journal that the run holds a lock on; a journal whose lock is free
//! belongs to a dead knee, and the next start undoes what it names (`sweep.rs`).
//!
//! A journal is entries that end in NUL: a path, and once the directory is made, its device
//! and inode; a setting, as `=PATH`, its value before and the value set, on three lines; or a
//! step, which begins with `~` (`step.rs`). knee may be root, and others may write where it
//! measures; so a journal counts only in a folder that is ours alone, a directory only if it is
//! still the one made, a setting only if it still has the value that we gave it, and a mount or
//! a loop device only if it still shows what we made.

mod sweep;
mod undo_step;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::paths::{self, check_private};
use host::stderr::talk;

use crate::{removal, settings};

pub use crate::journal::sweep::clean;
pub use undo_step::UndoStep;

/// How the names of directories begin that runs make.
pub const PREFIX: &str = ".knee-";

/// The journal of this process.
pub struct Journal {
    folder: Folder,
    name: String,
    file: File,
    directories: Vec<Directory>,
    settings: Vec<Setting>,
    steps: Vec<Written>,
    /// Up to here the journal holds what stays until the end.
    stays: u64,
    /// Whether all has been tried already.
    closed: bool,
}

/// A step, and where its entry begins in the journal.
struct Written {
    step: UndoStep,
    at: u64,
}

impl Journal {
    /// A journal for this process, after the dead ones' leftovers are removed.
    pub fn open() -> Result<Journal> {
        let folder = Folder::open(&folder()?).context("keeping a journal (set XDG_STATE_HOME)")?;
        sweep::sweep(&folder)?.into_iter().for_each(talk);
        let (name, file) = create(&folder)
            .with_context(|| format!("creating a journal in {}", folder.path.display()))?;
        Ok(Journal {
            folder,
            name,
            file,
            directories: Vec::new(),
            settings: Vec::new(),
            steps: Vec::new(),
            stays: 0,
            closed: false,
        })
    }

    /// A directory of our own in `parent`, for scratch; removed by [`Journal::close`].
    pub fn directory(&mut self, parent: &Path, name: &str) -> Result<PathBuf> {
        let parent = parent
            .canonicalize()
            .with_context(|| format!("looking for the directory {}", parent.display()))?;
        let path = parent.join(format!("{PREFIX}{name}"));
        if self.directories.iter().any(|directory| directory.path == path) {
            return Ok(path);
        }
        self.write(path.as_os_str().as_bytes(), Entry::Stays)?;
        DirBuilder::new().mode(0o700).create(&path).with_context(|| {
            format!("creating a directory in {}: choose another --dir", parent.display())
        })?;
        let found = fs::symlink_metadata(&path)
            .with_context(|| format!("looking at {}", path.display()))?;
        let made = Identity::of(&found);
        self.directories.push(Directory { path: path.clone(), made });
        self.write(made.text().as_bytes(), Entry::Stays)?;
        spread_subdirectories(&path);
        Ok(path)
    }

    /// Its own file.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// All values that kernel settings were given.
    pub fn given(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.settings.iter().map(|setting| (setting.path.as_path(), setting.set.as_str()))
    }

    /// From here on no other knee of this user changes kernel settings, for as long as we live:
    /// what one finds as the value before would be the other's.
    pub fn claim_settings(&self) -> Result<()> {
        // SAFETY: the folder is open. Its lock, and not a file's, which would stay behind.
        let claimed =
            unsafe { libc::flock(self.folder.opened.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) };
        ensure!(
            claimed == 0,
            "another knee is changing kernel settings, as its variants say: wait for its end"
        );
        Ok(())
    }

    /// Gives a kernel setting a value, until [`Journal::put_back`]. Returns what it reads as.
    pub fn set(&mut self, path: &Path, value: &str) -> Result<String> {
        let known = self.settings.iter().find(|setting| setting.path == path);
        let before = match known {
            Some(setting) => setting.before.clone(),
            None => settings::read(path)?,
        };
        self.note(Setting { path: path.to_path_buf(), before: before.clone(), set: value.into() })?;
        settings::write(path, value)?;
        // The kernel may round it, or write it in another way: that is what a next start finds.
        let set = settings::read(path)?;
        self.note(Setting { path: path.to_path_buf(), before, set: set.clone() })?;
        Ok(set)
    }

    fn note(&mut self, setting: Setting) -> Result<()> {
        if !self.settings.contains(&setting) {
            self.write(&setting.entry(), Entry::Stays)?;
            self.settings.push(setting);
        }
        Ok(())
    }

    /// Puts all kernel settings back.
    pub fn put_back(&mut self) -> Result<()> {
        let mut first_error = Ok(());
        for setting in &self.settings {
            let is_back = || settings::read(&setting.path).is_ok_and(|now| now == setting.before);
            if is_back() {
                continue;
            }
            // One that cannot be put back must not keep the others.
            let put_back = settings::write(&setting.path, &setting.before).and_then(|()| {
                ensure!(is_back(), "{} did not take its old value", setting.path.display());
                Ok(())
            });
            first_error = first_error.and(put_back.context("putting a kernel setting back"));
        }
        first_error
    }

    /// Writes down a step, to be taken after that. Returns how many there were before, for
    /// [`Journal::undo_to`].
    pub fn step(&mut self, step: UndoStep) -> Result<usize> {
        let at = self.write(&step.entry(), Entry::Passes)?;
        self.steps.push(Written { step, at });
        Ok(self.steps.len() - 1)
    }

    /// How many steps have been taken and not undone.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Undoes the newest steps, so that `left` of them are left. A step that cannot be undone
    /// stays, with all before it.
    pub fn undo_to(&mut self, left: usize) -> Result<()> {
        while self.steps.len() > left {
            let Some(newest) = self.steps.last() else { break };
            newest.step.undo()?;
            // Else the steps of many runs would make the journal long.
            let length = newest.at.max(self.stays);
            self.steps.pop();
            self.file
                .set_len(length)
                .with_context(|| format!("cutting a journal in {}", self.folder.path.display()))?;
        }
        Ok(())
    }

    /// Adds an entry and returns where it begins.
    fn write(&mut self, entry: &[u8], kind: Entry) -> Result<u64> {
        let mut written = || -> io::Result<(u64, u64)> {
            let at = self.file.metadata()?.len();
            self.file.write_all(&[entry, b"\0"].concat())?;
            self.file.sync_data()?;
            Ok((at, self.file.metadata()?.len()))
        };
        let (at, end) = written()
            .with_context(|| format!("writing a journal in {}", self.folder.path.display()))?;
        if kind == Entry::Stays {
            self.stays = end;
        }
        Ok(at)
    }

    /// Undoes all steps, puts settings back, removes all directories, then the journal.
    pub fn close(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        self.closed = true;
        // All are tried: one that cannot be put back must not keep the others.
        let undone = self.undo_to(0);
        self.put_back().and(undone)?;
        for directory in &self.directories {
            remove(&directory.path, directory.made)?;
        }
        self.folder.remove_file(OsStr::new(&self.name))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        // After an error elsewhere, which is the one to tell. What `close` could not undo, and
        // waited for, stays.
        if !self.closed {
            let _ = self.remove();
        }
    }
}

/// Whether an entry counts until the end or only until its step is undone.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    Stays,
    Passes,
}

/// A kernel setting that we change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    path: PathBuf,
    /// Its value before we first changed it.
    before: String,
    /// A value that we gave it.
    set: String,
}

impl Setting {
    fn entry(&self) -> Vec<u8> {
        let path = self.path.as_os_str().as_bytes();
        let values = format!("\n{}\n{}", self.before, self.set);
        [b"=", path, values.as_bytes()].concat()
    }

    fn read(entry: &[u8]) -> Option<Setting> {
        let text = str::from_utf8(entry.strip_prefix(b"=")?).ok()?;
        let mut lines = text.splitn(3, '\n');
        let path = settings::path(lines.next()?).ok()?;
        Some(Setting { path, before: lines.next()?.into(), set: lines.next()?.into() })
    }

    /// Puts back what a dead knee changed; whether nothing is left to do. What was done, or
    /// why not, is added to what is `said`.
    fn is_put_back(&self, said: &mut Vec<String>) -> bool {
        // Another value is somebody's decision since, or was put back.
        if settings::read(&self.path).map_or(true, |now| now != self.set || now == self.before) {
            return true;
        }
        let Setting { path, before, .. } = self;
        let put_back = settings::write(path, before);
        said.push(match &put_back {
            Ok(()) => format!(
                "put {} back to '{before}', changed by a knee that was killed",
                path.display()
            ),
            Err(why) => format!("a killed knee's setting stays: {why:#}"),
        });
        put_back.is_ok()
    }
}

/// A directory that we made.
struct Directory {
    path: PathBuf,
    made: Identity,
}

/// What tells a directory or a file from another one that takes its place later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Number of the device it lies on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

impl Identity {
    /// What tells this one.
    pub fn of(found: &Metadata) -> Identity {
        Identity { device: found.dev(), inode: found.ino() }
    }

    fn text(self) -> String {
        format!("{} {}", self.device, self.inode)
    }

    fn read(text: &[u8]) -> Option<Identity> {
        let (device, inode) = str::from_utf8(text).ok()?.split_once(' ')?;
        Some(Identity { device: device.parse().ok()?, inode: inode.parse().ok()? })
    }
}

/// The folder of the journals. It is held open, so that nobody who may rename what lies above
/// can slip in another one after we looked.
struct Folder {
    path: PathBuf,
    opened: File,
}

impl Folder {
    fn open(path: &Path) -> Result<Folder> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .with_context(|| format!("creating {}", path.display()))?;
        let opened = open_directory(path).with_context(|| format!("opening {}", path.display()))?;
        check_private(path, &opened.metadata()?)?;
        Ok(Folder { path: path.to_path_buf(), opened })
    }

    fn entry(&self, name: &OsStr) -> PathBuf {
        inside(&self.opened).join(name)
    }

    fn names(&self) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(inside(&self.opened))
            .with_context(|| format!("listing {}", self.path.display()))?;
        Ok(entries.flatten().map(|entry| PathBuf::from(entry.file_name())).collect())
    }

    fn remove_file(&self, name: &OsStr) -> Result<()> {
        match fs::remove_file(self.entry(name)) {
            // Two sweeps at once: the other was first.
            Err(e) if e.kind() != ErrorKind::NotFound => {
                Err(e).with_context(|| format!("removing {}", self.path.join(name).display()))
            }
            _ => Ok(()),
        }
    }
}

/// A path that leads to what is open, whatever has become of its name.
fn inside(opened: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Opens a directory, not what a symbolic link names.
fn open_directory(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

/// Journals lie in the user's state folder, apart by host, since homes may be shared.
fn folder() -> Result<PathBuf> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    Ok(paths::state()?.join(host.trim()))
}

/// Creates a journal and locks it. Its name is random, as two containers that share a home
/// may have the same process ids.
fn create(folder: &Folder) -> io::Result<(String, File)> {
    loop {
        let name = format!("{:016x}.journal", RandomState::new().build_hasher().finish());
        let path = folder.entry(OsStr::new(&name));
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok((name, file)),
            // Somebody's sweep took it for a dead one's before we had locked it.
            Ok(()) | Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(e)) => return Err(e),
        }
    }
}

/// Whether the path still leads to this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: io::Result<Metadata>| found.ok().map(|found| Identity::of(&found));
    identity(fs::symlink_metadata(path)) == identity(file.metadata())
}

/// Asks ext2, ext3 and ext4 to put each subdirectory into a block group of its own choice, as
/// they do below the root (`chattr +T`). Else all runs share a group, and a run that creates
/// files after one that deleted some measures ext4 stepping over inodes deleted in the last
/// minutes (`recently_deleted` in fs/ext4/ialloc.c): 25 times slower was seen.
fn spread_subdirectories(directory: &Path) {
    const TOP_DIRECTORY: libc::c_int = 0x0002_0000; // FS_TOPDIR_FL
    let Ok(directory) = open_directory(directory) else { return };
    let mut flags: libc::c_int = 0;
    // SAFETY: both calls take a live int. Other file systems refuse, which is well.
    unsafe {
        if libc::ioctl(directory.as_raw_fd(), libc::FS_IOC_GETFLAGS, &mut flags) == 0 {
            flags |= TOP_DIRECTORY;
            libc::ioctl(directory.as_raw_fd(), libc::FS_IOC_SETFLAGS, &flags);
        }
    }
}

/// Removes a directory, if it is still the one that was made.
fn remove(path: &Path, made: Identity) -> Result<()> {
    let directory = match open_directory(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened.with_context(|| format!("opening {}", path.display()))?,
    };
    ensure!(Identity::of(&directory.metadata()?) == made, "{} was replaced", path.display());
    removal::unmount_below(path)?;
    empty(&directory)
        .and_then(|()| fs::remove_dir(path))
        .with_context(|| format!("removing {}", path.display()))
}

/// Empties the directory that is open, and not what somebody may have put in its place.
fn empty(directory: &File) -> io::Result<()> {
    for entry in fs::read_dir(inside(directory))? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}
