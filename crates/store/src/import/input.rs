//! Files to import: found, bounded, sealed and decoded before any format parses them. A folder stands
//! for the lkp result files in it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::durable::Seal;
use host::{Limit, given_file};

/// More than any result has; a longer file is something else, such as a disk image.
const LIMIT: Limit = Limit { bytes: 256 << 20, what: "a result" };

/// One file to import.
#[derive(Clone, Debug)]
pub struct Input {
    /// Path of the file: as given, or below the folder that was given.
    pub path: PathBuf,
    /// The path that was given.
    pub given: PathBuf,
    /// Text of the file without a byte order mark.
    pub text: String,
    /// Length and hash of the file.
    pub seal: Seal,
    /// When the file was last written, if it is known.
    pub written: Option<jiff::Timestamp>,
}

impl Input {
    /// Reads the file at a path, or the result files of a folder.
    pub fn open(path: &Path) -> Result<Vec<Input>> {
        let what = || format!("reading {}", path.display());
        if fs::metadata(path).with_context(what)?.is_dir() {
            return results(path)?.iter().map(|file| read(file, path)).collect();
        }
        Ok(vec![read(path, path)?])
    }

    /// An input from bytes that were not read from a file.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Input> {
        let text = decode(path, bytes)?;
        let path = path.to_path_buf();
        Ok(Input { given: path.clone(), path, text, seal: Seal::for_bytes(bytes), written: None })
    }
}

fn read(path: &Path, given: &Path) -> Result<Input> {
    // A pipe is read if the user named it, not if it lies in a folder.
    let bytes = if path == given {
        given_file::read(path, LIMIT)?
    } else {
        let mut bytes = Vec::new();
        let file = given_file::open(path, LIMIT)?;
        file.take(LIMIT.bytes).read_to_end(&mut bytes)?;
        bytes
    };
    let written = fs::metadata(path).and_then(|facts| facts.modified()).ok();
    let written = written.and_then(|time| jiff::Timestamp::try_from(time).ok());
    Ok(Input { given: given.to_path_buf(), written, ..Input::from_bytes(path, &bytes)? })
}

fn decode(path: &Path, bytes: &[u8]) -> Result<String> {
    let name = path.display();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        bail!("{name} is compressed: gunzip it first");
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        bail!("{name} is UTF-16: convert it, for example with iconv -f UTF-16 -t UTF-8");
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_string()),
        Err(error) => {
            let before = &bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            bail!("{name}, line {line}: not UTF-8; all formats are text: is this the right file?")
        }
    }
}

/// The result files of an lkp folder: the file of all its runs, or the files of single runs.
fn results(folder: &Path) -> Result<Vec<PathBuf>> {
    for name in ["matrix.json", "stats.json"] {
        let file = folder.join(name);
        if file.is_file() {
            return Ok(vec![file]);
        }
        let compressed = folder.join(format!("{name}.gz"));
        if compressed.is_file() {
            bail!("{} is compressed: gunzip it first", compressed.display());
        }
    }
    let mut runs = Vec::new();
    let listing = || format!("listing {}", folder.display());
    for entry in fs::read_dir(folder).with_context(listing)? {
        let entry = entry.with_context(listing)?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
        let file = entry.path().join("stats.json");
        if let Some(number) = number.filter(|_| file.is_file()) {
            runs.push((number, file));
        }
    }
    runs.sort();
    ensure!(
        !runs.is_empty(),
        "{} holds no matrix.json, no stats.json and no numbered runs with one: name the \
         folder of one commit",
        folder.display()
    );
    Ok(runs.into_iter().map(|(_, file)| file).collect())
}
