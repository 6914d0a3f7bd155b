//! File creation in directories of the task's own.
//!
//! The semantics of fs_mark: each task fills its own directory, or `subdirectories` of
//! it in turn by `files_per_subdirectory`, with files of `size_bytes`, written in
//! `write_bytes` pieces and synced as `sync` says. Unlike fs_mark, all tasks start
//! together, the rate is files over wall time, and no hidden mkdir is issued per file.
//! Operations per second falling over a run is the tree growing, not warm-up.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;

use crate::files::{self, Name};
use crate::{Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["fs_mark"],
    family: Family::Files,
    operation: "one file created, written, synced as asked, and closed",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "size_bytes",
            about: "length of each file",
            default: "0",
            kind: Kind::Number { min: 0, max: 1 << 40 },
        },
        Parameter {
            name: "write_bytes",
            about: "length of one write call",
            default: "16k",
            kind: Kind::Number { min: 1, max: 1 << 30 },
        },
        Parameter {
            name: "sync",
            about: "the call before each file is closed; syncfs flushes the whole file system",
            default: "none",
            kind: Kind::Choice(&["none", "fdatasync", "fsync", "syncfs"]),
        },
        Parameter {
            name: "subdirectories",
            about: "subdirectories of each task's directory; 0: files lie in it directly",
            default: "0",
            kind: Kind::Number { min: 0, max: 100_000 },
        },
        Parameter {
            name: "files_per_subdirectory",
            about: "files put into a subdirectory before the next one's turn",
            default: "10000",
            kind: Kind::Number { min: 1, max: 1 << 40 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let number = |name| load.values.number(name);
    let directories = (0..load.tasks).map(|index| load.task_path(index)).collect();
    Ok(Box::new(Prepare {
        directories,
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

struct Prepare {
    directories: Vec<PathBuf>,
    /// What one write call writes.
    piece: Vec<u8>,
    size: u64,
    sync: Option<unsafe extern "C" fn(libc::c_int) -> libc::c_int>,
    subdirectories: u64,
    files_per_subdirectory: u64,
}

impl Prepared for Prepare {
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
            plan: self,
            directories,
            current,
            number: 0,
            name: Name::new("", 10),
        }))
    }
}

struct Creator<'a> {
    plan: &'a Prepare,
    directories: Vec<PathBuf>,
    current: File,
    /// Files created so far: the next one's number.
    number: u64,
    /// The next one's name.
    name: Name,
}

impl Task for Creator<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.directories.len() > 1
            && self.number.is_multiple_of(self.plan.files_per_subdirectory)
        {
            self.turn()?;
        }
        let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC;
        // SAFETY: the directory is open and the name a live C string.
        let file = sys("creating a file", unsafe {
            libc::openat(self.current.as_raw_fd(), self.name.as_ptr(), flags, 0o600)
        })?;
        // SAFETY: just opened, owned by nobody else; closed at the end of the operation.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        if self.plan.size > 0 {
            self.fill(&file)?;
        }
        if let Some(sync) = self.plan.sync {
            // SAFETY: the descriptor is open.
            sys("syncing a file", unsafe { sync(file.as_raw_fd()) })?;
        }
        self.number += 1;
        self.name.advance();
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let mut found = 0;
        for directory in &self.directories {
            found += files::names_in(directory)?;
        }
        if found != operations {
            return Err(Failure::new(format!("{operations} files counted, {found} found")));
        }
        if let Some(last) = operations.checked_sub(1) {
            let turn = (last / self.plan.files_per_subdirectory) as usize % self.directories.len();
            self.name.set(last);
            let path = self.directories[turn].join(self.name.text());
            let length = std::fs::metadata(&path)
                .map_err(|e| Failure::of(format!("looking at {}", path.display()), e))?
                .len();
            if length != self.plan.size {
                return Err(Failure::new(format!("{} is {length} bytes long", path.display())));
            }
        }
        Ok(())
    }
}

impl Creator<'_> {
    /// The next subdirectory's turn.
    #[cold]
    fn turn(&mut self) -> Result<(), Failure> {
        let turn =
            (self.number / self.plan.files_per_subdirectory) as usize % self.directories.len();
        self.current = files::open_directory(&self.directories[turn])?;
        Ok(())
    }

    fn fill(&self, file: &OwnedFd) -> Result<(), Failure> {
        let mut left = self.plan.size;
        while left > 0 {
            let length = left.min(self.plan.piece.len() as u64) as usize;
            let piece = &self.plan.piece[..length];
            // SAFETY: the descriptor is open and `piece` is live.
            let written = sys("writing a file", unsafe {
                libc::write(file.as_raw_fd(), piece.as_ptr().cast(), piece.len())
            })?;
            if written == 0 {
                return Err(Failure::of("writing a file", io::ErrorKind::WriteZero.into()));
            }
            left -= written as u64;
        }
        Ok(())
    }
}
