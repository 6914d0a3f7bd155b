//! Files to import: found, bounded, sealed and decoded before any format parses them. A folder stands
//! for the lkp result files in it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::durable::Seal;
use host::{Limit, given_file};
use records::Warning;

use super::unwrapped::unwrapped;

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
    /// What had to be supposed to make a text of its bytes.
    pub warnings: Vec<Warning>,
    /// Length and hash of the file.
    pub seal: Seal,
    /// When the file was last written, if it is known.
    pub written: Option<jiff::Timestamp>,
}

impl Input {
    /// Reads the file at a path, or the result files of a folder; `-` is standard input.
    pub fn open(path: &Path) -> Result<Vec<Input>> {
        let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
        let what = || format!("reading {}", path.display());
        if fs::metadata(path).with_context(what)?.is_dir() {
            return results(path)?.iter().map(|file| read(file, path)).collect();
        }
        Ok(vec![read(path, path)?])
    }

    /// An input from bytes that were not read from a file.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Input> {
        let (text, warnings) = decode(path, bytes)?;
        let text = unwrapped(text);
        let path = path.to_path_buf();
        let seal = Seal::for_bytes(bytes);
        Ok(Input { given: path.clone(), path, text, warnings, seal, written: None })
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

/// First bytes of compressed files, with a program that prints what is in them.
const COMPRESSED: [(&[u8], &str); 4] = [
    (&[0x1f, 0x8b], "zcat"),
    (b"\xfd7zXZ\0", "xzcat"),
    (&[0x28, 0xb5, 0x2f, 0xfd], "zstdcat"),
    (b"BZh", "bzcat"),
];

fn decode(path: &Path, bytes: &[u8]) -> Result<(String, Vec<Warning>)> {
    let name = path.display();
    if let Some((_, program)) = COMPRESSED.iter().find(|(start, _)| bytes.starts_with(start)) {
        bail!("{name} is compressed{}", remedy(program, path));
    }
    let order: Option<fn([u8; 2]) -> u16> = match bytes {
        [0xff, 0xfe, ..] => Some(u16::from_le_bytes),
        [0xfe, 0xff, ..] => Some(u16::from_be_bytes),
        _ => None,
    };
    if let Some(order) = order {
        let (pairs, odd) = bytes[2..].as_chunks::<2>();
        let letters: Vec<u16> = pairs.iter().map(|pair| order(*pair)).collect();
        let text = String::from_utf16(&letters).ok().filter(|_| odd.is_empty());
        return Ok((text.with_context(|| format!("{name} is damaged UTF-16"))?, Vec::new()));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((text.to_string(), Vec::new())),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
            ensure!(
                !bytes.contains(&0),
                "{name}, line {}: not text; all formats are text: is this the right file?",
                line + 1
            );
            let text: String = bytes.split_inclusive(|byte| *byte == b'\n').map(of_line).collect();
            let what = format!("{name}, line {}: not UTF-8, read as Latin-1", line + 1);
            let advice = "check the names in the record; iconv -f CHARSET -t UTF-8 converts others";
            Ok((text, vec![Warning::new(what, advice)]))
        }
    }
}

/// A line in UTF-8, or else in Latin-1, whose bytes are the first letters of Unicode.
fn of_line(line: &[u8]) -> String {
    let latin = || line.iter().map(|byte| char::from(*byte)).collect();
    std::str::from_utf8(line).map_or_else(|_| latin(), str::to_string)
}

fn remedy(program: &str, path: &Path) -> String {
    format!(": {program} {} | knee record import -", path.display())
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
            bail!("{} is compressed{}", compressed.display(), remedy("zcat", &compressed));
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
