//! Results of the pieces of a sweep: `records/0007.1/pieces/12` holds that of piece 12 as computed by the first
//! claim of chunk 7. A piece is whole once its file has its name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host::durable::write_durably;

const FOLDER: &str = "pieces";

/// The path of a piece below the records of a claim.
pub fn piece_path(piece: u32) -> PathBuf {
    Path::new(FOLDER).join(piece.to_string())
}

/// Keeps the result of a piece, durably.
pub fn keep_piece(records: &Path, piece: u32, text: &str) -> Result<()> {
    let folder = records.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    write_durably(&records.join(piece_path(piece)), |mut file| {
        Ok(Write::write_all(&mut file, text.as_bytes())?)
    })
}

/// The pieces whose results are kept.
pub fn computed(records: &Path) -> Result<BTreeSet<u32>> {
    let folder = records.join(FOLDER);
    let entries = match fs::read_dir(&folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries.with_context(|| format!("listing {}", folder.display()))?,
    };
    let mut pieces = BTreeSet::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("listing {}", folder.display()))?;
        // A file that is being written has another name.
        pieces.extend(entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pieces)
}

/// The result of a piece.
pub fn read(records: &Path, piece: u32) -> Result<String> {
    let path = records.join(piece_path(piece));
    fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}
