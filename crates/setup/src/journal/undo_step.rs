//! Steps to a mounted file system. Each depends on the one before, and they are undone in reverse.
//! A journal entry is lines: `~` and the kind of step, then its details, the path last, since a
//! path may contain newlines.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::file_systems::{block_device, loop_device, mount};
use crate::ownership::{DIRECTORY_PREFIX, FileIdentity};

/// A step that changes the host, and how to undo it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoStep {
    /// Mounts `source` on `point`, a directory inside a directory of knee's.
    Mount {
        /// The device, or a name that only this knee uses.
        source: String,
        point: PathBuf,
    },
    /// Binds an image file of knee's to a loop device.
    Loop { device: PathBuf, image: PathBuf, identity: FileIdentity },
    /// Makes file systems on a block device that the user provided.
    Device { device: PathBuf },
}

impl UndoStep {
    /// Its entry in a journal.
    pub fn entry(&self) -> Vec<u8> {
        let path = |path: &Path| path.as_os_str().as_bytes().to_vec();
        match self {
            UndoStep::Mount { source, point } => {
                [format!("~mount\n{source}\n").into_bytes(), path(point)].concat()
            }
            UndoStep::Loop { device, image, identity } => {
                let head = format!("~loop\n{}\n{}\n", device.display(), identity.text());
                [head.into_bytes(), path(image)].concat()
            }
            UndoStep::Device { device } => [b"~device\n".to_vec(), path(device)].concat(),
        }
    }

    /// Parses an entry; `None` if it is no step, or one that knee cannot have written because its
    /// paths lie outside knee's directories.
    pub fn parse(entry: &[u8]) -> Option<UndoStep> {
        let mut lines = entry.strip_prefix(b"~")?.splitn(2, |b| *b == b'\n');
        let (kind, rest) = (lines.next()?, lines.next()?);
        let path = |text: &[u8]| PathBuf::from(OsStr::from_bytes(text));
        let own_path = |text: &[u8]| {
            let path = path(text);
            let parent = path.parent()?.file_name()?.as_bytes();
            let is_below = parent.starts_with(DIRECTORY_PREFIX.as_bytes());
            (path.is_absolute() && (is_below || is_in_memory(&path))).then_some(path)
        };
        let text = |text: &[u8]| str::from_utf8(text).ok().map(str::to_string);
        match kind {
            b"mount" => {
                let mut lines = rest.splitn(2, |b| *b == b'\n');
                let source = text(lines.next()?)?;
                Some(UndoStep::Mount { source, point: own_path(lines.next()?)? })
            }
            b"loop" => {
                let mut lines = rest.splitn(3, |b| *b == b'\n');
                let device = path(lines.next()?);
                let identity = FileIdentity::parse(lines.next()?)?;
                let image = own_path(lines.next()?)?;
                loop_device::is_name(&device).then_some(UndoStep::Loop { device, image, identity })
            }
            b"device" => Some(UndoStep::Device { device: path(rest) }),
            _ => None,
        }
    }

    /// Undoes the step unless that has been done already; returns whether there was anything to do.
    pub fn undo(&self) -> Result<bool> {
        match self {
            UndoStep::Mount { source, point } => mount::unmount(source, point),
            UndoStep::Loop { device, image, identity } => {
                let released = loop_device::release(device, image, *identity)?;
                Ok(remove_image(image, *identity)? || released)
            }
            UndoStep::Device { device } => block_device::wipe(device).map(|()| true),
        }
    }

    /// Undoes the step of a dead knee; returns whether nothing is left to do. Adds a sentence about
    /// what it did, or why it could not, to `messages`.
    pub fn sweep(&self, messages: &mut Vec<String>) -> bool {
        let what = match self {
            UndoStep::Mount { point, .. } => format!("mount {}", point.display()),
            UndoStep::Loop { device, .. } => format!("loop device {}", device.display()),
            UndoStep::Device { device } => {
                // Another device may have its name by now, and must not be wiped.
                let device = device.display();
                messages.push(format!(
                    "a knee that was killed may have left a file system on {device}: check with \
                     lsblk -f {device}, and remove it with wipefs -a {device}"
                ));
                return true;
            }
        };
        match self.undo() {
            Ok(true) => messages.push(format!("undid the {what}, left by a knee that was killed")),
            Ok(false) => (),
            Err(why) => {
                messages
                    .push(format!("the {what}, left by a knee that was killed, stays: {why:#}"));
                return false;
            }
        }
        true
    }
}

/// Whether a path is that of an image in a tmpfs that knee mounted in a directory of its own.
fn is_in_memory(path: &Path) -> bool {
    let above = path.parent().and_then(Path::parent).and_then(Path::file_name);
    above.is_some_and(|name| name.as_bytes().starts_with(DIRECTORY_PREFIX.as_bytes()))
}

/// Removes an image if it is still the one that knee created; returns whether it was there.
fn remove_image(image: &Path, identity: FileIdentity) -> Result<bool> {
    match fs::symlink_metadata(image) {
        Ok(metadata)
            if metadata.is_file() && FileIdentity::from_metadata(&metadata) == identity =>
        {
            fs::remove_file(image).with_context(|| format!("removing {}", image.display()))?;
            Ok(true)
        }
        // Removed with its directory, or with the tmpfs that held it.
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: UndoStep) {
        assert_eq!(UndoStep::parse(&step.entry()), Some(step));
    }

    #[test]
    fn what_a_journal_says_of_a_step_is_read_back() {
        let point = PathBuf::from("/a\nb/.knee-1/mounted-0");
        check(UndoStep::Mount { source: "/dev/loop7".to_string(), point });
        let image = PathBuf::from("/a b/.knee-1/memory-0/image-0");
        let identity = FileIdentity { device: 7, inode: 9 };
        check(UndoStep::Loop { device: PathBuf::from("/dev/loop7"), image, identity });
        check(UndoStep::Device { device: PathBuf::from("/dev/vdb") });
    }

    #[test]
    fn entries_that_no_knee_wrote_are_no_steps() {
        for entry in [
            "~mount\n/dev/loop7\n/home",
            "~mount\n/dev/loop7",
            "~mount\n/dev/loop7\n.knee-1/x",
            "~loop\n/dev/sda\n1 2\n/tmp/.knee-1/image-0",
            "~loop\n/dev/loop7\n1\n/tmp/.knee-1/image-0",
            "~loop\n/dev/loop7\n1 2\n/tmp/image-0",
            "~other\nx",
            "~",
            "=/proc/sys/vm/x",
        ] {
            assert_eq!(UndoStep::parse(entry.as_bytes()), None, "{entry}");
        }
    }
}
