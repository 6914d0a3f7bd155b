//! Writes to the end of a file of the task's own (O_APPEND).
//!
//! Each task fills its own file with pieces of `write_bytes`; a piece that would go beyond
//! `size_bytes` truncates it to nothing first, inside the operation. Unlike pwrite_own,
//! each write needs new page cache and, sooner or later, new blocks, and moves the end of
//! the file: what tasks share is the page allocator, the counters of free space and, with
//! delayed allocation, the flusher working behind them. `sync=fdatasync` makes it the load
//! of a log: every write waits for the disk, and on journalling file systems tasks wait
//! together for commits.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::stamp::Stamped;
use crate::{Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one write to the end of the file, synced as asked; one truncation per \
                `size_bytes` written",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "write_bytes",
            about: "length of one write",
            default: "4k",
            kind: Kind::Number { min: 1, max: 1 << 30 },
        },
        Parameter {
            name: "size_bytes",
            about: "length at which the file is truncated and begun again",
            default: "16M",
            kind: Kind::Number { min: 1, max: 1 << 40 },
        },
        Parameter {
            name: "sync",
            about: "none, or fdatasync after each write",
            default: "none",
            kind: Kind::Choice(&["none", "fdatasync"]),
        },
    ],
    needs: &[
        Need::OpenFiles(1),
        Need::FreeBytes(|load| load.tasks as u64 * load.values.number("size_bytes")),
    ],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let number = |name| load.values.number(name);
    let (write_bytes, size_bytes) = (number("write_bytes"), number("size_bytes"));
    if write_bytes > size_bytes {
        return Err(Failure::new(format!(
            "write_bytes={write_bytes} does not fit into size_bytes={size_bytes}"
        )));
    }
    Ok(Box::new(Prepare {
        paths: (0..load.tasks).map(|index| load.task_path(index)).collect(),
        write_bytes: write_bytes as usize,
        pieces: size_bytes / write_bytes,
        sync: load.values.choice("sync") == "fdatasync",
    }))
}

struct Prepare {
    paths: Vec<PathBuf>,
    write_bytes: usize,
    /// Writes that fit into a file.
    pieces: u64,
    sync: bool,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let file = File::options()
            .read(true)
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|e| Failure::of(format!("creating {}", path.display()), e))?;
        Ok(Box::new(Appender {
            file,
            piece: Stamped::new(self.paths.len(), index, self.write_bytes),
            pieces: self.pieces,
            sync: self.sync,
            turn: 0,
            in_file: 0,
        }))
    }
}

struct Appender {
    file: File,
    piece: Stamped,
    /// Pieces that fit into the file.
    pieces: u64,
    sync: bool,
    /// Pieces written.
    turn: u64,
    /// Those of them that are in the file.
    in_file: u64,
}

impl Task for Appender {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let file = self.file.as_raw_fd();
        if self.in_file == self.pieces {
            // SAFETY: the file is open.
            sys("truncating the full file", unsafe { libc::ftruncate(file, 0) })?;
            self.in_file = 0;
        }
        self.piece.stamp(self.turn);
        let piece = self.piece.bytes();
        // SAFETY: the file is open and `piece` live.
        let written = sys("writing to the end of the file", unsafe {
            libc::write(file, piece.as_ptr().cast(), piece.len())
        })?;
        self.piece.all_written(written)?;
        if self.sync {
            // SAFETY: the file is open.
            sys("fdatasync of the file", unsafe { libc::fdatasync(file) })?;
        }
        self.turn += 1;
        self.in_file += 1;
        Ok(())
    }

    /// The file is as long as the writes since the last truncation, and the last of them
    /// are found in it.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let written = self.in_file.min(operations);
        let expected = self.in_file * self.piece.bytes().len() as u64;
        let length = self.file.metadata().map_err(|e| Failure::of("looking at the file", e))?.len();
        if length != expected || self.in_file % self.pieces != operations % self.pieces {
            return Err(Failure::new(format!(
                "after {operations} writes the file is {length} bytes long and not {expected}"
            )));
        }
        for turn in operations - written.min(MOST_CHECKED)..operations {
            let offset = turn % self.pieces * self.piece.bytes().len() as u64;
            self.piece.check(&self.file, offset, turn)?;
        }
        Ok(())
    }
}

/// Writes looked for in the file: the last ones, few enough to be read in no time.
const MOST_CHECKED: u64 = 1024;
