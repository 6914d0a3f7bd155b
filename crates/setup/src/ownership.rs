//! How knee recognizes what it made itself: by the names of its directories, and by device and
//! inode number, which differ where something else took the same name later.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The prefix of the names of the directories that runs create.
pub const DIRECTORY_PREFIX: &str = ".knee-";

/// Distinguishes a directory or file from another one that takes its name later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// Number of the device that holds it.
    pub device: u64,
    pub inode: u64,
}

impl FileIdentity {
    pub fn from_metadata(metadata: &Metadata) -> FileIdentity {
        FileIdentity { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Its text in a journal: `DEVICE INODE`.
    pub fn text(self) -> String {
        format!("{} {}", self.device, self.inode)
    }

    pub fn parse(text: &[u8]) -> Option<FileIdentity> {
        let (device, inode) = str::from_utf8(text).ok()?.split_once(' ')?;
        Some(FileIdentity { device: device.parse().ok()?, inode: inode.parse().ok()? })
    }
}
