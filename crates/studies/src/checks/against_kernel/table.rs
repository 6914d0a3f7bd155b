//! The locks of one file as /proc/locks lists them.
//!
//!     1: POSIX  ADVISORY  WRITE 3568 fe:00:2531452 0 EOF
//!     1: -> OFDLCK ADVISORY  READ  -1 fe:00:2531452 128 159      waits for it
//!
//! The process of an open file's lock means nothing: the caller may have exited long since.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;

use algorithms::mechanisms::file_locks::TO_THE_END;
use anyhow::{Context, Result};

/// One line of /proc/locks: a lock that is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockLine {
    /// Whether it is waited for, not held.
    pub waits: bool,
    /// What owns the lock.
    pub owner: OwnerKind,
    /// The process that owns the lock; 0 where an open file owns it.
    pub pid: i32,
    /// Whether it excludes all others, not only writers.
    pub write: bool,
    /// The first byte.
    pub start: u64,
    /// The last byte, or [`TO_THE_END`].
    pub end: u64,
}

/// What owns a lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    /// A process: a POSIX lock.
    Process,
    /// An open file description.
    OpenFile,
    /// An open file description, by flock(2).
    Flock,
}

impl LockLine {
    /// Parses a line of the table; `None` if it is about another file than `file_id`, its device and inode as the
    /// table prints them.
    pub fn parse(line: &str, file_id: &str) -> Option<LockLine> {
        let mut parts = line.split_whitespace().skip(1).peekable();
        let waits = parts.next_if_eq(&"->").is_some();
        let owner = match parts.next()? {
            "POSIX" => OwnerKind::Process,
            "OFDLCK" => OwnerKind::OpenFile,
            "FLOCK" => OwnerKind::Flock,
            _ => return None,
        };
        let write = parts.nth(1)? == "WRITE";
        let pid = parts.next()?.parse().ok()?;
        parts.next().filter(|&id| id == file_id)?;
        let start = parts.next()?.parse().ok()?;
        let end = parts.next()?;
        let end = if end == "EOF" { TO_THE_END } else { end.parse().ok()? };
        let pid = if owner == OwnerKind::Process { pid } else { 0 };
        Some(LockLine { waits, owner, pid, write, start, end })
    }

    /// Whether another line is about a part of this lock.
    pub fn covers(&self, part: &LockLine) -> bool {
        let lock = |line: &LockLine| (line.waits, line.owner, line.pid, line.write);
        lock(self) == lock(part) && self.start <= part.start && part.end <= self.end
    }
}

/// /proc/locks, filtered by one file.
pub struct ProcLocks {
    locks: File,
    /// Device and inode of the file, as /proc/locks prints them.
    file_id: String,
}

impl ProcLocks {
    /// Opens the table for the locks of this file.
    pub fn open(file: &File) -> Result<ProcLocks> {
        let locks = File::open("/proc/locks").context("opening /proc/locks")?;
        let metadata = file.metadata().context("reading the metadata of the file to lock")?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let (major, minor) = (libc::major(device), libc::minor(device));
        let file_id = format!("{major:02x}:{minor:02x}:{inode}");
        Ok(ProcLocks { locks, file_id })
    }

    /// The lines of the file. Among locks taken on one CPU, the newest comes first.
    ///
    /// The kernel prints the table in pieces, each from some line number on: a lock granted in
    /// between shifts the others, and one line comes twice. So the table is read until two
    /// readings are equal.
    pub fn lines(&mut self) -> Result<Vec<LockLine>> {
        let mut before = self.read()?;
        loop {
            let now = self.read()?;
            if now == before {
                let lines = now.lines().filter_map(|line| LockLine::parse(line, &self.file_id));
                return Ok(lines.collect());
            }
            before = now;
        }
    }

    fn read(&mut self) -> Result<String> {
        let mut text = String::new();
        self.locks.rewind().context("rewinding /proc/locks")?;
        self.locks.read_to_string(&mut text).context("reading /proc/locks")?;
        Ok(text)
    }

    /// The number of waiting requests.
    pub fn waiting(&mut self) -> Result<usize> {
        Ok(self.lines()?.iter().filter(|line| line.waits).count())
    }
}
