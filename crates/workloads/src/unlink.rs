//! Removal of empty files by name.
//!
//! A file can be unlinked only once, so each task works on a stock of `files` made before
//! the start. A run of a fixed count has all its files in that stock: every operation is
//! an unlink and nothing else. A run of a fixed time makes the stock again (mknod)
//! whenever it is used up: its rate is that of a creation and an unlink together, and the
//! latencies of single operations tell them apart, the creations being inside one
//! operation of each `files`. On ext4 prefer a fixed count: creations there search past
//! inodes that were freed a short while ago, and soon that search costs the most.
//!
//! Each unlink holds its directory's inode lock, so in a shared directory they take
//! turns; in own directories what is left to share is the file system's: its journal, its
//! inode tables, its list of orphans. will-it-scale's unlink1 and unlink2 count an open,
//! close and unlink of one file as one.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::files::{self, Directories, Name};
use crate::{Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one empty file unlinked; in a run of a fixed time also one created, \
                `files` of them at once",
    forms: Forms::Both,
    parameters: &[
        Directories::PARAMETER,
        Parameter {
            name: "files",
            about: "files that each task makes at once, in a run of a fixed time",
            default: "1000",
            kind: Kind::Number { min: 1, max: 10_000_000 },
        },
    ],
    needs: &[Need::OpenFiles(1)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Prepare {
        directories: Directories::prepare(load)?,
        files: load.operations.unwrap_or(load.values.number("files")).max(1),
    }))
}

struct Prepare {
    directories: Directories,
    files: u64,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = self.directories.of_task(index)?.to_path_buf();
        let mut stock = Stock {
            directory: files::open_directory(&path)?,
            path,
            files: self.files,
            made: 0,
            gone: 0,
            name: Name::of_task(index),
        };
        stock.make()?;
        Ok(Box::new(stock))
    }
}

/// The files of one task: of `files` numbers, those from `gone` up to `made` exist.
struct Stock {
    path: PathBuf,
    directory: File,
    files: u64,
    made: u64,
    gone: u64,
    /// Of the next file to unlink.
    name: Name,
}

impl Task for Stock {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.gone == self.made {
            self.make()?;
        }
        // SAFETY: the directory is open and the name a live C string.
        sys("unlinking a file", unsafe {
            libc::unlinkat(self.directory.as_raw_fd(), self.name.as_ptr(), 0)
        })?;
        self.gone += 1;
        self.name.advance();
        Ok(())
    }

    /// The files unlinked since the stock was made are gone, the others are there.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.gone % self.files != operations % self.files {
            return Err(Failure::new(format!(
                "{operations} unlinks counted, but {} of {} files are gone",
                self.gone, self.files
            )));
        }
        for number in 0..self.made {
            self.name.set(number);
            let path = self.path.join(self.name.text());
            if files::exists(&path)? == (number < self.gone) {
                let state = if number < self.gone { "still" } else { "no longer" };
                return Err(Failure::new(format!("{} is {state} there", path.display())));
            }
        }
        Ok(())
    }
}

impl Stock {
    #[cold]
    fn make(&mut self) -> Result<(), Failure> {
        if self.made == self.files {
            (self.made, self.gone) = (0, 0);
        }
        self.name.set(self.made);
        while self.made < self.files {
            // SAFETY: the directory is open and the name a live C string.
            sys("creating a file to unlink", unsafe {
                libc::mknodat(
                    self.directory.as_raw_fd(),
                    self.name.as_ptr(),
                    libc::S_IFREG | 0o600,
                    0,
                )
            })?;
            self.made += 1;
            self.name.advance();
        }
        self.name.set(self.gone);
        Ok(())
    }
}
