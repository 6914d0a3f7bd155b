//! The files of a source, read into one buffer and parsed later.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// One file that was read, or why it could not be.
pub(super) struct FileRead {
    path: PathBuf,
    text: io::Result<Range<usize>>,
}

/// Reads files one after the other and appends them to `bytes`.
pub(super) fn read(root: &Path, paths: Vec<PathBuf>, bytes: &mut Vec<u8>) -> Vec<FileRead> {
    let read = |path: PathBuf| {
        let start = bytes.len();
        let text = File::open(root.join(&path))
            .and_then(|mut file| file.read_to_end(bytes))
            .map(|length| start..start + length);
        FileRead { path, text }
    };
    paths.into_iter().map(read).collect()
}

/// The files of one source in one snapshot.
pub(super) struct SourceFiles<'a> {
    bytes: &'a [u8],
    reads: &'a [FileRead],
}

impl<'a> SourceFiles<'a> {
    pub fn new(bytes: &'a [u8], reads: &'a [FileRead]) -> SourceFiles<'a> {
        SourceFiles { bytes, reads }
    }

    /// Each file, in the order of the source's paths.
    pub fn iter(&self) -> impl Iterator<Item = FileText<'a>> {
        self.reads.iter().map(|read| FileText { bytes: self.bytes, read })
    }

    /// The file of a source that has only one.
    pub fn only(&self) -> FileText<'a> {
        FileText { bytes: self.bytes, read: &self.reads[0] }
    }

    /// The sum of all files that hold one number each.
    pub fn sum(&self) -> Result<i64, String> {
        self.iter().map(FileText::number).sum()
    }
}

/// One file of a snapshot.
#[derive(Clone, Copy)]
pub(super) struct FileText<'a> {
    bytes: &'a [u8],
    read: &'a FileRead,
}

impl<'a> FileText<'a> {
    /// The name of the file without its directory.
    pub fn name(self) -> &'a str {
        self.read.path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// The lines of the file. An unfinished last line and lines that are not text are left
    /// out: half a number is a wrong number.
    pub fn lines(self) -> Result<impl Iterator<Item = &'a str>, String> {
        match &self.read.text {
            Err(error) => Err(self.failed(error)),
            Ok(range) => Ok(self.bytes[range.clone()]
                .split_inclusive(|&byte| byte == b'\n')
                .filter_map(|line| str::from_utf8(line.strip_suffix(b"\n")?).ok())),
        }
    }

    /// The lines of the file, each split into a name and the rest at the first separator.
    /// Lines without a separator are left out.
    pub fn entries(
        self,
        separator: char,
    ) -> Result<impl Iterator<Item = (&'a str, &'a str)>, String> {
        Ok(self.lines()?.filter_map(move |line| line.split_once(separator)))
    }

    /// The number of a file that holds only one.
    pub fn number(self) -> Result<i64, String> {
        let number = self.lines()?.next().and_then(|line| line.trim().parse().ok());
        number.ok_or_else(|| self.failed("not a number"))
    }

    /// Why this file cannot be used, with its path.
    pub fn failed(self, why: impl std::fmt::Display) -> String {
        format!("/{}: {why}", self.read.path.display())
    }
}

/// The numbers at the start of a list of words, at most `limit` of them.
pub(super) fn leading_numbers<'a>(
    words: impl Iterator<Item = &'a str>,
    limit: usize,
) -> impl Iterator<Item = i64> {
    words.take(limit).map_while(|word| word.parse().ok())
}
