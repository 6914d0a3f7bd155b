//! Allocation of space to a file of the task's own, without writing.
//!
//! Each call extends the file by the next `allocate_bytes`; if that would exceed
//! `size_bytes`, the operation first truncates the file to zero. So the rate is that of
//! allocating and freeing. On disk file systems both are transactions on the free-space
//! maps, which tasks share by group and through the journal; on tmpfs pages are allocated
//! and zeroed, and what tasks share is the page allocator and the free-block counter. The
//! same load as will-it-scale's fallocate2, and with a directory on tmpfs fallocate1.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use crate::files::{self, Pieces};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["fallocate2"],
    family: Family::Files,
    operation: "one fallocate at the end of the file; one truncation per `size_bytes` allocated",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "allocate_bytes",
            about: "length of one allocation",
            default: "8k",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
        Parameter {
            name: "size_bytes",
            about: "length at which the file is truncated and extended again",
            default: "1M",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
    ],
    needs: &[
        Need::OpenFiles(1),
        Need::Feature("fallocate", trial),
        Need::FreeBytes(|load| load.tasks as u64 * load.values.number("size_bytes")),
    ],
    prepare,
};

fn trial(file: &File) -> io::Result<()> {
    // SAFETY: the file is open.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 4096) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let pieces = Pieces::new(load, "allocate_bytes")?;
    let paths = load.task_paths();
    each_task(move |index| {
        let file = files::create(&paths[index])?;
        Ok(Allocator { file, pieces, in_file: 0 })
    })
}

struct Allocator {
    file: File,
    pieces: Pieces,
    /// Number of allocations since the last truncation.
    in_file: u64,
}

impl Task for Allocator {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let file = self.file.as_raw_fd();
        if self.in_file == self.pieces.count {
            // SAFETY: the file is open.
            sys("truncating the full file", unsafe { libc::ftruncate(file, 0) })?;
            self.in_file = 0;
        }
        let start = (self.in_file * self.pieces.bytes) as i64;
        // SAFETY: the file is open.
        sys("fallocate at the end of the file", unsafe {
            libc::fallocate(file, 0, start, self.pieces.bytes as i64)
        })?;
        self.in_file += 1;
        Ok(())
    }

    /// The file is as long as the allocations since the last truncation, and has blocks
    /// for all of it.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let pieces = self.pieces.count;
        if self.in_file % pieces != operations % pieces {
            return Err(Failure::new(format!(
                "{operations} allocations counted, but {} of {pieces} are in the file",
                self.in_file
            )));
        }
        let expected = self.in_file * self.pieces.bytes;
        let metadata = files::metadata(&self.file)?;
        let (length, allocated) = (metadata.len(), metadata.blocks() * 512);
        if length == expected && allocated >= expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "after {operations} allocations the file is {length} bytes long with {allocated} \
             allocated, and should have {expected}"
        )))
    }
}
