//! The one operation behind the open-close workloads, which differ in whose file it is
//! and in which directory.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::{self, Name};
use crate::{Failure, Kind, Load, Parameter, Prepared, Task, sys};

/// How the file is opened.
pub(crate) const MODE: Parameter = Parameter {
    name: "mode",
    about: "read (O_RDONLY), write (O_RDWR), or create (O_RDWR | O_CREAT of the file that is \
            already there)",
    default: "write",
    kind: Kind::Choice(&["read", "write", "create"]),
};

/// Whose file, and where it is.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// The task's own, in a directory of its own.
    OwnDirectory,
    /// The task's own, in the directory of all.
    SharedDirectory,
    /// One file of all.
    SharedFile,
}

/// A workload that opens and closes the files at this place.
pub(crate) fn prepare(load: &Load, place: Place) -> Result<Box<dyn Prepared>, Failure> {
    let common = load.directory.join("shared");
    if place != Place::OwnDirectory {
        files::create_directory(&common)?;
    }
    if place == Place::SharedFile {
        files::create(&common.join(Name::of_task(0).text()))?;
    }
    let directory = |index| match place {
        Place::OwnDirectory => load.task_path(index),
        Place::SharedDirectory | Place::SharedFile => common.clone(),
    };
    Ok(Box::new(Prepare {
        directories: (0..load.tasks).map(directory).collect(),
        place,
        flags: libc::O_CLOEXEC
            | match load.values.choice("mode") {
                "read" => libc::O_RDONLY,
                "write" => libc::O_RDWR,
                _ => libc::O_RDWR | libc::O_CREAT,
            },
    }))
}

struct Prepare {
    directories: Vec<PathBuf>,
    place: Place,
    flags: i32,
}

impl Prepare {
    /// Makes what is the task's own, and finds its file.
    fn file(&self, directory: &Path, index: usize) -> Result<(Name, File), Failure> {
        if self.place == Place::OwnDirectory {
            files::create_directory(directory)?;
        }
        let (name, made) = match self.place {
            Place::SharedFile => (Name::of_task(0), true),
            Place::OwnDirectory | Place::SharedDirectory => (Name::of_task(index), false),
        };
        let path = directory.join(name.text());
        let file = if made { files::open(&path) } else { files::create(&path) }?;
        Ok((name, file))
    }
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let directory = &self.directories[index];
        let (name, file) = self.file(directory, index)?;
        Ok(Box::new(Opener {
            directory: files::open_directory(directory)?,
            name,
            flags: self.flags,
            inode: inode_of(&file)?,
        }))
    }
}

struct Opener {
    directory: File,
    name: Name,
    flags: i32,
    inode: u64,
}

impl Task for Opener {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let descriptor = self.open()?;
        // SAFETY: just opened, known to nobody else.
        sys("closing a file", unsafe { libc::close(descriptor) }).map(drop)
    }

    /// An open leaves nothing behind to count: one more shows that it is the file that
    /// opens, and not another.
    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        // SAFETY: just opened, owned by nobody else.
        let file = unsafe { File::from_raw_fd(self.open()?) };
        let opened = inode_of(&file)?;
        if opened == self.inode {
            return Ok(());
        }
        Err(Failure::new(format!("inode {opened} was opened instead of {}", self.inode)))
    }
}

impl Opener {
    #[inline(always)]
    fn open(&self) -> Result<i32, Failure> {
        // SAFETY: the directory is open and the name a live C string.
        sys("opening a file", unsafe {
            libc::openat(self.directory.as_raw_fd(), self.name.as_ptr(), self.flags, 0o600)
        })
    }
}

fn inode_of(file: &File) -> Result<u64, Failure> {
    file.metadata().map(|m| m.ino()).map_err(|e| Failure::of("looking at an open file", e))
}
