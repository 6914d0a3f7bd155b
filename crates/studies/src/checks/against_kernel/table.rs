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
    pub waits: bool,
    pub owner: OwnerKind,
    /// The process that owns the lock; 0 where an open file owns it.
    pub pid: i32,
    pub write: bool,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerKind {
    Process,
    OpenFile,
    Flock,
}

impl LockLine {
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
                let lines = now.lines().filter_map(|line| parse(line, &self.file_id));
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

/// Parses a line; `None` if it is about another file.
fn parse(line: &str, file_id: &str) -> Option<LockLine> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_files_do_not_count() {
        let held = parse("1: POSIX  ADVISORY  WRITE 3568 fe:00:2531452 0 EOF", "fe:00:2531452");
        let line = LockLine {
            waits: false,
            owner: OwnerKind::Process,
            pid: 3568,
            write: true,
            start: 0,
            end: TO_THE_END,
        };
        assert_eq!(held, Some(line));
        let waits = parse("1: -> OFDLCK ADVISORY  READ  -1 fe:00:2531452 128 159", "fe:00:2531452");
        let (owner, pid, write) = (OwnerKind::OpenFile, 0, false);
        let line = LockLine { waits: true, owner, pid, write, start: 128, end: 159 };
        assert_eq!(waits, Some(line));
        assert_eq!(
            parse("2: FLOCK  ADVISORY  WRITE 12 fe:00:12531452 0 EOF", "fe:00:2531452"),
            None
        );
    }
}
