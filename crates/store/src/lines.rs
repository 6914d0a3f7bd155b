//! Files of JSON lines that grow by one durable line at a time. A line counts once it has its newline:
//! a line that a crash cut off does not exist.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use host::durable::{Seal, Sealing};
use host::{HeldFolder, in_parallel};

use crate::record_files::RESULTS_LIMIT;

/// What a file of lines held when it was read.
#[derive(Debug)]
pub struct Lines<T> {
    /// The values of the whole lines.
    pub values: Vec<T>,
    /// Where the whole lines end.
    pub end: u64,
    /// Whether a torn line follows them.
    pub is_torn: bool,
    /// Length and hash of what was read.
    pub seal: Seal,
}

/// Reads a file of lines, of whose text only a few parts are in memory at a time. A missing file has no lines.
pub fn read<T: Send>(path: &Path, parse: impl Fn(&str) -> Result<T> + Sync) -> Result<Lines<T>> {
    read_from(path, 0, parse)
}

/// Reads the lines behind this offset, where an earlier reading ended.
pub fn read_from<T: Send>(
    path: &Path,
    offset: u64,
    parse: impl Fn(&str) -> Result<T> + Sync,
) -> Result<Lines<T>> {
    let reading = || format!("reading {}", path.display());
    let (parts, length) = match open(path, offset).with_context(reading)? {
        Some((file, length)) => (Parts { file: Some(file), ..Parts::default() }, length),
        None => (Parts::default(), 0),
    };
    let parts = Mutex::new(parts);
    let work = |_| {
        let mut parsed: Vec<(usize, Parsed<T>)> = Vec::new();
        loop {
            let part = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, text)) = part else { return parsed };
            let values = text.map_err(|why| (None, why.into()));
            let values = values.and_then(|text| parse_lines(&text, &parse));
            if values.is_err() {
                parts.lock().unwrap_or_else(PoisonError::into_inner).file = None;
            }
            parsed.push((number, values));
        }
    };
    // A thread costs more than a short file.
    let threads = available_parallelism().map_or(1, |n| n.get());
    let mut parsed = match length {
        0..=PART => work(0),
        _ => in_parallel(threads, work).into_iter().flatten().collect(),
    };
    parsed.sort_by_key(|(number, _)| *number);
    let mut values = Vec::new();
    for (_, part) in parsed {
        let of_part = part.map_err(|(line, why)| match line {
            Some(line) => why.context(format!("{}, line {}", path.display(), values.len() + line)),
            None => why.context(reading()),
        })?;
        values.extend(of_part);
    }
    let Parts { sealing, rest, .. } = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let seal = sealing.finish();
    let end = offset + seal.bytes - rest.len() as u64;
    Ok(Lines { values, end, is_torn: !rest.is_empty(), seal })
}

/// The file from an offset, and how long it is from there; `None` if nothing has the path.
fn open(path: &Path, offset: u64) -> Result<Option<(File, u64)>> {
    let (folder, name) = path.parent().zip(path.file_name()).context("it is no file")?;
    let Some(folder) = HeldFolder::open_if_there(folder)? else { return Ok(None) };
    let Some(mut file) = folder.open_file(name, RESULTS_LIMIT)? else { return Ok(None) };
    file.seek(SeekFrom::Start(offset))?;
    let length = file.metadata()?.len();
    Ok(Some((file, length.saturating_sub(offset))))
}

/// The values of a part, or the number of a wrong line in it, from 1, and why it is wrong.
type Parsed<T> = Result<Vec<T>, (Option<usize>, anyhow::Error)>;

fn parse_lines<T>(text: &[u8], parse: impl Fn(&str) -> Result<T>) -> Parsed<T> {
    // To look for what is no UTF-8 takes longer than to find that there is none.
    let text = str::from_utf8(text).map_or_else(|_| String::from_utf8_lossy(text), Cow::Borrowed);
    let value = |(number, line): (usize, &str)| {
        parse(line.trim_end()).map_err(|why| (Some(number + 1), why))
    };
    text.split_inclusive('\n').enumerate().map(value).collect()
}

/// Bytes that one thread parses at a time, and a line more.
const PART: u64 = 1 << 20;

/// A file as parts of whole lines, in order. All threads take their next part here, and hash it on the way.
#[derive(Default)]
struct Parts {
    /// Absent at the end, and after an error.
    file: Option<File>,
    sealing: Sealing,
    /// What was read behind the last newline.
    rest: Vec<u8>,
    next: usize,
}

