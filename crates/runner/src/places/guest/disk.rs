//! A guest's disk: a file without a name, on which the host makes a file system before each run
//! and checks it after that, while the guest has it not mounted. Neither needs to be root.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use host::memfd;
use records::{FileSystem, Storage};
use setup::file_systems::{self, kinds, sparse_copy};

/// A disk.
pub struct Disk {
    /// Its bytes.
    pub file: File,
    /// Where they lie, in words.
    pub on: String,
    bytes: u64,
    time: Duration,
}

impl Disk {
    /// A blank one, in a directory of the host or in its memory.
    pub fn new(storage: &Storage, directory: &Path, time: Duration) -> Result<Disk> {
        let bytes = records::parse::bytes(&storage.size.0)?;
        let (file, on) = match storage.on.as_str() {
            "ram" => {
                let file = memfd::in_memory("guest-disk", &[])?;
                file.set_len(bytes).context("making a disk in memory")?;
                (file, "memory of the host".to_string())
            }
            _ => (
                memfd::in_directory(directory, bytes)
                    .context("making a disk for a guest (choose another --dir, or --on ram)")?,
                format!("a file in {}", directory.display()),
            ),
        };
        Ok(Disk { file, on, bytes, time })
    }

    /// Makes a file system on it, whatever was there; what was made.
    pub fn format(&self, made: &FileSystem) -> Result<BTreeMap<String, String>> {
        let Some(tools) = &kinds::kind(&made.kind)?.tools else { return Ok(BTreeMap::new()) };
        sparse_copy::blank(&self.file, self.bytes).context("blanking the guest's disk")?;
        file_systems::format(tools, &memfd::path(&self.file), &made.mkfs, self.time)
    }

    /// Keeps what is on it now, in a directory; how many extents of free space that has.
    pub fn keep(&self, made: &FileSystem, directory: &Path) -> Result<(File, Option<u64>)> {
        let image = memfd::in_directory(directory, self.bytes)?;
        sparse_copy::copy_onto(&self.file, &image)?;
        sparse_copy::punch_holes(&memfd::path(&image))?;
        let tools = kinds::kind(&made.kind)?.tools.as_ref();
        let path = memfd::path(&image);
        let extents = tools.and_then(|tools| file_systems::free_extents(tools, &path, self.time));
        Ok((image, extents))
    }

    /// What its check says is wrong with the file system.
    pub fn complaint(&self, made: &FileSystem) -> Option<String> {
        let tools = kinds::kind(&made.kind).ok()?.tools.as_ref()?;
        file_systems::complaint(tools, &memfd::path(&self.file), self.time)
    }
}
