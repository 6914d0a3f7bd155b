//! The files of a source, read into one buffer and looked at later.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file that was read, or could not be.
pub(super) struct Read {
    path: PathBuf,
    text: io::Result<Range<usize>>,
}

/// Reads files one after the other and appends them to `bytes`.
pub(super) fn read(root: &Path, paths: Vec<PathBuf>, bytes: &mut Vec<u8>) -> Vec<Read> {
    let read = |path: PathBuf| {
        let start = bytes.len();
        let text = File::open(root.join(&path))
            .and_then(|mut file| file.read_to_end(bytes))
            .map(|length| start..start + length);
        Read { path, text }
    };
    paths.into_iter().map(read).collect()
}

/// The files of one source in one snapshot.
pub(super) struct Files<'a> {
    bytes: &'a [u8],
    reads: &'a [Read],
}

impl<'a> Files<'a> {
    pub fn new(bytes: &'a [u8], reads: &'a [Read]) -> Files<'a> {
        Files { bytes, reads }
    }

    /// Each file, in the order in which they were asked for.
    pub fn iter(&self) -> impl Iterator<Item = Text<'a>> {
        self.reads.iter().map(|read| Text { bytes: self.bytes, read })
    }

    /// The file of a source that has one.
    pub fn only(&self) -> Text<'a> {
        Text { bytes: self.bytes, read: &self.reads[0] }
    }

    /// The sum of all files that hold one number each.
    pub fn sum(&self) -> Result<i64, String> {
        self.iter().map(Text::number).sum()
    }
}

/// One file of a snapshot.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    bytes: &'a [u8],
    read: &'a Read,
}

impl<'a> Text<'a> {
    /// The name of the file without its directory.
    pub fn name(self) -> &'a str {
        self.read.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Its lines. The end of a file that was cut short and lines that are no text are
    /// left out: half a number is a wrong number.
    pub fn lines(self) -> Result<impl Iterator<Item = &'a str>, String> {
        match &self.read.text {
            Err(error) => Err(self.failed(error)),
            Ok(range) => Ok(self.bytes[range.clone()]
                .split_inclusive(|&byte| byte == b'\n')
                .filter_map(|line| str::from_utf8(line.strip_suffix(b"\n")?).ok())),
        }
    }

    /// The number that is all of the file.
    pub fn number(self) -> Result<i64, String> {
        let number = self.lines()?.next().and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| self.failed("holds no number"))
    }

    /// What went wrong with this file.
    pub fn failed(self, why: impl std::fmt::Display) -> String {
        format!("/{}: {why}", self.read.path.display())
    }
}

/// The numbers at the start of a list of words; at most `limit`.
pub(super) fn leading_numbers<'a>(
    words: impl Iterator<Item = &'a str>,
    limit: usize,
) -> impl Iterator<Item = i64> {
    words.take(limit).map_while(|word| word.parse().ok())
}
