//! Renaming of files to a free name and back.
//!
//! Each task renames its `files` in turn, all to their other names, then all back; no
//! file is replaced. A rename inside one directory holds that directory's inode lock, so
//! tasks that share it take turns. A rename across directories holds both, and before
//! them the one rename mutex of the whole superblock, so even tasks with directories of
//! their own take turns. Every rename of every file system also writes the kernel-wide
//! `rename_lock`, for the moment in which the name in the dentry cache changes.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::files::{self, Directories, Name};
use crate::{Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one rename of one of the task's files to a name that is free",
    forms: Forms::Both,
    parameters: &[
        Directories::PARAMETER,
        Parameter {
            name: "target",
            about: "within: the new name is in the same directory; across: it is in a second one",
            default: "within",
            kind: Kind::Choice(&["within", "across"]),
        },
        Parameter {
            name: "files",
            about: "files that each task renames in turn",
            default: "1",
            kind: Kind::Number { min: 1, max: 10_000_000 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let directories = Directories::prepare(load)?;
    let across = load.values.choice("target") == "across";
    if let (Some(common), true) = (directories.common(), across) {
        make_both(common)?;
    }
    Ok(Box::new(Prepare { directories, across, files: load.values.number("files") }))
}

struct Prepare {
    directories: Directories,
    across: bool,
    files: u64,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let directory = self.directories.of_task(index)?;
        if self.across && !self.directories.shared {
            make_both(directory)?;
        }
        let here = Side::new(directory, self.across.then_some(FIRST), index, 0)?;
        let there = Side::new(directory, self.across.then_some(SECOND), index, self.files)?;
        let mut name = Name::of_task(index);
        for number in 0..self.files {
            name.set(number);
            files::create(&here.path.join(name.text()))?;
        }
        Ok(Box::new(Renamer { here, there, files: self.files, next: 0 }))
    }
}

const FIRST: &str = "first";
const SECOND: &str = "second";

/// Two directories of which neither is in the other.
fn make_both(directory: &Path) -> Result<(), Failure> {
    files::create_directory(&directory.join(FIRST))?;
    files::create_directory(&directory.join(SECOND))
}

/// One of the two places between which files go back and forth.
struct Side {
    path: PathBuf,
    directory: File,
    /// The number in the name of the first file on this side.
    first: u64,
    /// Of the next file.
    name: Name,
}

impl Side {
    fn new(top: &Path, below: Option<&str>, index: usize, first: u64) -> Result<Side, Failure> {
        let path = below.map_or(top.to_path_buf(), |below| top.join(below));
        let mut name = Name::of_task(index);
        name.set(first);
        Ok(Side { directory: files::open_directory(&path)?, path, first, name })
    }

    fn has(&mut self, number: u64) -> Result<bool, Failure> {
        self.name.set(self.first + number);
        files::exists(&self.path.join(self.name.text()))
    }
}

struct Renamer {
    /// Where the files are that were not renamed in this pass.
    here: Side,
    there: Side,
    files: u64,
    /// The next file; `files` at the end of a pass.
    next: u64,
}

impl Task for Renamer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.files {
            self.turn();
        }
        // SAFETY: the directories are open and the names live C strings.
        sys("renaming a file", unsafe {
            libc::renameat(
                self.here.directory.as_raw_fd(),
                self.here.name.as_ptr(),
                self.there.directory.as_raw_fd(),
                self.there.name.as_ptr(),
            )
        })?;
        self.here.name.advance();
        self.there.name.advance();
        self.next += 1;
        Ok(())
    }

    /// Each file is where an even or odd number of renames brought it, and only there.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let (passes, rest) = (operations / self.files, operations % self.files);
        if self.here.first > self.there.first {
            std::mem::swap(&mut self.here, &mut self.there);
        }
        for number in 0..self.files {
            let renames = passes + u64::from(number < rest);
            let moved = renames % 2 == 1;
            if self.here.has(number)? == moved || self.there.has(number)? != moved {
                return Err(Failure::new(format!(
                    "file {number} of {} is not where {renames} renames bring it",
                    self.here.path.display()
                )));
            }
        }
        Ok(())
    }
}

impl Renamer {
    /// The way back.
    #[inline(always)]
    fn turn(&mut self) {
        std::mem::swap(&mut self.here, &mut self.there);
        self.here.name.set(self.here.first);
        self.there.name.set(self.there.first);
        self.next = 0;
    }
}
