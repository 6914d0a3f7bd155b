//! Files of JSON lines that grow by one durable line at a time. A line counts once it has its newline:
//! a line that a crash cut off does not exist.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use host::{HeldFolder, in_parallel};

use crate::record_files::RESULTS_LIMIT;

/// The values of a file's lines, and the offset of a torn last line. A missing file has no lines.
pub fn read<T: Send>(
    path: &Path,
    parse: impl Fn(&str) -> Result<T> + Sync,
) -> Result<(Vec<T>, Option<u64>)> {
    let (folder, name) = HeldFolder::above(path)?;
    let Some(text) = folder.read(name, RESULTS_LIMIT)? else { return Ok((Vec::new(), None)) };
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let lines: Vec<&[u8]> = text[..whole].split_inclusive(|b| *b == b'\n').collect();
    let value = |(number, line): (usize, &&[u8])| {
        let line = String::from_utf8_lossy(line);
        parse(line.trim_end()).with_context(|| format!("{}, line {}", path.display(), number + 1))
    };
    let part = |part: usize| -> Result<Vec<T>> {
        let first = part * LINES_OF_PART;
        let lines = lines[first..].iter().take(LINES_OF_PART);
        lines.enumerate().map(|(number, line)| value((first + number, line))).collect()
    };
    let parts = lines.len().div_ceil(LINES_OF_PART);
    // A thread costs more than a short file.
    let parts: Vec<Result<Vec<T>>> =
        if parts < 2 { (0..parts).map(part).collect() } else { in_parallel(parts, part) };
    let parts: Vec<Vec<T>> = parts.into_iter().collect::<Result<_>>()?;
    let values = parts.into_iter().flatten().collect();
    Ok((values, (whole < text.len()).then_some(whole as u64)))
}

/// Lines that one thread parses at a time.
const LINES_OF_PART: usize = 500;

/// Cuts off a torn last line, so that lines can be appended. Returns the values of the whole lines.
pub fn drop_torn<T: Send>(path: &Path, parse: impl Fn(&str) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (values, torn) = read(path, parse)?;
    if let Some(start) = torn {
        let shortening = || format!("shortening {}", path.display());
        let (folder, name) = HeldFolder::above(path)?;
        let file = folder.open_to_change(name)?.with_context(shortening)?;
        file.set_len(start).and_then(|()| file.sync_data()).with_context(shortening)?;
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
