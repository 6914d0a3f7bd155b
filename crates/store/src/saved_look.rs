//! Looks at running programs in files that the user names: `knee explain --pid 4711 --save before.live`.

use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};
use host::durable::write_durably_for_user;
use host::{Limit, given_file};
use records::SavedLook;
use records::live::Observation;

/// Observations of a thousand threads have a few MB.
const LIMIT: Limit = Limit { bytes: 1 << 30, what: "a look at running programs" };

/// Writes a look to a file, whole or not at all.
///
/// # Errors
/// The folder cannot be written to, or is full.
pub fn save_look(path: &Path, observation: Observation) -> Result<()> {
    let text = SavedLook::new(observation).text()?;
    write_durably_for_user(path, |mut file| Ok(file.write_all(text.as_bytes())?))
}

/// Reads a look.
///
/// # Errors
/// The file is no look, of a newer knee, or cut short.
pub fn read_look(path: &Path) -> Result<Observation> {
    let text = given_file::read_text(path, LIMIT)?;
    let look = SavedLook::read(&text).with_context(|| format!("reading {}", path.display()))?;
    Ok(look.observation)
}

/// Whether a file begins like a look.
pub fn is_saved_look(path: &Path) -> bool {
    let length = SavedLook::START.len();
    let mut start = Vec::new();
    let opened = given_file::open(path, LIMIT);
    let read = opened.map(|file| file.take(length as u64).read_to_end(&mut start));
    read.is_ok_and(|read| read.is_ok()) && start == SavedLook::START.as_bytes()
}
