//! Steps: what is made on the way to a mounted file system, each standing on the one before, and
//! undone in reverse. An entry is lines: `~` and the kind of step, then what it was about, the
//! path last, since paths may hold anything.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::file_systems::{block_device, loop_device, mount};
use crate::journal::{Identity, PREFIX};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoStep {
    /// Mounts `source` on the directory `point`, in a directory of our own.
    Mount {
        /// The device, or a name that only we give.
        source: String,
        /// Where.
        point: PathBuf,
    },
    /// Shows an image, a file of our own, as a block device.
    Loop {
        /// The loop device.
        device: PathBuf,
        /// The image.
        image: PathBuf,
        /// What tells the image from another file of its name.
        made: Identity,
    },
    /// Makes file systems on a block device that the user gave us.
    Device {
        /// The device.
        device: PathBuf,
    },
}

impl UndoStep {
    /// As a journal holds it.
    pub fn entry(&self) -> Vec<u8> {
        let path = |path: &Path| path.as_os_str().as_bytes().to_vec();
        match self {
            UndoStep::Mount { source, point } => {
                [format!("~mount\n{source}\n").into_bytes(), path(point)].concat()
            }
            UndoStep::Loop { device, image, made } => {
                let known = format!("~loop\n{}\n{}\n", device.display(), made.text());
                [known.into_bytes(), path(image)].concat()
            }
            UndoStep::Device { device } => [b"~device\n".to_vec(), path(device)].concat(),
        }
    }

    /// Reads an entry. Nothing if it is no step, or one that no knee can have written: what it
    /// names lies in a directory of ours.
    pub fn read(entry: &[u8]) -> Option<UndoStep> {
        let mut lines = entry.strip_prefix(b"~")?.splitn(2, |b| *b == b'\n');
        let (kind, rest) = (lines.next()?, lines.next()?);
        let path = |text: &[u8]| PathBuf::from(OsStr::from_bytes(text));
        let ours = |path: PathBuf| {
            let parent = path.parent()?.file_name()?.as_bytes();
            let below = parent.starts_with(PREFIX.as_bytes());
            (path.is_absolute() && (below || is_in_memory(&path))).then_some(path)
        };
        let text = |text: &[u8]| str::from_utf8(text).ok().map(str::to_string);
        match kind {
            b"mount" => {
                let mut lines = rest.splitn(2, |b| *b == b'\n');
                let source = text(lines.next()?)?;
                Some(UndoStep::Mount { source, point: ours(path(lines.next()?))? })
            }
            b"loop" => {
                let mut lines = rest.splitn(3, |b| *b == b'\n');
                let device = path(lines.next()?);
                let made = Identity::read(lines.next()?)?;
                let image = ours(path(lines.next()?))?;
                loop_device::is_name(&device).then_some(UndoStep::Loop { device, image, made })
            }
            b"device" => Some(UndoStep::Device { device: path(rest) }),
            _ => None,
        }
    }

    /// Undoes it, if it was taken and nobody has undone it; whether there was anything to do.
    pub fn undo(&self) -> Result<bool> {
        match self {
            UndoStep::Mount { source, point } => mount::unmount(source, point),
            UndoStep::Loop { device, image, made } => {
                let released = loop_device::release(device, image, *made)?;
                Ok(remove_image(image, *made)? || released)
            }
            UndoStep::Device { device } => block_device::wipe(device).map(|()| true),
        }
    }

    /// Undoes what a dead knee left; whether nothing is left to do.
    pub fn is_undone(&self, said: &mut Vec<String>) -> bool {
        let what = match self {
            UndoStep::Mount { point, .. } => format!("mount {}", point.display()),
            UndoStep::Loop { device, .. } => format!("loop device {}", device.display()),
            UndoStep::Device { device } => {
                // Its name may be another device's by now, which must not be wiped.
                let device = device.display();
                said.push(format!(
                    "a killed knee may have left a file system on {device}: look (lsblk -f \
                     {device}), and remove it (wipefs -a {device})"
                ));
                return true;
            }
        };
        match self.undo() {
            Ok(true) => said.push(format!("undid the {what}, left by a knee that was killed")),
            Ok(false) => (),
            Err(why) => {
                said.push(format!("the {what}, left by a knee that was killed, stays: {why:#}"));
                return false;
            }
        }
        true
    }
}

/// Whether a path is that of an image on a mount of our own, itself in a directory of ours.
fn is_in_memory(path: &Path) -> bool {
    let above = path.parent().and_then(Path::parent).and_then(Path::file_name);
    above.is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes()))
}

/// Removes an image, if it is still the one that was made; whether it was there.
fn remove_image(image: &Path, made: Identity) -> Result<bool> {
    match fs::symlink_metadata(image) {
        Ok(found) if found.is_file() && Identity::of(&found) == made => {
            fs::remove_file(image).with_context(|| format!("removing {}", image.display()))?;
            Ok(true)
        }
        // Gone with its directory, or in a mount that is gone.
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(step: UndoStep) {
        assert_eq!(UndoStep::read(&step.entry()), Some(step));
    }

    #[test]
    fn what_a_journal_says_of_a_step_is_read_back() {
        let point = PathBuf::from("/a\nb/.knee-1/mounted-0");
        check(UndoStep::Mount { source: "/dev/loop7".to_string(), point });
        let image = PathBuf::from("/a b/.knee-1/memory-0/image-0");
        let made = Identity { device: 7, inode: 9 };
        check(UndoStep::Loop { device: PathBuf::from("/dev/loop7"), image, made });
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
            assert_eq!(UndoStep::read(entry.as_bytes()), None, "{entry}");
        }
    }
}
