//! A guest's disk: a file without a name, on which the host makes a file system before each run and
//! which it checks after the run, while the guest has it unmounted. Neither needs root.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use host::memfd;
use records::{FileSystem, Storage};
use setup::file_systems::{self, kinds, sparse_copy};

/// A guest's disk.
pub struct Disk {
    /// The bytes of the disk.
    pub file: File,
    /// Where the bytes are, in words.
    pub on: String,
    bytes: u64,
    time: Duration,
}

impl Disk {
    /// A blank disk, in a directory of the host or in its memory.
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

    /// Makes a file system on it, whatever was there. Returns its geometry.
    pub fn format(&self, made: &FileSystem) -> Result<BTreeMap<String, String>> {
        let Some(tools) = &kinds::kind(&made.kind)?.tools else { return Ok(BTreeMap::new()) };
        sparse_copy::blank(&self.file, self.bytes).context("blanking the guest's disk")?;
        file_systems::format(tools, &memfd::path(&self.file), &made.mkfs, self.time)
    }

    /// Copies the disk to a nameless file in a directory. Returns it, and its number of free extents.
    pub fn keep(&self, made: &FileSystem, directory: &Path) -> Result<(File, Option<u64>)> {
        let image = memfd::in_directory(directory, self.bytes)?;
        sparse_copy::copy_onto(&self.file, &image)?;
        sparse_copy::punch_holes(&memfd::path(&image))?;
        let tools = kinds::kind(&made.kind)?.tools.as_ref();
        let path = memfd::path(&image);
        let extents = tools.and_then(|tools| file_systems::free_extents(tools, &path, self.time));
        Ok((image, extents))
    }

    /// What the file system's check program finds wrong with it.
    pub fn complaint(&self, made: &FileSystem) -> Option<String> {
        let tools = kinds::kind(&made.kind).ok()?.tools.as_ref()?;
        file_systems::complaint(tools, &memfd::path(&self.file), self.time)
    }
}
