//! Removal of empty files by name.
//!
//! A file can be unlinked only once, so each task works on a stock of `files` created
//! before the start. A run of a fixed count has all its files in that stock: every
//! operation is an unlink and nothing else. A run of a fixed time creates the stock again
//! (mknod) whenever it is used up: its rate is that of one creation and one unlink
//! together, and the latencies of single operations separate the two, as the creations are
//! inside one operation of every `files`. On ext4 prefer a fixed count: creations there
//! search past recently freed inodes, and soon that search costs the most.
//!
//! Each unlink holds its directory's inode lock, so tasks that share a directory take
//! turns; those with directories of their own share what the file system has once: its
//! journal, its inode tables, its orphan list. will-it-scale's unlink1 and unlink2 count
//! an open, close and unlink of one file as one operation.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::files::{self, Name, TaskDirectories};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one empty file unlinked; in a run of a fixed time also one created, in \
                batches of `files`",
    forms: Forms::Both,
    parameters: &[
        TaskDirectories::PARAMETER,
        Parameter {
            name: "files",
            about: "files that each task creates in one batch, in a run of a fixed time",
            default: "1000",
            kind: ParameterKind::Number { min: 1, max: 10_000_000 },
        },
    ],
    needs: &[Need::OpenFiles(1)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let directories = TaskDirectories::prepare(load)?;
    let files = load.operations.unwrap_or(load.values.number("files")).max(1);
    each_task(move |index| {
        let path = directories.task_directory(index)?.to_path_buf();
        let mut stock = Stock {
            directory: files::open_directory(&path)?,
            path,
            files,
            created: 0,
            unlinked: 0,
            name: Name::for_task(index),
        };
        stock.refill()?;
        Ok(stock)
    })
}

/// The files of one task: those numbered from `unlinked` up to `created` exist.
struct Stock {
    path: PathBuf,
    directory: File,
    files: u64,
    created: u64,
    unlinked: u64,
    /// The name of the next file to unlink.
    name: Name,
}

impl Task for Stock {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.unlinked == self.created {
            self.refill()?;
        }
        // SAFETY: the directory is open and the name a live C string.
        sys("unlinking a file", unsafe {
            libc::unlinkat(self.directory.as_raw_fd(), self.name.as_ptr(), 0)
        })?;
        self.unlinked += 1;
        self.name.advance();
        Ok(())
    }

    /// The files unlinked since the stock was created are gone, the others exist.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.unlinked % self.files != operations % self.files {
            return Err(Failure::new(format!(
                "{operations} unlinks counted, but {} of {} files are gone",
                self.unlinked, self.files
            )));
        }
        for number in 0..self.created {
            self.name.set(number);
            let path = self.path.join(self.name.text());
            let is_unlinked = number < self.unlinked;
            if files::exists(&path)? == is_unlinked {
                let fault = if is_unlinked { "was unlinked but exists" } else { "is missing" };
                return Err(Failure::new(format!("{} {fault}", path.display())));
            }
        }
        Ok(())
    }
}

impl Stock {
    #[cold]
    fn refill(&mut self) -> Result<(), Failure> {
        if self.created == self.files {
            (self.created, self.unlinked) = (0, 0);
        }
        self.name.set(self.created);
        while self.created < self.files {
            // SAFETY: the directory is open and the name a live C string.
            sys("creating a file to unlink", unsafe {
                libc::mknodat(
                    self.directory.as_raw_fd(),
                    self.name.as_ptr(),
                    libc::S_IFREG | 0o600,
                    0,
                )
            })?;
            self.created += 1;
            self.name.advance();
        }
        self.name.set(self.unlinked);
        Ok(())
    }
}
