//! Data that identifies the task that wrote it and the turn, so that `verify` can find
//! every write again. The content changes with every turn and differs between tasks, so
//! no file system can skip a write as repeated or keep one copy for two tasks (ext4 does
//! both with extended attributes).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::Failure;
use crate::aligned::Aligned;

/// The data that one task writes, always of the same length.
pub struct Stamped {
    /// At least [`STAMP_BYTES`] long, so that stamping need not check the length.
    bytes: Aligned,
    length: usize,
    tasks: u64,
    index: u64,
}

/// The length of what tells writes apart.
pub(crate) const STAMP_BYTES: usize = size_of::<u64>();

impl Stamped {
    /// Data of `length` bytes for task `index` of `tasks`.
    pub fn new(tasks: usize, index: usize, length: usize) -> Stamped {
        let bytes = Aligned::new(length.max(STAMP_BYTES), 0x6b);
        Stamped { bytes, length, tasks: tasks as u64, index: index as u64 }
    }

    /// Makes it the data of this turn. If it is shorter than a stamp, it has only the
    /// stamp's low bytes: then distant turns look alike.
    #[inline(always)]
    pub fn stamp(&mut self, turn: u64) {
        let stamp = turn.wrapping_mul(self.tasks).wrapping_add(self.index);
        self.bytes[..STAMP_BYTES].copy_from_slice(&stamp.to_le_bytes());
    }

    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Checks that a write call wrote everything: a file system that is nearly full writes
    /// only part.
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

    /// Checks that a region of the file, of `pieces` pieces from offset `start`, holds what
    /// these turns wrote to it, one piece after the other. Only the last turns are read.
    pub fn check_last(
        &mut self,
        file: &File,
        start: u64,
        pieces: u64,
        turns: Range<u64>,
    ) -> Result<(), Failure> {
        /// Few enough to be read in no time.
        const TURNS_MAX: u64 = 1024;
        for turn in turns.start.max(turns.end.saturating_sub(TURNS_MAX))..turns.end {
            self.check(file, start + turn % pieces * self.length as u64, turn)?;
        }
        Ok(())
    }

    fn check(&mut self, file: &File, offset: u64, turn: u64) -> Result<(), Failure> {
        let mut data = vec![0; self.length];
        file.read_exact_at(&mut data, offset).map_err(|e| {
            Failure::from_error(format!("reading back what was written at {offset}"), e)
        })?;
        self.stamp(turn);
        if data == self.bytes() {
            return Ok(());
        }
        Err(Failure::new(format!("what turn {turn} wrote at {offset} is not in the file")))
    }
}
