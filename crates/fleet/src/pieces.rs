//! Results of the pieces of a sweep: `records/0007.1/pieces/12` holds that of piece 12 as computed by the first
//! claim of chunk 7. A piece is whole once its file has its name.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host::{HeldFolder, Limit};

const FOLDER: &str = "pieces";
const PIECE_LIMIT: Limit = Limit { bytes: 256 << 20, what: "a piece of a sweep" };

/// The path of a piece below the records of a claim.
pub fn piece_path(piece: u32) -> PathBuf {
    Path::new(FOLDER).join(piece.to_string())
}

/// Keeps the result of a piece, durably.
pub fn keep_piece(records: &Path, piece: u32, text: &str) -> Result<()> {
    let folder = HeldFolder::create(records)?.create_folder(FOLDER)?;
    // Another process may go on with a claim that is taken for dead.
    folder.replace(piece.to_string(), |mut file| Ok(file.write_all(text.as_bytes())?))
}

/// The pieces whose results are kept.
pub fn computed(records: &Path) -> Result<BTreeSet<u32>> {
    let Some(records) = HeldFolder::open_if_there(records)? else { return Ok(BTreeSet::new()) };
    let Some(folder) = records.folder(FOLDER)? else { return Ok(BTreeSet::new()) };
    // A file that is being written has another name.
    let number = |name: &std::ffi::OsStr| name.to_str()?.parse::<u32>().ok();
    Ok(folder.list()?.iter().filter_map(|entry| number(&entry.name)).collect())
}

/// The result of a piece.
pub fn read(records: &Path, piece: u32) -> Result<String> {
    let folder = HeldFolder::open(records)?.folder(FOLDER)?;
    let text = folder.map(|folder| folder.read_text(piece.to_string(), PIECE_LIMIT)).transpose()?;
    text.flatten()
        .with_context(|| format!("{} is missing", records.join(piece_path(piece)).display()))
}
