//! Files of JSON lines that grow one durable line at a time. A line counts once its newline is
//! there: what a crash cut off never was one.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};

/// The lines of a file, and where a torn last one begins. No file: no lines.
pub fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T>) -> Result<(Vec<T>, Option<u64>)> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
        Err(e) => return Err(e).with_context(|| format!("reading {}", path.display())),
    };
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |end| end + 1);
    let mut values = Vec::new();
    for (number, line) in text[..whole].split_inclusive(|b| *b == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let value = parse(line.trim_end())
            .with_context(|| format!("{}, line {}", path.display(), number + 1))?;
        values.push(value);
    }
    Ok((values, (whole < text.len()).then_some(whole as u64)))
}

/// Leaves only whole lines, so that more can follow. Returns what they hold.
pub fn drop_torn<T>(path: &Path, parse: impl Fn(&str) -> Result<T>) -> Result<Vec<T>> {
    let (values, torn) = read(path, parse)?;
    if let Some(start) = torn {
        let shorten = |file: File| file.set_len(start).and_then(|()| file.sync_data());
        let shortened = no_link().write(true).open(path).and_then(shorten);
        shortened.with_context(|| format!("shortening {}", path.display()))?;
    }
    Ok(values)
}

/// Values as lines.
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
        // The next line must not be glued to half of this one.
        let _ = file.set_len(before);
    }
    written
}

/// Opens no file through a symbolic link.
pub fn no_link() -> OpenOptions {
    let mut options = File::options();
    options.custom_flags(libc::O_NOFOLLOW);
    options
}