impl Parts {
    fn next(&mut self) -> Option<(usize, io::Result<Vec<u8>>)> {
        let text = self.read().transpose()?;
        self.next += 1;
        Some((self.next, text))
    }

    /// Whole lines; nothing at the end of the file.
    fn read(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = &self.file else { return Ok(None) };
        let mut text = Vec::with_capacity(self.rest.len() + PART as usize);
        text.append(&mut self.rest);
        loop {
            let searched = text.len();
            file.take(PART).read_to_end(&mut text)?;
            self.sealing.add(&text[searched..]);
            let newline = text[searched..].iter().rposition(|byte| *byte == b'\n');
            if let Some(newline) = newline {
                self.rest = text.split_off(searched + newline + 1);
                return Ok(Some(text));
            }
            if text.len() == searched {
                (self.file, self.rest) = (None, text);
                return Ok(None);
            }
            if text.len() > LINE_MAX {
                let text = format!("a line is longer than {} MiB", LINE_MAX >> 20);
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
    }
}

/// No line that knee writes is near this.
const LINE_MAX: usize = 1 << 28;

/// Cuts off a torn last line, so that lines can be appended. Returns the values of the whole lines.
pub fn drop_torn<T: Send>(path: &Path, parse: impl Fn(&str) -> Result<T> + Sync) -> Result<Vec<T>> {
    let Lines { values, end, is_torn, .. } = read(path, parse)?;
    if is_torn {
        let shortening = || format!("shortening {}", path.display());
        let (folder, name) = HeldFolder::above(path)?;
        let file = folder.open_to_change(name)?.with_context(shortening)?;
        file.set_len(end).and_then(|()| file.sync_data()).with_context(shortening)?;
    }
    Ok(values)
}

/// Values as JSON lines.
pub fn text<T: serde::Serialize>(values: &[T]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for value in values {
        serde_json::to_writer(&mut text, value)?;
        text.push(b'\n');
    }
    Ok(text)
}

/// Adds text durably: all of it or, if it fails, none.
pub fn append(mut file: &File, text: &[u8]) -> std::io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(text).and_then(|()| file.sync_data());
    if written.is_err() {
        // The next line must not be appended to half of this one.
        let _ = file.set_len(before);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Reads a file of this text as numbers: their sum, where its whole lines end, and whether a torn line follows.
    fn check(text: &str, expected: Result<(usize, u64, u64, bool), &str>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        fs::write(&path, text).unwrap();
        let number = |line: &str| line.trim().parse::<u64>().context("no number");
        let found = match read(&path, number) {
            Ok(lines) => {
                assert_eq!(lines.seal, Seal::for_bytes(text.as_bytes()));
                Ok((lines.values.len(), lines.values.iter().sum(), lines.end, lines.is_torn))
            }
            Err(why) => Err(why.to_string().replace(&format!("{}, ", path.display()), "")),
        };
        assert_eq!(found, expected.map_err(str::to_string));
    }

    #[test]
    fn lines_of_long_files_are_read_in_order() {
        check("", Ok((0, 0, 0, false)));
        check("5", Ok((0, 0, 0, true)));
        check("5\n6\n7", Ok((2, 11, 4, true)));
        check("5\nx\n7\n", Err("line 2"));
        // More than one part, with lines longer than one.
        let long = |n: usize| format!("{}{n}\n", " ".repeat(3 * PART as usize / 2));
        let text = long(1) + &"1\n".repeat(PART as usize) + &long(2);
        let lines = PART as usize + 2;
        check(&text, Ok((lines, PART + 3, text.len() as u64, false)));
        check(&(text.clone() + "x\n" + &text), Err(&format!("line {}", lines + 1)));
    }

    #[test]
    fn reading_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let number = |line: &str| line.parse::<u64>().context("no number");
        assert_eq!(read(&path, number).unwrap().end, 0);
        fs::write(&path, "1\n2").unwrap();
        let first = read(&path, number).unwrap();
        assert_eq!((first.values, first.end), (vec![1], 2));
        fs::write(&path, "1\n23\n4\n").unwrap();
        let more = read_from(&path, 2, number).unwrap();
        assert_eq!((more.values, more.end, more.seal.bytes), (vec![23, 4], 7, 5));
    }
}
