//! Files of JSON lines to which one process appends, each line durable before the next thing begins. A line that a kill cut
//! off is as if it had never been begun.

use std::convert::identity;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use host::{HeldFolder, Limit, in_parallel};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What such a file is, for messages.
#[derive(Clone, Copy, Debug)]
pub struct LinesOf {
    /// "the log of a bisection".
    pub file: &'static str,
    /// What has it: "bisection".
    pub owner: &'static str,
    /// How to go on once there is room.
    pub go_on: &'static str,
}

/// An open file. Nobody else can open it meanwhile.
pub struct Lines {
    file: File,
    of: LinesOf,
}

impl Lines {
    /// Makes a file, or opens the one that is there, and returns what it holds.
    pub fn open<E: DeserializeOwned + Send>(path: &Path, of: LinesOf) -> Result<(Lines, Vec<E>)> {
        Lines::open_as(path, of, identity)
    }

    /// Makes a file, or opens the one that is there, and returns what it holds, each event as `made` makes it.
    pub fn open_as<E: DeserializeOwned, T: Send>(
        path: &Path,
        of: LinesOf,
        made: impl Fn(E) -> T + Sync,
    ) -> Result<(Lines, Vec<T>)> {
        let opening = || format!("opening {}", path.display());
        let (folder, name) = HeldFolder::above(path)?;
        let mut file = folder.append(name)?;
        ensure!(
            file.try_lock().is_ok(),
            "{} is in use: another knee goes on with this {}",
            path.display(),
            of.owner
        );
        let (events, whole) = read_as(path, of, made)?;
        // What a kill left of a line goes away, so that the next line begins at its start.
        file.set_len(whole).with_context(opening)?;
        file.seek(SeekFrom::End(0))?;
        Ok((Lines { file, of }, events))
    }

    /// A file to which nothing can be written.
    pub fn closed(of: LinesOf) -> Result<Lines> {
        Ok(Lines { file: File::open("/dev/null")?, of })
    }

    /// Appends an event. When this returns, it is durable.
    pub fn append(&mut self, event: &impl Serialize) -> Result<()> {
        let LinesOf { file, owner, go_on } = self.of;
        let line = serde_json::to_string(event)
            .with_context(|| format!("writing an event of the {owner}"))?
            + "\n";
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("writing {file}: make room, then {go_on}"))
    }
}

/// The first event of a file. `None` without the file, or before its first line is whole.
pub fn first<E: DeserializeOwned>(path: &Path, of: LinesOf) -> Result<Option<E>> {
    let (folder, name) = HeldFolder::above(path)?;
    let limit = Limit { bytes: 1 << 30, what: of.file };
    let Some(file) = folder.open_file(name, limit)? else { return Ok(None) };
    let mut line = String::new();
    let read = BufReader::new(file).take(FIRST_MAX).read_line(&mut line);
    read.with_context(|| format!("reading {}", path.display()))?;
    let Some(line) = line.strip_suffix('\n') else { return Ok(None) };
    let event = serde_json::from_str(line);
    let wrong = || format!("{}: line 1 is not an event of a {}", path.display(), of.owner);
    event.map(Some).with_context(wrong)
}

/// Bytes of a first line at most: it may have many names of cases.
const FIRST_MAX: u64 = 1 << 26;

/// The events of a file and the length of its whole lines.
pub fn read<E: DeserializeOwned + Send>(path: &Path, of: LinesOf) -> Result<(Vec<E>, u64)> {
    read_as(path, of, identity)
}

/// What `made` makes of the events of a file, on the CPU that read each, and the length of its whole lines.
pub fn read_as<E: DeserializeOwned, T: Send>(
    path: &Path,
    of: LinesOf,
    made: impl Fn(E) -> T + Sync,
) -> Result<(Vec<T>, u64)> {
    let (folder, name) = HeldFolder::above(path)?;
    let none = || format!("{} is not there", path.display());
    let limit = Limit { bytes: 1 << 30, what: of.file };
    let text = folder.read_text(name, limit)?.with_context(none)?;
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let lines: Vec<&str> = text[..whole].lines().collect();
    let chunks: Vec<&[&str]> = lines.chunks(LINES_A_CHUNK).collect();
    let parsed = in_parallel(chunks.len(), |chunk| {
        let event = |(at, line): (usize, &&str)| {
            let number = chunk * LINES_A_CHUNK + at + 1;
            serde_json::from_str(line).map(&made).with_context(|| {
                format!("{}: line {number} is not an event of a {}", path.display(), of.owner)
            })
        };
        chunks[chunk].iter().enumerate().map(event).collect::<Result<Vec<T>>>()
    });
    let mut events = Vec::with_capacity(lines.len());
    for chunk in parsed {
        events.extend(chunk?);
    }
    Ok((events, whole as u64))
}

/// A file of a hundred megabytes is read by all CPUs.
const LINES_A_CHUNK: usize = 64;
