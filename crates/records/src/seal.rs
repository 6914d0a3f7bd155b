//! Durable files: written beside their place, flushed, renamed; sealed by length and hash.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::record::Seal;

/// Writes a file so that a crash leaves the old one, the new one, or none, never a part.
pub(crate) fn write_durably(path: &Path, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let beside = path.with_extension("tmp");
    let written = || -> Result<()> {
        let file = create_anew(&beside)?;
        write(&file)?;
        file.sync_all()?;
        Ok(fs::rename(&beside, path)?)
    };
    written().with_context(|| format!("writing {}", path.display()))?;
    sync_folder(path.parent().unwrap_or(Path::new("/")))
}

/// Makes a file that was not there. What lies in its place goes and is never written to: it
/// may be a link.
pub(crate) fn create_anew(path: &Path) -> io::Result<File> {
    remove_if_there(path)?;
    File::options().write(true).create_new(true).open(path)
}

/// Removes a file, if there is one.
pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Makes names created, renamed or removed in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|f| f.sync_all())
        .with_context(|| format!("flushing folder {}", folder.display()))
}

/// Length and hash of what was read already.
pub(crate) fn seal_bytes(bytes: &[u8]) -> Seal {
    Seal { bytes: bytes.len() as u64, sha256: hexadecimal(&Sha256::digest(bytes)) }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

impl Seal {
    /// Length and hash of a file as it is now.
    pub fn of(path: &Path) -> Result<Seal> {
        seal(path)
    }

    /// Length and hash of what is in memory.
    pub fn of_bytes(bytes: &[u8]) -> Seal {
        seal_bytes(bytes)
    }
}

/// Length and hash of a file as it is now.
pub(crate) fn seal(path: &Path) -> Result<Seal> {
    let hash = || -> io::Result<Seal> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            let n = file.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            bytes += n as u64;
            hasher.update(&buffer[..n]);
        }
        Ok(Seal { bytes, sha256: hexadecimal(&hasher.finalize()) })
    };
    hash().with_context(|| format!("hashing {}", path.display()))
}
