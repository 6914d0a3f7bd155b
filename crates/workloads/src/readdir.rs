//! Listing of a directory, from its first entry to its last.
//!
//! The cost of a pass grows with the number of entries, so compare only runs of equal
//! `files`. Each getdents call holds the directory's inode lock, for reading on file
//! systems that allow it (most do, since Linux 4.7): readers do not wait for each other,
//! but in a shared directory all of them write the lock word. Entries come from the cache:
//! the directory fits into it, and nothing changes it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::files::{self, Name, TaskDirectories};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "one pass over all entries of a directory: a seek to its start, and getdents64 \
                until there are no more",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            about: "own: each task lists its own directory; shared: all tasks list one",
            ..TaskDirectories::PARAMETER
        },
        Parameter {
            name: "files",
            about: "empty files in the directory",
            default: "100",
            kind: ParameterKind::Number { min: 0, max: 10_000_000 },
        },
        Parameter {
            name: "buffer_bytes",
            about: "length of the buffer of each getdents64 call",
            default: "32k",
            kind: ParameterKind::Number { min: 1024, max: 1 << 30 },
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
    let buffer_bytes = load.values.number("buffer_bytes") as usize;
    each_task(move |index| {
        let path = directories.task_directory(index)?;
        if !directories.shared {
            fill(path, files)?;
        }
        Ok(Reader {
            directory: files::open_directory(path)?,
            files,
            entries: vec![0; buffer_bytes.div_ceil(size_of::<u64>())],
            read_bytes: 0,
        })
    })
}

fn fill(directory: &Path, files: u64) -> Result<(), Failure> {
    let mut name = Name::new("", 10);
    for _ in 0..files {
        files::create(&directory.join(name.text()))?;
        name.advance();
    }
    Ok(())
}

struct Reader {
    directory: File,
    files: u64,
    /// The buffer for entries: of words, because entries are aligned to 8 bytes.
    entries: Vec<u64>,
    /// Total length of the entries read in completed passes.
    read_bytes: u64,
}

impl Task for Reader {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.read_bytes += self.pass(|_| ())?;
        Ok(())
    }

    /// One more pass finds every file, and all counted passes had its length.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let mut listed = 0;
        let pass_bytes = self.pass(|entries| listed += files_among(entries))?;
        if listed != self.files {
            return Err(Failure::new(format!("{listed} of {} files were listed", self.files)));
        }
        let expected = operations.wrapping_mul(pass_bytes);
        if self.read_bytes != expected {
            return Err(Failure::new(format!(
                "{operations} passes of {pass_bytes} bytes counted, but {} bytes of entries read",
                self.read_bytes
            )));
        }
        Ok(())
    }
}

impl Reader {
    /// Reads the directory from start to end, passes the entries of each call to `visit`,
    /// and returns their total length in bytes.
    #[inline(always)]
    fn pass(&mut self, mut visit: impl FnMut(&[u8])) -> Result<u64, Failure> {
        let directory = self.directory.as_raw_fd();
        // SAFETY: the directory is open.
        sys("seeking to the start of a directory", unsafe {
            libc::lseek(directory, 0, libc::SEEK_SET)
        })?;
        let (room, start) = (self.entries.len() * size_of::<u64>(), self.entries.as_mut_ptr());
        let mut pass_bytes = 0;
        loop {
            // SAFETY: the directory is open, and `entries` has `room` bytes.
            let read = sys("getdents64 of a directory", unsafe {
                libc::syscall(libc::SYS_getdents64, directory, start, room)
            })?;
            if read == 0 {
                return Ok(pass_bytes);
            }
            // SAFETY: the kernel has just written `read` bytes there.
            visit(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), read as usize) });
            pass_bytes += read as u64;
        }
    }
}

/// The number of entries other than `.` and `..`.
fn files_among(mut entries: &[u8]) -> u64 {
    const LENGTH: usize = std::mem::offset_of!(libc::dirent64, d_reclen);
    const NAME: usize = std::mem::offset_of!(libc::dirent64, d_name);
    let mut files = 0;
    while !entries.is_empty() {
        let length = u16::from_ne_bytes([entries[LENGTH], entries[LENGTH + 1]]) as usize;
        let itself_or_parent =
            entries[NAME..].starts_with(b".\0") || entries[NAME..].starts_with(b"..\0");
        files += u64::from(!itself_or_parent);
        entries = &entries[length..];
    }
    files
}
