//! Renaming of files to a free name and back.
//!
//! Each task renames its `files` in turn, all to their other names, then all back; no
//! file is replaced. A rename inside one directory holds that directory's inode lock, so
//! tasks that share it take turns. A rename across directories holds both, and the rename
//! mutex of the whole superblock around them, so even tasks with directories of their own
//! take turns. Every rename on every file system also takes the kernel-wide `rename_lock`
//! for writing while it changes the name in the dentry cache.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use crate::files::{self, Name, TaskDirectories};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one rename of one of the task's files to a free name",
    forms: Forms::Both,
    parameters: &[
        TaskDirectories::PARAMETER,
        Parameter {
            name: "target",
            about: "within: the new name is in the same directory; across: in a second one",
            default: "within",
            kind: ParameterKind::Choice(&["within", "across"]),
        },
        Parameter {
            name: "files",
            about: "files that each task renames in turn",
            default: "1",
            kind: ParameterKind::Number { min: 1, max: 10_000_000 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let directories = TaskDirectories::prepare(load)?;
    let across = load.values.choice("target") == "across";
    if let (Some(common), true) = (directories.common(), across) {
        make_both(common)?;
    }
    let files = load.values.number("files");
    each_task(move |index| {
        let directory = directories.task_directory(index)?;
        if across && !directories.shared {
            make_both(directory)?;
        }
        let here = RenameSide::new(directory, across.then_some(FIRST), index, 0)?;
        let there = RenameSide::new(directory, across.then_some(SECOND), index, files)?;
        let mut name = Name::for_task(index);
        for number in 0..files {
            name.set(number);
            files::create(&here.path.join(name.text()))?;
        }
        Ok(Renamer { here, there, files, next: 0 })
    })
}

const FIRST: &str = "first";
const SECOND: &str = "second";

/// Creates two directories, neither inside the other.
fn make_both(directory: &Path) -> Result<(), Failure> {
    files::create_directory(&directory.join(FIRST))?;
    files::create_directory(&directory.join(SECOND))
}

/// One of the two sets of names between which files go back and forth.
struct RenameSide {
    path: PathBuf,
    directory: File,
    /// The number in the first file's name on this side.
    first: u64,
    /// The next file's name on this side.
    name: Name,
}

impl RenameSide {
    fn new(
        top: &Path,
        below: Option<&str>,
        index: usize,
        first: u64,
    ) -> Result<RenameSide, Failure> {
        let path = below.map_or(top.to_path_buf(), |below| top.join(below));
        let mut name = Name::for_task(index);
        name.set(first);
        Ok(RenameSide { directory: files::open_directory(&path)?, path, first, name })
    }

    fn has_file(&mut self, number: u64) -> Result<bool, Failure> {
        self.name.set(self.first + number);
        files::exists(&self.path.join(self.name.text()))
    }
}

struct Renamer {
    /// The names of the files not yet renamed in this pass.
    here: RenameSide,
    there: RenameSide,
    files: u64,
    /// The next file; `files` at the end of a pass.
    next: u64,
}

impl Task for Renamer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.files {
            self.turn_back();
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

    /// Each file has the name that its number of renames, even or odd, leads to, and no other.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let (passes, rest) = (operations / self.files, operations % self.files);
        if self.here.first > self.there.first {
            std::mem::swap(&mut self.here, &mut self.there);
        }
        for number in 0..self.files {
            let renames = passes + u64::from(number < rest);
            let moved = renames % 2 == 1;
            if self.here.has_file(number)? == moved || self.there.has_file(number)? != moved {
                return Err(Failure::new(format!(
                    "file {number} of {} does not have its name after {renames} renames",
                    self.here.path.display()
                )));
            }
        }
        Ok(())
    }
}

impl Renamer {
    /// Begins a pass in the other direction.
    #[inline(always)]
    fn turn_back(&mut self) {
        std::mem::swap(&mut self.here, &mut self.there);
        self.here.name.set(self.here.first);
        self.there.name.set(self.there.first);
        self.next = 0;
    }
}
