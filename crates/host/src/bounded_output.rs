//! What a program prints, in a file of which only both ends take room, however much it is. The program writes to
//! the file itself: it waits for no reader, and what it leaves behind keeps none waiting.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};
use rustix::fs::{FallocateFlags, fallocate};

use crate::memfd;

/// Bytes that are kept of the beginning, and as many of the end.
pub const KEPT_BYTES: u64 = 8 << 20;

/// As many more are kept whole: a file that was shortened is longer by the note of what it lacks.
const NOTE_BYTES_MAX: u64 = 128;

/// A file that this much is written to keeps it all where the file system frees no parts of files.
const UNCUT_BYTES_MAX: u64 = 1 << 30;

/// A file that a program writes its output to.
#[derive(Debug)]
pub struct BoundedOutput {
    file: File,
    /// Up to where its middle has been freed.
    freed: u64,
}

impl BoundedOutput {
    /// An empty file, opened for reading and writing.
    pub fn new(file: File) -> BoundedOutput {
        BoundedOutput { file, freed: KEPT_BYTES }
    }

    /// A file in memory.
    pub fn in_memory() -> Result<BoundedOutput> {
        Ok(BoundedOutput::new(memfd::create(c"output")?))
    }

    /// The file once more, for a stream of a child.
    pub fn for_child(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Frees the middle of what there is. To be called now and then while the program runs; fails once too much was
    /// written where nothing can be freed.
    pub fn free_middle(&mut self) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let end = length.saturating_sub(KEPT_BYTES);
        // A part of a MiB more costs nothing, and each call something.
        if end < self.freed + (1 << 20) {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.file, flags, self.freed, end - self.freed) {
            Ok(()) => self.freed = end,
            Err(_) if length < UNCUT_BYTES_MAX => (),
            Err(_) => {
                let text = format!("it printed more than {} MiB", UNCUT_BYTES_MAX >> 20);
                return Err(io::Error::new(ErrorKind::FileTooLarge, text));
            }
        }
        Ok(())
    }

    /// What was printed: both ends, and between them how much is left out.
    pub fn text(&self) -> io::Result<Vec<u8>> {
        let length = self.file.metadata()?.len();
        let read = |from: u64, to: u64| {
            let mut bytes = vec![0; (to - from) as usize];
            self.file.read_exact_at(&mut bytes, from).map(|()| bytes)
        };
        if length <= 2 * KEPT_BYTES + NOTE_BYTES_MAX {
            return read(0, length);
        }
        let (start, end) = (read(0, KEPT_BYTES)?, read(length - KEPT_BYTES, length)?);
        Ok([start, said(length - 2 * KEPT_BYTES), end].concat())
    }

    /// Leaves in the file what [`BoundedOutput::text`] returns, once the program has ended.
    pub fn shorten(&self) -> Result<()> {
        let shorten = || -> io::Result<()> {
            let text = self.text()?;
            if self.file.metadata()?.len() > text.len() as u64 {
                self.file.write_all_at(&text[KEPT_BYTES as usize..], KEPT_BYTES)?;
                self.file.set_len(text.len() as u64)?;
            }
            Ok(())
        };
        shorten().context("shortening a log")
    }
}

fn said(left_out: u64) -> Vec<u8> {
    format!("\n… {left_out} bytes are left out here …\n").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn both_ends_of_endless_output_are_kept() {
        let mut output = BoundedOutput::in_memory().unwrap();
        let mut program = output.for_child().unwrap();
        let line = |number: usize| format!("{number:063}\n").into_bytes();
        let block = |first: usize| (first..first + (1 << 15)).flat_map(line).collect::<Vec<u8>>();
        program.write_all(&block(0)).unwrap();
        output.free_middle().unwrap();
        assert!(output.text().unwrap() == block(0));
        for _ in 0..100 {
            program.write_all(&block(1)).unwrap();
            output.free_middle().unwrap();
            let taken = output.file.metadata().unwrap().blocks() * 512;
            assert!(taken <= 2 * KEPT_BYTES + (4 << 20), "{taken} bytes are taken");
        }
        program.write_all(&line(7)).unwrap();
        output.shorten().unwrap();
        let text = output.text().unwrap();
        let left_out = 101 * (2 << 20) + 64 - 2 * KEPT_BYTES;
        let said = String::from_utf8(said(left_out)).unwrap();
        assert_eq!(text.len(), 2 * KEPT_BYTES as usize + said.len());
        assert!(text.starts_with(&block(0)) && text.ends_with(&line(7)));
        let at = KEPT_BYTES as usize;
        assert_eq!(&text[at..at + said.len()], said.as_bytes());
    }
}
