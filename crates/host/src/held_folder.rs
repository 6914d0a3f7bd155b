//! Folders that others may be able to write to, held by descriptor. What lies in one may be replaced at any
//! moment by a link to a file of somebody else's, a pipe, a device or a file without end. So nothing below a
//! held folder is found by following a path:
//!
//!     HeldFolder::open(path)      the path that the user named: follows links of this user's and root's
//!       .folder(name)             a folder in it, never a link
//!       .read(name, limit)        a whole regular file of at most so many bytes
//!       .open_file(name, limit)   such a file to read piece by piece, as the Parquet file of samples
//!       .list()                   names, and what each of them is
//!       .replace(name, write)     written beside under a name that nothing had, then renamed; durable
//!       .put(name, text)          written and renamed too, but not durable
//!       .create_new(name)         a file under a name that nothing has
//!       .link(name, text)         appears whole or not at all; one of several writers makes it
//!       .append(name)             the one way to write into a file that is there: it has one name only
//!       .remove(name)             the name, never what it leads to
//!
//! None of these waits for another process, whatever lies there. It serves fleets, records and their stores,
//! caches, journals and logs.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::fs::{
    fcntl_getfl, fcntl_setfl, fstat, linkat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::given_path::{folder_of, walk};
use crate::random;

/// How long a file may be, by what it is: `a claim`.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    pub bytes: u64,
    pub what: &'static str,
}

/// More names than this in one folder are refused.
const NAMES_MAX: usize = 1_000_000;

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub kind: FileType,
}

impl Entry {
    /// Whether it is a folder, and no link to one.
    pub fn is_folder(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether it is a regular file, and no link to one.
    pub fn is_file(&self) -> bool {
        self.kind == FileType::RegularFile
    }
}

/// A folder that is found through its descriptor, whatever becomes of its name.
#[derive(Debug)]
pub struct HeldFolder {
    path: PathBuf,
    held: OwnedFd,
}

impl HeldFolder {
    /// Holds the folder that a path of the user's names. A symbolic link on the way is followed if it belongs
    /// to this user, to root or to who called sudo.
    pub fn open(path: &Path) -> Result<HeldFolder> {
        let none = || anyhow!("{} is not there", path.display());
        HeldFolder::open_if_there(path)?.with_context(none)
    }

    /// Holds the folder that a path of the user's names; `None` if nothing has the path.
    pub fn open_if_there(path: &Path) -> Result<Option<HeldFolder>> {
        let Some(place) = walk(path, None)? else { return Ok(None) };
        let link = if place.is_open { OFlags::NOFOLLOW } else { OFlags::empty() };
        hold(&place.folder, &place.name, FOLDER - link, path)
    }

    /// Holds a folder, after making it and those above it that are missing.
    pub fn create(path: &Path) -> Result<HeldFolder> {
        let making = || format!("creating {}", path.display());
        let place = walk(path, Some(Mode::from_raw_mode(0o777))).with_context(making)?;
        let place = place.with_context(making)?;
        make(&place.folder, &place.name, path)
    }

    /// Holds the folder above what a path of the user's names, and the last name, which is followed nowhere and
    /// which nothing need have.
    pub fn above(path: &Path) -> Result<(HeldFolder, &OsStr)> {
        let name = path.file_name().with_context(|| format!("{} is no name", path.display()))?;
        Ok((HeldFolder::open(folder_of(path))?, name))
    }

    /// The path by which it was opened, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder in this one; `None` if nothing has the name.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> Result<Option<HeldFolder>> {
        let name = plain(name.as_ref())?;
        hold(&self.held, name, FOLDER, &self.path.join(name))
    }

    /// A folder in this one, made if nothing has the name.
    pub fn create_folder(&self, name: impl AsRef<OsStr>) -> Result<HeldFolder> {
        let name = plain(name.as_ref())?;
        make(&self.held, name, &self.path.join(name))
    }

    /// Makes a folder under a name that nothing has; `None` if something has it.
    pub fn create_new_folder(&self, name: impl AsRef<OsStr>) -> Result<Option<HeldFolder>> {
        let name = plain(name.as_ref())?;
        match mkdirat(&self.held, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => hold(&self.held, name, FOLDER, &self.path.join(name)),
            Err(Errno::EXIST) => Ok(None),
            Err(e) => Err(e).with_context(|| format!("creating {}", self.shown(name))),
        }
    }

    /// The folder itself.
    pub fn stat(&self) -> Result<Stat> {
        fstat(&self.held).with_context(|| format!("looking at {}", self.path.display()))
    }

