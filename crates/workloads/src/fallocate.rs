//! Allocation of space to a file of the task's own, without writing.
//!
//! Each call extends the file by the next `allocate_bytes`; once `size_bytes` are
//! reached, the file is truncated to nothing, inside the operation. So the rate is that of
//! allocating and freeing. On disk file systems both are transactions on the maps of free
//! space, which tasks share by groups and through the journal; on tmpfs pages are
//! allocated and zeroed, and what is shared is the page allocator and the counter of
//! free blocks. The same as will-it-scale's fallocate2, and with a directory on tmpfs
//! fallocate1.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::{
    Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, files, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["fallocate1", "fallocate2"],
    family: Family::Files,
    operation: "one fallocate at the end of the file; one truncation per `size_bytes` allocated",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "allocate_bytes",
            about: "length of one allocation",
            default: "8k",
            kind: Kind::Number { min: 1, max: 1 << 40 },
        },
        Parameter {
            name: "size_bytes",
            about: "length at which the file is truncated and begun again",
            default: "1M",
            kind: Kind::Number { min: 1, max: 1 << 40 },
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
    let number = |name| load.values.number(name);
    let (allocate_bytes, size_bytes) = (number("allocate_bytes"), number("size_bytes"));
    if allocate_bytes > size_bytes {
        return Err(Failure::new(format!(
            "allocate_bytes={allocate_bytes} does not fit into size_bytes={size_bytes}"
        )));
    }
    Ok(Box::new(Prepare {
        paths: (0..load.tasks).map(|index| load.task_path(index)).collect(),
        allocate_bytes,
        pieces: size_bytes / allocate_bytes,
    }))
}

struct Prepare {
    paths: Vec<PathBuf>,
    allocate_bytes: u64,
    /// Allocations that fit into a file.
    pieces: u64,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let file = files::create(&self.paths[index])?;
        Ok(Box::new(Allocator {
            file,
            allocate_bytes: self.allocate_bytes,
            pieces: self.pieces,
            in_file: 0,
        }))
    }
}

struct Allocator {
    file: File,
    allocate_bytes: u64,
    /// Allocations that fit into the file.
    pieces: u64,
    /// Those that are in it.
    in_file: u64,
}

impl Task for Allocator {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let file = self.file.as_raw_fd();
        if self.in_file == self.pieces {
            // SAFETY: the file is open.
            sys("truncating the full file", unsafe { libc::ftruncate(file, 0) })?;
            self.in_file = 0;
        }
        let start = (self.in_file * self.allocate_bytes) as i64;
        // SAFETY: the file is open.
        sys("fallocate at the end of the file", unsafe {
            libc::fallocate(file, 0, start, self.allocate_bytes as i64)
        })?;
        self.in_file += 1;
        Ok(())
    }

    /// The file is as long as the allocations since the last truncation, and has blocks
    /// for all of it.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.in_file % self.pieces != operations % self.pieces {
            return Err(Failure::new(format!(
                "{operations} allocations counted, but {} of {} are in the file",
                self.in_file, self.pieces
            )));
        }
        let expected = self.in_file * self.allocate_bytes;
        let metadata = self.file.metadata().map_err(|e| Failure::of("looking at the file", e))?;
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
