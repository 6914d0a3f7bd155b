//! stat of files by name.
//!
//! Everything comes from the dentry and inode caches; the disk is not accessed. The path
//! walk writes nothing until it finds the file, on whose dentry it then takes a reference
//! for the duration of the call. So tasks with files of their own share nothing, while in
//! a shared directory, where all tasks stat the same files in the same order, they contend
//! for the reference count of each file's dentry. More `files` spread them out. `depth` makes
//! the path longer: each directory on it costs a hash lookup and a check of permissions, and
//! while nobody changes them, the walk shares them without writing.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::files::{self, Name, TaskDirectories};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one stat of one file by name",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            about: "own: each task has its own directory and files; shared: all tasks stat the \
                    same files in one",
            ..TaskDirectories::PARAMETER
        },
        Parameter {
            name: "files",
            about: "files that each task stats in turn",
            default: "1",
            kind: ParameterKind::Number { min: 1, max: 1_000_000 },
        },
        Parameter {
            name: "depth",
            about: "directories to walk through before the file's own; tasks share them if they share the directory",
            default: "0",
            kind: ParameterKind::Number { min: 0, max: 1000 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let directories = TaskDirectories::prepare(load)?;
    let (files, depth) = (load.values.number("files"), load.values.number("depth") as usize);
    let setup = Setup { directories, files, depth };
    if let Some(common) = setup.directories.common() {
        setup.fill(common)?;
    }
    Ok(Box::new(setup))
}

struct Setup {
    directories: TaskDirectories,
    files: u64,
    /// Directories on the way to the files.
    depth: usize,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = self.directories.task_directory(index)?;
        if !self.directories.shared {
            self.fill(path)?;
        }
        Ok(Box::new(Stater {
            directory: files::open_directory(path)?,
            name: self.name(),
            files: self.files,
            next: 0,
            // SAFETY: stat is plain data; zero is valid.
            stat: unsafe { std::mem::zeroed() },
            lengths_bytes: 0,
        }))
    }
}

impl Setup {
    /// The path of the first file, below the task's directory.
    fn name(&self) -> Name {
        Name::new(&"d/".repeat(self.depth), 10)
    }

    /// Creates the files, each one byte longer than the one before, so that their lengths
    /// identify them.
    fn fill(&self, directory: &Path) -> Result<(), Failure> {
        let mut name = self.name();
        let below = directory.join("d/".repeat(self.depth));
        fs::create_dir_all(&below)
            .map_err(|e| Failure::from_error(format!("creating {} directories", self.depth), e))?;
        for number in 0..self.files {
            let path = directory.join(name.text());
            files::create(&path)?
                .set_len(number + 1)
                .map_err(|e| Failure::from_error(format!("extending {}", path.display()), e))?;
            name.advance();
        }
        Ok(())
    }
}

struct Stater {
    directory: File,
    /// The name of the next file.
    name: Name,
    files: u64,
    /// The next file; `files` at the end of a pass.
    next: u64,
    stat: libc::stat,
    /// The sum of the lengths that the kernel reported.
    lengths_bytes: u64,
}

impl Task for Stater {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.files {
            self.next = 0;
            self.name.set(0);
        }
        // SAFETY: the directory is open, the name a live C string and `stat` ours.
        sys("stat of a file", unsafe {
            libc::fstatat(self.directory.as_raw_fd(), self.name.as_ptr(), &mut self.stat, 0)
        })?;
        self.lengths_bytes = self.lengths_bytes.wrapping_add(self.stat.st_size as u64);
        self.next += 1;
        self.name.advance();
        Ok(())
    }

    /// The reported lengths add up to those of the files.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let (passes, rest) = (operations / self.files, operations % self.files);
        let up_to = |n: u64| n.wrapping_mul(n + 1) / 2;
        let expected = passes.wrapping_mul(up_to(self.files)).wrapping_add(up_to(rest));
        if self.lengths_bytes == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{operations} files have {expected} bytes together, but stat reported {}",
            self.lengths_bytes
        )))
    }
}
