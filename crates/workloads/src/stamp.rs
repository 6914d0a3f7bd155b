//! Bytes that tell who wrote them and in which turn: what workloads write, so that
//! `verify` can find every write again. The content changes with every turn and
//! differs between tasks, so no file system can skip a write as repeated or keep one
//! copy for two tasks (ext4 does both with extended attributes).

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::Failure;

/// The bytes that one task writes, of one length.
pub struct Stamped {
    /// At least [`STAMP`] long, so that stamping needs no look at the length.
    bytes: Vec<u8>,
    length: usize,
    tasks: u64,
    index: u64,
}

const STAMP: usize = size_of::<u64>();

impl Stamped {
    /// `length` bytes of task `index` of `tasks`.
    pub fn new(tasks: usize, index: usize, length: usize) -> Stamped {
        let bytes = vec![0x6b; length.max(STAMP)];
        Stamped { bytes, length, tasks: tasks as u64, index: index as u64 }
    }

    /// Makes them those of this turn. Of lengths below the stamp's only the low bytes
    /// count: then distant turns look alike.
    #[inline(always)]
    pub fn stamp(&mut self, turn: u64) {
        let stamp = turn.wrapping_mul(self.tasks).wrapping_add(self.index);
        self.bytes[..STAMP].copy_from_slice(&stamp.to_le_bytes());
    }

    /// What to write.
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Checks the result of a write of all bytes: a file system that is nearly full
    /// writes some.
    #[inline(always)]
    pub fn all_written(&self, written: isize) -> Result<(), Failure> {
        if written == self.length as isize { Ok(()) } else { Err(self.cut_short(written)) }
    }

    #[cold]
    fn cut_short(&self, written: isize) -> Failure {
        Failure::new(format!(
            "only {written} of {} bytes were written: the file system may be full",
            self.length
        ))
    }

    /// Checks that the file holds the bytes of this turn at this offset.
    pub fn check(&mut self, file: &File, offset: u64, turn: u64) -> Result<(), Failure> {
        let mut found = vec![0; self.length];
        file.read_exact_at(&mut found, offset)
            .map_err(|e| Failure::of(format!("reading back what was written at {offset}"), e))?;
        self.stamp(turn);
        if found == self.bytes() {
            return Ok(());
        }
        Err(Failure::new(format!("what turn {turn} wrote at {offset} is not in the file")))
    }
}
