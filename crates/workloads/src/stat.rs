//! Attributes of files, by name.
//!
//! Everything comes from the dentry and inode caches; the disk is not asked. The path is
//! walked without writing to anything until the file is found, whose dentry then gets a
//! reference for the moment of the call. So tasks with files of their own share nothing,
//! while in a shared directory, where all look at the same files in the same order, they
//! meet in the reference count of each file's dentry. More `files` spread them out.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::files::{self, Directories, Name};
use crate::{Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one stat of one file by name",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            about: "own: each task has files and a directory of its own; shared: all look at the \
                    same files of one directory",
            ..Directories::PARAMETER
        },
        Parameter {
            name: "files",
            about: "files that a task looks at in turn",
            default: "1",
            kind: Kind::Number { min: 1, max: 1_000_000 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let directories = Directories::prepare(load)?;
    let files = load.values.number("files");
    if let Some(common) = directories.common() {
        fill(common, files)?;
    }
    Ok(Box::new(Prepare { directories, files }))
}

struct Prepare {
    directories: Directories,
    files: u64,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = self.directories.of_task(index)?;
        if !self.directories.shared {
            fill(path, self.files)?;
        }
        Ok(Box::new(Looker {
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

/// Makes the files, each one byte longer than the one before: what a look at it should
/// tell.
fn fill(directory: &Path, files: u64) -> Result<(), Failure> {
    let mut name = name();
    for number in 0..files {
        let path = directory.join(name.text());
        files::create(&path)?
            .set_len(number + 1)
            .map_err(|e| Failure::of(format!("extending {}", path.display()), e))?;
        name.advance();
    }
    Ok(())
}

struct Looker {
    directory: File,
    /// Of the next file.
    name: Name,
    files: u64,
    /// The next file; `files` at the end of a pass.
    next: u64,
    stat: libc::stat,
    /// The lengths that the kernel told, summed up.
    lengths_bytes: u64,
}

impl Task for Looker {
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

    /// The lengths told add up to those of the files looked at.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let (passes, rest) = (operations / self.files, operations % self.files);
        let up_to = |n: u64| n.wrapping_mul(n + 1) / 2;
        let expected = passes.wrapping_mul(up_to(self.files)).wrapping_add(up_to(rest));
        if self.lengths_bytes == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{operations} files are {expected} bytes long together, stat said {}",
            self.lengths_bytes
        )))
    }
}