    /// What has a name here, itself and not where it leads; `None` if nothing has it.
    pub fn look(&self, name: impl AsRef<OsStr>) -> Result<Option<Stat>> {
        let name = plain(name.as_ref())?;
        match statat(&self.held, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found.with_context(|| format!("looking at {}", self.shown(name)))?)),
        }
    }

    /// The names here, with what they are, in no order.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let listing = || format!("listing {}", self.path.display());
        let mut entries = Vec::new();
        for entry in Dir::new(self.readable().with_context(listing)?).with_context(listing)? {
            let entry = entry.with_context(listing)?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if [".", ".."].contains(&&*name.to_string_lossy()) {
                continue;
            }
            // Some file systems say what a name is only if asked.
            let kind = match entry.file_type() {
                FileType::Unknown => match self.look(name)? {
                    Some(found) => FileType::from_raw_mode(found.st_mode),
                    None => continue,
                },
                kind => kind,
            };
            ensure!(
                entries.len() < NAMES_MAX,
                "{} holds more than {NAMES_MAX} files: remove those that knee did not write",
                self.path.display()
            );
            entries.push(Entry { name: name.to_owned(), kind });
        }
        Ok(entries)
    }

    /// Opens a regular file to read; `None` if nothing has the name.
    pub fn open_file(&self, name: impl AsRef<OsStr>, limit: Limit) -> Result<Option<File>> {
        let name = plain(name.as_ref())?;
        let Some(file) = self.open_regular(name, OFlags::RDONLY)? else { return Ok(None) };
        let bytes = file.metadata()?.len();
        ensure!(bytes <= limit.bytes, self.too_long(name, bytes, limit));
        Ok(Some(file))
    }

    /// Reads a whole regular file; `None` if nothing has the name.
    pub fn read(&self, name: impl AsRef<OsStr>, limit: Limit) -> Result<Option<Vec<u8>>> {
        let name = plain(name.as_ref())?;
        let Some(file) = self.open_file(name, limit)? else { return Ok(None) };
        let mut text = Vec::new();
        let read = (&file).take(limit.bytes + 1).read_to_end(&mut text);
        read.with_context(|| format!("reading {}", self.shown(name)))?;
        // It may grow meanwhile.
        ensure!(text.len() as u64 <= limit.bytes, self.too_long(name, text.len() as u64, limit));
        Ok(Some(text))
    }

    /// Reads a whole regular file of UTF-8; `None` if nothing has the name.
    pub fn read_text(&self, name: impl AsRef<OsStr>, limit: Limit) -> Result<Option<String>> {
        let name = plain(name.as_ref())?;
        let Some(text) = self.read(name, limit)? else { return Ok(None) };
        let text = String::from_utf8(text);
        Ok(Some(text.with_context(|| format!("reading {}", self.shown(name)))?))
    }

    /// Makes a file under a name that nothing has, open for writing.
    pub fn create_new(&self, name: impl AsRef<OsStr>) -> Result<File> {
        let name = plain(name.as_ref())?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | ONLY_FILES;
        let made = openat(&self.held, name, flags, Mode::from_raw_mode(0o666));
        Ok(made.with_context(|| format!("creating {}", self.shown(name)))?.into())
    }

    /// Writes a file so that a crash leaves the old file, the new one or none, never a part of it. Whatever has
    /// the name is replaced, and not written to.
    pub fn replace(
        &self,
        name: impl AsRef<OsStr>,
        write: impl FnOnce(&File) -> Result<()>,
    ) -> Result<()> {
        self.replace_by(name, unused_name(), write)
    }

    /// Writes a file as [`HeldFolder::replace`] does, by the name `beside`: a killed writer leaves what is
    /// unfinished under it, and the next removes it.
    pub fn replace_by(
        &self,
        name: impl AsRef<OsStr>,
        beside: impl AsRef<OsStr>,
        write: impl FnOnce(&File) -> Result<()>,
    ) -> Result<()> {
        let beside = beside.as_ref();
        self.remove(beside)?;
        self.write_beside(name.as_ref(), beside, |file| {
            write(file)?;
            Ok(file.sync_all()?)
        })?;
        self.sync()
    }

    /// Writes a file that readers see whole, old or new, and that a crash of the host may lose.
    pub fn put(&self, name: impl AsRef<OsStr>, text: &[u8]) -> Result<()> {
        let beside = unused_name();
        self.write_beside(name.as_ref(), beside.as_ref(), |mut file| Ok(file.write_all(text)?))
    }

    fn write_beside(
        &self,
        name: &OsStr,
        beside: &OsStr,
        write: impl FnOnce(&File) -> Result<()>,
    ) -> Result<()> {
        let name = plain(name)?;
        let written = || -> Result<()> {
            write(&self.create_new(beside)?)?;
            self.rename(beside, name)
        };
        let written = written();
        if written.is_err() {
            let _ = self.remove(beside);
        }
        written.with_context(|| format!("writing {}", self.shown(name)))
    }

    /// Opens a file for appending, made if nothing has the name.
    pub fn append(&self, name: impl AsRef<OsStr>) -> Result<File> {
        let name = plain(name.as_ref())?;
        let opened = self.open_regular(name, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)?;
        let file = opened.with_context(|| format!("{} was removed", self.shown(name)))?;
        self.check_one_name(name, &file)?;
        Ok(file)
    }

    /// Opens a file that is there to read it, and to lock or shorten it; `None` if nothing has the name.
    pub fn open_to_change(&self, name: impl AsRef<OsStr>) -> Result<Option<File>> {
        let name = plain(name.as_ref())?;
        let Some(file) = self.open_regular(name, OFlags::RDWR)? else { return Ok(None) };
        self.check_one_name(name, &file)?;
        Ok(Some(file))
    }

    /// Makes a file appear whole under a name that nothing has. `false` if something has it.
    pub fn link(&self, name: impl AsRef<OsStr>, text: &[u8]) -> Result<bool> {
        let name = plain(name.as_ref())?;
        let beside = unused_name();
        let appear = || -> Result<bool> {
            let mut file = self.create_new(&beside)?;
            file.write_all(text)?;
            file.sync_all()?;
            let linked = linkat(&self.held, &beside, &self.held, name, AtFlags::empty());
            // The answer of an NFS server may have been lost: the number of links tells.
            let is_ours = linked.is_ok() || fstat(&file)?.st_nlink == 2;
            match linked {
                Err(e) if !is_ours && e != Errno::EXIST => bail!(
                    "{e}: the directory must be on a file system with hard links that all hosts share"
                ),
                _ => Ok(is_ours),
            }
        };
        let appeared = appear().with_context(|| format!("making {}", self.shown(name)));
        let _ = self.remove(&beside);
        self.sync()?;
        appeared
    }

    /// Renames within this folder.
    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> Result<()> {
        let (from, to) = (plain(from.as_ref())?, plain(to.as_ref())?);
        renameat(&self.held, from, &self.held, to)
            .with_context(|| format!("renaming {} to {}", self.shown(from), to.display()))
    }

    /// Removes a name that is no folder's. `false` if nothing has it.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = plain(name.as_ref())?;
        match unlinkat(&self.held, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(false),
            removed => {
                removed.map(|()| true).with_context(|| format!("removing {}", self.shown(name)))
            }
        }
    }

    /// Removes a folder in this one. `false` if it holds anything, or nothing has the name.
    pub fn remove_empty_folder(&self, name: impl AsRef<OsStr>) -> Result<bool> {
        let name = plain(name.as_ref())?;
        match unlinkat(&self.held, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            removed => {
                removed.map(|()| true).with_context(|| format!("removing {}", self.shown(name)))
            }
        }
    }

    /// Flushes the folder: names created, renamed or removed in it become durable.
    pub fn sync(&self) -> Result<()> {
        let flushed = self.readable().and_then(|folder| File::from(folder).sync_all());
        flushed.with_context(|| format!("flushing folder {}", self.path.display()))
    }

    /// Gives the folder the modification time of now.
    pub fn touch(&self) -> Result<()> {
        let touched = self
            .readable()
            .and_then(|folder| File::from(folder).set_modified(std::time::SystemTime::now()));
        touched.with_context(|| format!("changing the time of {}", self.path.display()))
    }

    /// What is held is found by those who may not list it: a descriptor to list or flush it.
    fn readable(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(openat(&self.held, ".", flags, Mode::empty())?)
    }

    fn open_regular(&self, name: &OsStr, flags: OFlags) -> Result<Option<File>> {
        // Opening a device may already do something, so it is looked at first.
        let found = self.look(name)?;
        if let Some(found) = found {
            self.check_regular(name, &found)?;
        } else if !flags.contains(OFlags::CREATE) {
            return Ok(None);
        }
        let opened = openat(&self.held, name, flags | ONLY_FILES, Mode::from_raw_mode(0o666));
        let opened = match opened {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return Ok(None),
            // What it was when it was looked at has been replaced.
            Err(Errno::LOOP) => return Err(self.not_regular(name, FileType::Symlink)),
            Err(Errno::NXIO) => return Err(self.not_regular(name, FileType::Fifo)),
            Err(Errno::WOULDBLOCK) => bail!(
                "{} is held by a lease of another process (fcntl F_SETLEASE): end that process",
                self.shown(name)
            ),
            Err(e) => return Err(e).with_context(|| format!("opening {}", self.shown(name))),
        };
        self.check_regular(name, &fstat(&opened)?)?;
        fcntl_setfl(&opened, fcntl_getfl(&opened)? - OFlags::NONBLOCK)?;
        Ok(Some(opened.into()))
    }

    fn check_regular(&self, name: &OsStr, found: &Stat) -> Result<()> {
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(()),
            kind => Err(self.not_regular(name, kind)),
        }
    }

    fn not_regular(&self, name: &OsStr, kind: FileType) -> Error {
        match kind {
            FileType::Symlink => anyhow!(
                "{} is a symbolic link, and knee follows none where others may write: put the file itself there",
                self.shown(name)
            ),
            _ => not_regular(&self.path.join(name), kind, "remove it"),
        }
    }

    /// A file with several names may be somebody else's elsewhere.
    fn check_one_name(&self, name: &OsStr, file: &File) -> Result<()> {
        let names = fstat(file)?.st_nlink;
        ensure!(
            names <= 1,
            "{} has {names} names (hard links), and knee would change it under all of them: put a copy in its \
             place",
            self.shown(name)
        );
        Ok(())
    }

    fn too_long(&self, name: &OsStr, bytes: u64, limit: Limit) -> String {
        let advice = "remove it, or bring back what knee wrote";
        too_long(&self.path.join(name), bytes, limit, advice)
    }

    fn shown(&self, name: &OsStr) -> String {
        self.path.join(name).display().to_string()
    }
}

