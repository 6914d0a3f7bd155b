//! stat of files by name.
//!
//! Everything comes from the dentry and inode caches; the disk is not accessed. The path
//! walk writes nothing until it finds the file, on whose dentry it then takes a reference
//! for the duration of the call. So tasks with files of their own share nothing, while in
//! a shared directory, where all tasks stat the same files in the same order, they contend
//! for the reference count of each file's dentry. More `files` spread them out.

use std::fs::File;
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
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let directories = TaskDirectories::prepare(load)?;
    let files = load.values.number("files");
    if let Some(common) = directories.common() {
        fill(common, files)?;
    }
    Ok(Box::new(Setup { directories, files }))
}

struct Setup {
    directories: TaskDirectories,
    files: u64,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = self.directories.task_directory(index)?;
        if !self.directories.shared {
            fill(path, self.files)?;
        }
        Ok(Box::new(Stater {
            directory: files::open_directory(path)?,
            name: name(),
            files: self.files,
            next: 0,
            // SAFETY: stat is plain data; zero is valid.
            stat: unsafe { std::mem::zeroed() },
            lengths_bytes: 0,
        }))
    }
}

fn name() -> Name {
    Name::new("", 10)
}

/// Creates the files, each one byte longer than the one before, so that their lengths
/// identify them.
fn fill(directory: &Path, files: u64) -> Result<(), Failure> {
    let mut name = name();
    for number in 0..files {
        let path = directory.join(name.text());
        files::create(&path)?
            .set_len(number + 1)
            .map_err(|e| Failure::from_error(format!("extending {}", path.display()), e))?;
        name.advance();
    }
    Ok(())
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
