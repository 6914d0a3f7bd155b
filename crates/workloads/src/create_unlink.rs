//! One file created, closed and removed, again and again under one name.
//!
//! The file exists only within an operation. So nothing accumulates, as it does for create_files, and no stock is needed,
//! as for unlink; but the rate is that of three system calls together. Creation and removal each hold the directory's
//! inode lock, so tasks that share a directory take turns; those with directories of their own share what the file system
//! has once: its journal, its inode tables, its orphan list. The defaults are will-it-scale's unlink2.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::files::{self, Name, TaskDirectories};
use crate::{Failure, Family, Forms, Load, Need, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["unlink2"],
    family: Family::Files,
    operation: "one open with O_CREAT of a name that does not exist, one close and one unlink",
    forms: Forms::Both,
    parameters: &[TaskDirectories::PARAMETER],
    needs: &[Need::OpenFiles(2)],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Setup(TaskDirectories::prepare(load)?)))
}

struct Setup(TaskDirectories);

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = self.0.task_directory(index)?.to_path_buf();
        let directory = files::open_directory(&path)?;
        let dated = directory.set_modified(UNCHANGED);
        dated.map_err(|e| Failure::from_error("setting the directory's time", e))?;
        Ok(Box::new(Creator { path, directory, name: Name::for_task(index) }))
    }
}

/// The time that a directory has until it is changed: one in which this program did not run.
const UNCHANGED: SystemTime = SystemTime::UNIX_EPOCH;

struct Creator {
    path: PathBuf,
    directory: File,
    name: Name,
}

impl Task for Creator {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (directory, name) = (self.directory.as_raw_fd(), self.name.as_ptr());
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the directory is open and the name a live C string.
        let file = sys("creating the file", unsafe { libc::openat(directory, name, flags, 0o600) })?;
        // SAFETY: opened above, closed once.
        sys("closing the file", unsafe { libc::close(file) })?;
        // SAFETY: as for openat.
        sys("unlinking the file", unsafe { libc::unlinkat(directory, name, 0) }).map(drop)
    }

    /// O_EXCL refuses a name that exists, so each unlink removed it: the last did too, and the directory has changed.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let path = self.path.join(self.name.text());
        if files::exists(&path)? {
            return Err(Failure::new(format!("{} was unlinked but exists", path.display())));
        }
        let changed = files::metadata(&self.directory)?.modified();
        let changed = changed.map_err(|e| Failure::from_error("the directory's time", e))?;
        if operations > 0 && changed == UNCHANGED {
            return Err(Failure::new(format!("{operations} files made, but the directory never changed")));
        }
        Ok(())
    }
}
