//! Writes to the end of a file of the task's own (O_APPEND).
//!
//! Each task fills its own file with pieces of `write_bytes`; if the next piece would
//! exceed `size_bytes`, the operation first truncates the file to zero. Unlike file_write,
//! each write needs new page cache and, sooner or later, new blocks, and moves the end of
//! the file: what tasks share is the page allocator, the free-space counters and, with
//! delayed allocation, the flusher thread. `sync=fdatasync` makes it the load of a log:
//! every write waits for the disk, and on journalling file systems tasks wait for the same
//! commits.

use std::fs::File;
use std::os::fd::AsRawFd;

use crate::file_write::{SYNC, Sync, WRITE_BYTES};
use crate::files::{self, Pieces};
use crate::stamp::Stamped;
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one write to the end of the file, synced as `sync` says; one truncation per \
                `size_bytes` written",
    forms: Forms::Both,
    parameters: &[
        WRITE_BYTES,
        Parameter {
            name: "size_bytes",
            about: "length at which the file is truncated and filled again",
            default: "16M",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
        SYNC,
    ],
    needs: &[
        Need::OpenFiles(1),
        Need::FreeBytes(|load| load.tasks as u64 * load.values.number("size_bytes")),
    ],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let paths = load.task_paths();
    let pieces = Pieces::new(load, WRITE_BYTES.name)?;
    let sync = Sync::from_load(load);
    each_task(move |index| {
        let path = &paths[index];
        let file = File::options()
            .read(true)
            .append(true)
            .create_new(true)
            .open(path)
            .map_err(|e| Failure::from_error(format!("creating {}", path.display()), e))?;
        Ok(Appender {
            file,
            piece: Stamped::new(paths.len(), index, pieces.bytes as usize),
            pieces: pieces.count,
            sync,
            turn: 0,
            in_file: 0,
        })
    })
}

struct Appender {
    file: File,
    piece: Stamped,
    /// Number of pieces that fit into the file.
    pieces: u64,
    sync: Sync,
    /// Number of pieces written so far.
    turn: u64,
    /// Number of pieces written since the last truncation.
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
        self.sync.run(&self.file)?;
        self.turn += 1;
        self.in_file += 1;
        Ok(())
    }

    /// The file is as long as the writes since the last truncation, and holds the last of
    /// them.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let written = self.in_file.min(operations);
        let expected = self.in_file * self.piece.bytes().len() as u64;
        let length = files::metadata(&self.file)?.len();
        if length != expected || self.in_file % self.pieces != operations % self.pieces {
            return Err(Failure::new(format!(
                "after {operations} writes the file is {length} bytes long and not {expected}"
            )));
        }
        self.piece.check_last(&self.file, 0, self.pieces, operations - written..operations)
    }
}
