//! The one operation behind the open-close workloads, which differ in whether tasks share
//! the file and its directory.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::files::{self, Name};
use crate::{Failure, Load, Parameter, ParameterKind, Prepared, Task, sys};

/// How the file is opened.
pub(crate) const MODE: Parameter = Parameter {
    name: "mode",
    about: "read (O_RDONLY), write (O_RDWR), or create (O_RDWR | O_CREAT, though the file \
            exists)",
    default: "write",
    kind: ParameterKind::Choice(&["read", "write", "create"]),
};

/// The file that each task opens.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FileLocation {
    /// A file of its own in a directory of its own.
    OwnDirectory,
    /// A file of its own in a shared directory.
    SharedDirectory,
    /// One shared file.
    SharedFile,
}

/// Prepares a workload that opens and closes the files at this location.
pub(crate) fn prepare(load: &Load, location: FileLocation) -> Result<Box<dyn Prepared>, Failure> {
    let common = load.directory.join("shared");
    if location != FileLocation::OwnDirectory {
        files::create_directory(&common)?;
    }
    if location == FileLocation::SharedFile {
        files::create(&common.join(Name::for_task(0).text()))?;
    }
    let directory = |index| match location {
        FileLocation::OwnDirectory => load.task_path(index),
        FileLocation::SharedDirectory | FileLocation::SharedFile => common.clone(),
    };
    Ok(Box::new(Setup {
        directories: (0..load.tasks).map(directory).collect(),
        location,
        flags: libc::O_CLOEXEC
            | match load.values.choice("mode") {
                "read" => libc::O_RDONLY,
                "write" => libc::O_RDWR,
                _ => libc::O_RDWR | libc::O_CREAT,
            },
    }))
}

struct Setup {
    directories: Vec<PathBuf>,
    location: FileLocation,
    flags: i32,
}

impl Setup {
    /// Opens the task's file and returns it with its name; creates what is the task's own.
    fn file(&self, directory: &Path, index: usize) -> Result<(Name, File), Failure> {
        if self.location == FileLocation::OwnDirectory {
            files::create_directory(directory)?;
        }
        let is_shared = self.location == FileLocation::SharedFile;
        let name = Name::for_task(if is_shared { 0 } else { index });
        let path = directory.join(name.text());
        let file = if is_shared { files::open(&path) } else { files::create(&path) }?;
        Ok((name, file))
    }
}

impl Prepared for Setup {
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
        // SAFETY: just opened, owned by nothing else.
        sys("closing a file", unsafe { libc::close(descriptor) }).map(drop)
    }

    /// An open leaves nothing behind to count. One more must open the task's file and not
    /// another.
    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        // SAFETY: just opened, owned by nothing else.
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
    files::metadata(file).map(|metadata| metadata.ino())
}