/// No link is followed, and opening waits for nobody.
const ONLY_FILES: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Says that a path leads to something else than a file, and what to do.
pub(crate) fn not_regular(path: &Path, kind: FileType, advice: &str) -> Error {
    anyhow!("{} is {}, not a file: {advice}", path.display(), name_of(kind))
}

/// Says that a file is longer than it may be, and what to do.
pub(crate) fn too_long(path: &Path, bytes: u64, limit: Limit, advice: &str) -> String {
    format!(
        "{} has {}, more than the {} that {} may have: {advice}",
        path.display(),
        size(bytes),
        size(limit.bytes),
        limit.what
    )
}

fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        FileType::RegularFile | FileType::Unknown => "of an unknown kind",
    }
}

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{} {name}", bytes.div_ceil(unit)),
        None => format!("{bytes} bytes"),
    }
}

/// A name that nothing has, for a file before it gets its own. Readers pass names over that begin with a dot.
fn unused_name() -> String {
    format!(".new-{:016x}", random())
}

/// One name, which leads to nothing outside the folder.
fn plain(name: &OsStr) -> Result<&OsStr> {
    let bytes = name.as_bytes();
    let is_plain = !bytes.is_empty() && bytes != b"." && bytes != b".." && !bytes.contains(&b'/');
    ensure!(is_plain && !bytes.contains(&0), "{name:?} is no name of a file in a folder");
    Ok(name)
}

/// By descriptor only: those who may not list a folder may use what is in it.
const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn hold(above: &OwnedFd, name: &OsStr, flags: OFlags, path: &Path) -> Result<Option<HeldFolder>> {
    match openat(above, name, flags, Mode::empty()) {
        Ok(held) => Ok(Some(HeldFolder { path: path.to_path_buf(), held })),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR | Errno::LOOP) => {
            bail!(
                "{} is not a folder, or a symbolic link to one: name the folder itself",
                path.display()
            )
        }
        Err(e) => Err(e).with_context(|| format!("opening {}", path.display())),
    }
}

fn make(above: &OwnedFd, name: &OsStr, path: &Path) -> Result<HeldFolder> {
    match mkdirat(above, name, Mode::from_raw_mode(0o777)) {
        Ok(()) | Err(Errno::EXIST) => (),
        Err(e) => return Err(e).with_context(|| format!("creating {}", path.display())),
    }
    hold(above, name, FOLDER, path)?.with_context(|| format!("{} was removed", path.display()))
}

#[cfg(test)]
mod tests;
