//! Setting the position of an open file.
//!
//! Each task has an open file of its own, even where `file=shared` makes all of them refer to one inode. So
//! nothing is written that tasks share: the cost beyond getppid is the lookup of the descriptor, and as threads the
//! lock of the position, which the kernel takes where a file table is shared.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::files::{self, FileSharing};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["lseek1"],
    family: Family::Files,
    operation: "one lseek to a position in the file's first 4096 bytes",
    forms: Forms::Both,
    parameters: &[Parameter {
        name: "file",
        about: "own: each task has its own file; shared: all tasks open one",
        default: "own",
        kind: ParameterKind::Choice(&["own", "shared"]),
    }],
    needs: &[Need::OpenFiles(1)],
    prepare,
};

/// Positions are below this.
const POSITIONS: u64 = 4096;

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let sharing = match load.values.choice("file") {
        "shared" => FileSharing::Shared,
        _ => FileSharing::Own,
    };
    let paths = files::task_files(load, sharing)?;
    each_task(move |index| {
        let path = &paths[index];
        let file = match sharing {
            FileSharing::Own => files::create(path)?,
            FileSharing::Shared => files::open(path)?,
        };
        file.set_len(POSITIONS).map_err(|e| Failure::from_error("setting the file's length", e))?;
        Ok(Seeker { file, next: 0 })
    })
}

struct Seeker {
    file: File,
    /// Where the next operation goes to, below [`POSITIONS`].
    next: u64,
}

impl Task for Seeker {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let position = ((self.next + 1) % POSITIONS) as i64;
        // SAFETY: the file is open.
        sys("setting the file's position", unsafe {
            libc::lseek(self.file.as_raw_fd(), position, libc::SEEK_SET)
        })?;
        self.next = position as u64;
        Ok(())
    }

    /// The position is that of the last operation.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        // SAFETY: the file is open.
        let found = sys("asking for the file's position", unsafe {
            libc::lseek(self.file.as_raw_fd(), 0, libc::SEEK_CUR)
        })? as u64;
        let expected = operations % POSITIONS;
        if found == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "after {operations} operations the file is at {found}, not {expected}"
        )))
    }
}
