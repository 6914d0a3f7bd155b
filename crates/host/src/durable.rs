//! Durable files: written under a temporary name, flushed and renamed; sealed by length and hash.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::given_file;
use crate::held_folder::{HeldFolder, Limit};
use crate::mounts::space;

/// Writes a file so that a crash leaves the old file, the new file or none, never a part of it.
pub fn write_durably(path: &Path, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let beside = path.with_extension("tmp");
    write_durably_by(path, beside.file_name().unwrap_or_default(), write)
}

/// Writes a file of the user's: what is unfinished has a hidden name that no file of theirs has.
pub fn write_durably_for_user(path: &Path, write: impl FnOnce(&File) -> Result<()>) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    write_durably_by(path, OsStr::new(&format!(".{name}.knee-unfinished")), write)
}

fn write_durably_by(
    path: &Path,
    beside: &OsStr,
    write: impl FnOnce(&File) -> Result<()>,
) -> Result<()> {
    let writing = || format!("writing {}", path.display());
    let (folder, name) = HeldFolder::above(path).with_context(writing)?;
    folder.replace_by(name, beside, write).map_err(|why| with_room(why, folder.path()))
}

/// An error, with the room that is left in a folder if that is the cause.
pub fn with_room(why: anyhow::Error, folder: &Path) -> anyhow::Error {
    let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
    let kind = |cause: &(dyn std::error::Error + 'static)| match cause.downcast_ref::<Errno>() {
        Some(cause) => Some(io::Error::from(*cause).kind()),
        None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    let is_full = why.chain().filter_map(kind).any(|kind| full.contains(&kind));
    let Some(space) = space(folder).filter(|_| is_full) else { return why };
    why.context(format!(
        "{} has {} KiB free: remove files there, or choose another folder",
        folder.display(),
        space.bytes_free >> 10
    ))
}

/// Removes a file, if there is one.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

/// Flushes a folder: names created, renamed or removed in it become durable.
pub fn sync_folder(folder: &Path) -> Result<()> {
    HeldFolder::open(folder)?.sync()
}

/// Length and hash of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Seal {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256, in hexadecimal.
    pub sha256: String,
}

impl Seal {
    /// Hashes a file that the user named.
    pub fn for_file(path: &Path) -> Result<Seal> {
        let any = Limit { bytes: u64::MAX, what: "a file" };
        let sealed = given_file::open(path, any).and_then(Seal::for_open);
        sealed.with_context(|| format!("hashing {}", path.display()))
    }

    /// Hashes an open file from where it is read to its end.
    pub fn for_open(mut file: File) -> Result<Seal> {
        let mut sealing = Sealing::default();
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(sealing.finish()),
                n => sealing.add(&buffer[..n]),
            }
        }
    }

    /// Hashes bytes in memory.
    pub fn for_bytes(bytes: &[u8]) -> Seal {
        Seal { bytes: bytes.len() as u64, sha256: hexadecimal(&Sha256::digest(bytes)) }
    }
}

/// A seal of bytes that come in parts.
#[derive(Clone, Debug, Default)]
pub struct Sealing {
    bytes: u64,
    hasher: Sha256,
}

impl Sealing {
    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    /// The seal of all bytes.
    pub fn finish(self) -> Seal {
        Seal { bytes: self.bytes, sha256: hexadecimal(&self.hasher.finalize()) }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_of_the_users_beside_stays() {
        let folder = std::env::temp_dir().join(format!("knee-durable-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("page.tmp"), "theirs").unwrap();
        let write = |mut file: &File| Ok(file.write_all(b"ours")?);
        write_durably_for_user(&folder.join("page.html"), write).unwrap();
        assert_eq!(fs::read_to_string(folder.join("page.html")).unwrap(), "ours");
        assert_eq!(fs::read_to_string(folder.join("page.tmp")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
