//! File creation in directories of the task's own.
//!
//! The semantics of fs_mark: each task fills its own directory, or its `subdirectories`
//! in turn with `files_per_subdirectory` files at a time. Files have `size_bytes`, are
//! written in pieces of `write_bytes` and synced as `sync` says. Unlike fs_mark, all tasks
//! start simultaneously, the rate is files over wall time, and no hidden mkdir is issued
//! per file. A rate that falls during a run is the tree growing, not warm-up.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::files::{self, Name};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["fs_mark"],
    family: Family::Files,
    operation: "one file created, written, synced as `sync` says, and closed",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "size_bytes",
            about: "length of each file",
            default: "0",
            kind: ParameterKind::Number { min: 0, max: 1 << 40 },
        },
        Parameter {
            name: "write_bytes",
            about: "length of one write call",
            default: "16k",
            kind: ParameterKind::Number { min: 1, max: 1 << 30 },
        },
        Parameter {
            name: "sync",
            about: "call before each file is closed; syncfs flushes the whole file system",
            default: "none",
            kind: ParameterKind::Choice(&["none", "fdatasync", "fsync", "syncfs"]),
        },
        Parameter {
            name: "subdirectories",
            about: "subdirectories of each task's directory; 0: files are in it directly",
            default: "0",
            kind: ParameterKind::Number { min: 0, max: 100_000 },
        },
        Parameter {
            name: "files_per_subdirectory",
            about: "files created in a subdirectory before moving to the next",
            default: "10000",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let number = |name| load.values.number(name);
    Ok(Box::new(Setup {
        directories: load.task_paths(),
        piece: vec![0x6b; number("write_bytes").min(number("size_bytes")) as usize],
        size: number("size_bytes"),
        sync: match load.values.choice("sync") {
            "fdatasync" => Some(libc::fdatasync),
            "fsync" => Some(libc::fsync),
            "syncfs" => Some(libc::syncfs),
            _ => None,
        },
        subdirectories: number("subdirectories"),
        files_per_subdirectory: number("files_per_subdirectory"),
    }))
}

struct Setup {
    directories: Vec<PathBuf>,
    /// The data of one write call.
    piece: Vec<u8>,
    size: u64,
    sync: Option<unsafe extern "C" fn(libc::c_int) -> libc::c_int>,
    subdirectories: u64,
    files_per_subdirectory: u64,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let top = &self.directories[index];
        let make = |path: PathBuf| files::create_directory(&path).map(|()| path);
        make(top.clone())?;
        let directories = match self.subdirectories {
            0 => vec![top.clone()],
            n => (0..n).map(|i| make(top.join(format!("{i:05}")))).collect::<Result<_, _>>()?,
        };
        let current = files::open_directory(&directories[0])?;
        Ok(Box::new(Creator {
            setup: self,
            directories,
            current,
            number: 0,
            name: Name::new("", 10),
        }))
    }
}

struct Creator<'a> {
    setup: &'a Setup,
    directories: Vec<PathBuf>,
    current: File,
    /// Files created so far: the number of the next file.
    number: u64,
    /// The name of the next file.
    name: Name,
}

impl Task for Creator<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.directories.len() > 1
            && self.number.is_multiple_of(self.setup.files_per_subdirectory)
        {
            self.next_subdirectory()?;
        }
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: the directory is open and the name a live C string.
        let file = sys("creating a file", unsafe {
            libc::openat(self.current.as_raw_fd(), self.name.as_ptr(), flags, 0o600)
        })?;
        // SAFETY: just opened, owned by nothing else; closed at the end of the operation.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        if self.setup.size > 0 {
            self.fill(&file)?;
        }
        if let Some(sync) = self.setup.sync {
            // SAFETY: the descriptor is open.
            sys("syncing a file", unsafe { sync(file.as_raw_fd()) })?;
        }
        self.number += 1;
        self.name.advance();
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let mut created = 0;
        for directory in &self.directories {
            created += files::names_in(directory)?;
        }
        if created != operations {
            return Err(Failure::new(format!("{operations} files counted, but {created} exist")));
        }
        if let Some(last) = operations.checked_sub(1) {
            self.name.set(last);
            let path = self.directory_of(last).join(self.name.text());
            let (length, expected) = (files::length(&path)?, self.setup.size);
            if length != expected {
                return Err(Failure::new(format!(
                    "{} is {length} bytes long, not {expected}",
                    path.display()
                )));
            }
        }
        Ok(())
    }
}

impl Creator<'_> {
    /// The directory of the file with this number.
    fn directory_of(&self, number: u64) -> &Path {
        let turn = (number / self.setup.files_per_subdirectory) as usize;
        &self.directories[turn % self.directories.len()]
    }

    /// Moves on to the directory of the next file.
    #[cold]
    fn next_subdirectory(&mut self) -> Result<(), Failure> {
        self.current = files::open_directory(self.directory_of(self.number))?;
        Ok(())
    }

    fn fill(&self, file: &OwnedFd) -> Result<(), Failure> {
        let mut left = self.setup.size;
        while left > 0 {
            let length = left.min(self.setup.piece.len() as u64) as usize;
            let piece = &self.setup.piece[..length];
            // SAFETY: the descriptor is open and `piece` is live.
            let written = sys("writing a file", unsafe {
                libc::write(file.as_raw_fd(), piece.as_ptr().cast(), piece.len())
            })?;
            if written == 0 {
                return Err(Failure::from_error("writing a file", io::ErrorKind::WriteZero.into()));
            }
            left -= written as u64;
        }
        Ok(())
    }
}
