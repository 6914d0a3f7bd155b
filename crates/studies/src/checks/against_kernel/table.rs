//! The locks of one file as /proc/locks tells them.
//!
//!     1: POSIX  ADVISORY  WRITE 3568 fe:00:2531452 0 EOF
//!     1: -> OFDLCK ADVISORY  READ  -1 fe:00:2531452 128 159      waits for it
//!
//! Of open files the processes mean nothing: who made the call may be gone long since.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::fs::MetadataExt;

use algorithms::mechanisms::file_locks::TO_THE_END;
use anyhow::{Context, Result};

/// A lock that is held or waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub waits: bool,
    pub owners: Owners,
    /// Of a process; 0 for those of open files.
    pub pid: i32,
    pub write: bool,
    pub start: u64,
    pub end: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owners {
    Process,
    OpenFile,
    Flock,
}

impl Line {
    /// Whether what another line tells of is part of this one.
    pub fn covers(&self, part: &Line) -> bool {
        let whose = |line: &Line| (line.waits, line.owners, line.pid, line.write);
        whose(self) == whose(part) && self.start <= part.start && part.end <= self.end
    }
}

/// /proc/locks, and whose lines count.
pub struct Table {
    locks: File,
    /// Device and inode, as they stand there.
    place: String,
}

impl Table {
    pub fn of(file: &File) -> Result<Table> {
        let locks = File::open("/proc/locks").context("opening /proc/locks")?;
        let metadata = file.metadata().context("the file to lock")?;
        let (device, inode) = (metadata.dev(), metadata.ino());
        let (major, minor) = (libc::major(device), libc::minor(device));
        let place = format!("{major:02x}:{minor:02x}:{inode}");
        Ok(Table { locks, place })
    }

    /// The lines of the file. Of one CPU, what was granted last stands first.
    ///
    /// The table is read in pieces, and each begins at the number of a line: a lock that is granted
    /// meanwhile shifts the others, and one is there twice. So it is read until it stands still.
    pub fn lines(&mut self) -> Result<Vec<Line>> {
        let mut before = self.read()?;
        loop {
            let now = self.read()?;
            if now == before {
                let lines = now.lines().filter_map(|line| read(line, &self.place));
                return Ok(lines.collect());
            }
            before = now;
        }
    }

    fn read(&mut self) -> Result<String> {
        let mut text = String::new();
        self.locks.rewind().context("reading /proc/locks anew")?;
        self.locks.read_to_string(&mut text).context("reading /proc/locks")?;
        Ok(text)
    }

    /// How many requests wait.
    pub fn waiting(&mut self) -> Result<usize> {
        Ok(self.lines()?.iter().filter(|line| line.waits).count())
    }
}

/// A line, if it is of the file at this place.
fn read(line: &str, place: &str) -> Option<Line> {
    let mut parts = line.split_whitespace().skip(1).peekable();
    let waits = parts.next_if_eq(&"->").is_some();
    let owners = match parts.next()? {
        "POSIX" => Owners::Process,
        "OFDLCK" => Owners::OpenFile,
        "FLOCK" => Owners::Flock,
        _ => return None,
    };
    let write = parts.nth(1)? == "WRITE";
    let pid = parts.next()?.parse().ok()?;
    parts.next().filter(|&found| found == place)?;
    let start = parts.next()?.parse().ok()?;
    let end = parts.next()?;
    let end = if end == "EOF" { TO_THE_END } else { end.parse().ok()? };
    let pid = if owners == Owners::Process { pid } else { 0 };
    Some(Line { waits, owners, pid, write, start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_files_do_not_count() {
        let held = read("1: POSIX  ADVISORY  WRITE 3568 fe:00:2531452 0 EOF", "fe:00:2531452");
        let line = Line {
            waits: false,
            owners: Owners::Process,
            pid: 3568,
            write: true,
            start: 0,
            end: TO_THE_END,
        };
        assert_eq!(held, Some(line));
        let waits = read("1: -> OFDLCK ADVISORY  READ  -1 fe:00:2531452 128 159", "fe:00:2531452");
        let (owners, pid, write) = (Owners::OpenFile, 0, false);
        let line = Line { waits: true, owners, pid, write, start: 128, end: 159 };
        assert_eq!(waits, Some(line));
        assert_eq!(
            read("2: FLOCK  ADVISORY  WRITE 12 fe:00:12531452 0 EOF", "fe:00:2531452"),
            None
        );
    }
}
