//! Copies of images: an image is made once and copied for each run, so that all runs start from the
//! same state. A copy has holes where the image has holes, and shares its blocks (FICLONE) where
//! the file system below supports that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, ioctl_ficlone, seek};
use rustix::io::Errno;

/// How much is read and written at a time where the kernel cannot copy.
const CHUNK_BYTES: usize = 1 << 20;

/// Granularity of the search for zeros.
const PIECE_BYTES: usize = 64 << 10;

/// Copies a file to a new one that only this user can read, and returns that opened for reading and
/// writing. Holes stay holes. An incomplete copy is removed.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<File> {
    let copying = || format!("copying the image {} to {}", from.display(), to.display());
    let image = File::open(from).with_context(copying)?;
    let metadata = image.metadata().with_context(copying)?;
    ensure!(metadata.is_file(), "{}: the source is not a regular file: name an image", copying());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(to)
        .with_context(copying)?;
    let copied = if share_blocks(&image, &file) {
        Ok(())
    } else {
        let bytes = metadata.len();
        file.set_len(bytes).and_then(|()| copy_data(&image, &file, bytes))
    };
    // Otherwise its writeback would happen during the run that it is for.
    let copied = copied.and_then(|()| file.sync_data());
    copied.inspect_err(|_| drop(fs::remove_file(to))).with_context(copying)?;
    Ok(file)
}

/// Overwrites a file with the content of another one of the same length.
pub fn copy_onto(from: &File, to: &File) -> Result<()> {
    let copy = || -> io::Result<()> {
        if share_blocks(from, to) {
            return Ok(());
        }
        let end = from.metadata()?.len();
        blank(to, end)?;
        copy_data(from, to, end)
    };
    copy().and_then(|()| to.sync_data()).context("copying an image")
}

/// Turns the first `bytes` bytes of a file into a hole.
pub fn blank(file: &File, bytes: u64) -> io::Result<()> {
    punch(file, 0, bytes)
}

/// Lets both files share their blocks until one of them is written to; returns whether the file
/// system can do that.
fn share_blocks(image: &File, file: &File) -> bool {
    ioctl_ficlone(file, image).is_ok()
}

/// Copies the data between the holes.
fn copy_data(image: &File, file: &File, end: u64) -> io::Result<()> {
    let mut at = 0;
    while let Some((start, stop)) = next_data(image, at, end)? {
        copy_range(image, file, start, stop)?;
        at = stop;
    }
    Ok(())
}

/// Turns zeros into holes, so that there is less to copy.
pub fn punch_holes(path: &Path) -> Result<()> {
    let punch_all = || -> io::Result<()> {
        let image = File::options().read(true).write(true).open(path)?;
        let end = image.metadata()?.len();
        let mut at = 0;
        while let Some((start, stop)) = next_data(&image, at, end)? {
            punch_zeros(&image, start, stop)?;
            at = stop;
        }
        Ok(())
    };
    punch_all().with_context(|| format!("punching holes into {}", path.display()))
}

/// Turns zeros between `start` and `stop` into holes, in pieces of whole blocks.
fn punch_zeros(image: &File, start: u64, stop: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = start;
    while at < stop {
        let wanted = PIECE_BYTES.min((stop - at) as usize);
        image.read_exact_at(&mut piece[..wanted], at)?;
        let zeros = piece[..wanted].iter().all(|byte| *byte == 0);
        // Where the file system has no holes, zeros stay.
        if zeros && punch(image, at, wanted as u64).is_err() {
            return Ok(());
        }
        at += wanted as u64;
    }
    Ok(())
}

fn punch(image: &File, at: u64, bytes: u64) -> io::Result<()> {
    Ok(fallocate(image, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, at, bytes)?)
}

/// The first range of data at or after `at` and before `end`.
fn next_data(image: &File, at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    if at >= end {
        return Ok(None);
    }
    match seek(image, SeekFrom::Data(at)) {
        Ok(start) if start >= end => Ok(None),
        Ok(start) => Ok(Some((start, seek(image, SeekFrom::Hole(start))?.min(end)))),
        // Only a hole up to the end.
        Err(Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Copies the bytes from `start` to `stop` to the same offsets.
fn copy_range(image: &File, file: &File, start: u64, stop: u64) -> io::Result<()> {
    let mut at = start;
    while at < stop {
        let (mut from, mut to) = (at, at);
        let length = (stop - at) as usize;
        match rustix::fs::copy_file_range(image, Some(&mut from), file, Some(&mut to), length) {
            Ok(copied @ 1..) => at += copied as u64,
            // Short reads, and file systems that cannot copy, or not to another one (EXDEV,
            // EINVAL, EOPNOTSUPP): reading reports the error, if there is one.
            _ => return copy_by_hand(image, file, at, stop),
        }
    }
    Ok(())
}

fn copy_by_hand(image: &File, file: &File, start: u64, stop: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut at = start;
    while at < stop {
        let wanted = CHUNK_BYTES.min((stop - at) as usize);
        match image.read_at(&mut chunk[..wanted], at) {
            Ok(0) => {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the image became shorter while it was copied",
                ));
            }
            Ok(read) => {
                file.write_all_at(&chunk[..read], at)?;
                at += read as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::PathBuf;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// An image of 64 MiB with data at its beginning, in its middle and at its odd end.
    fn image(folder: &Path) -> PathBuf {
        let path = folder.join("image");
        let file = File::create(&path).unwrap();
        file.write_all_at(&[7; 9000], 0).unwrap();
        file.write_all_at(&[8; 3 * MIB as usize], 32 * MIB + 5).unwrap();
        file.write_all_at(b"end", 64 * MIB).unwrap();
        path
    }

    #[track_caller]
    fn check_same(from: &Path, to: &Path) {
        assert!(fs::read(from).unwrap() == fs::read(to).unwrap());
        let metadata = fs::metadata(to).unwrap();
        assert!(
            metadata.blocks() * 512 < 8 * MIB,
            "holes stay holes: {} blocks",
            metadata.blocks()
        );
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_copy_is_the_same_and_as_sparse_within_a_file_system_and_to_another_one() {
        let here = tempfile::tempdir().unwrap();
        let from = image(here.path());
        let elsewhere = tempfile::tempdir_in("/dev/shm").ok();
        for folder in [Some(&here), elsewhere.as_ref()].into_iter().flatten() {
            let to = folder.path().join("copy");
            let copy = copy_sparse(&from, &to).unwrap();
            check_same(&from, &to);
            copy.write_all_at(b"x", 0).unwrap();
            assert_eq!(fs::read(&from).unwrap()[0], 7, "the image does not change with a copy");
        }
    }

    #[test]
    fn what_was_in_a_file_is_gone_when_another_is_copied_onto_it() {
        let here = tempfile::tempdir().unwrap();
        let from = image(here.path());
        let path = here.path().join("used");
        fs::write(&path, vec![9; 64 * MIB as usize + 3]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let used = File::options().read(true).write(true).open(&path).unwrap();
        copy_onto(&File::open(&from).unwrap(), &used).unwrap();
        check_same(&from, &path);
    }

    #[test]
    fn what_the_kernel_does_not_copy_is_copied_by_hand() {
        let here = tempfile::tempdir().unwrap();
        let from = image(here.path());
        let (image, copy) = (File::open(&from).unwrap(), here.path().join("copy"));
        let file = File::create(&copy).unwrap();
        copy_by_hand(&image, &file, 0, 2 * MIB + 1).unwrap();
        assert!(fs::read(&copy).unwrap()[..] == fs::read(&from).unwrap()[..2 * MIB as usize + 1]);
        let short = copy_by_hand(&image, &file, 0, 65 * MIB).unwrap_err();
        assert!(short.to_string().contains("shorter"), "{short}");
    }

    #[test]
    fn nothing_but_holes_and_nothing_at_all_can_be_copied() {
        let here = tempfile::tempdir().unwrap();
        for bytes in [0, 5 * MIB + 3] {
            let (from, to) = (here.path().join("from"), here.path().join(format!("to-{bytes}")));
            File::create(&from).unwrap().set_len(bytes).unwrap();
            copy_sparse(&from, &to).unwrap();
            let metadata = fs::metadata(&to).unwrap();
            assert_eq!((metadata.len(), metadata.blocks()), (bytes, 0));
        }
    }

    #[test]
    fn zeros_become_holes_and_read_the_same() {
        let here = tempfile::tempdir().unwrap();
        let from = image(here.path());
        let zeros = File::options().write(true).open(&from).unwrap();
        zeros.write_all_at(&vec![0; 8 * MIB as usize], 8 * MIB).unwrap();
        let before = (fs::read(&from).unwrap(), fs::metadata(&from).unwrap().blocks());
        punch_holes(&from).unwrap();
        assert!(fs::read(&from).unwrap() == before.0);
        let dug = before.1 - fs::metadata(&from).unwrap().blocks();
        assert!(dug * 512 >= 7 * MIB, "{dug} blocks");
    }

    #[test]
    fn nothing_is_overwritten_and_what_is_no_file_is_refused() {
        let here = tempfile::tempdir().unwrap();
        let from = image(here.path());
        let there = here.path().join("there");
        fs::write(&there, "mine").unwrap();
        assert!(copy_sparse(&from, &there).is_err());
        assert_eq!(fs::read(&there).unwrap(), b"mine");
        let error = copy_sparse(here.path(), &here.path().join("new")).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error:#}");
        assert!(copy_sparse(Path::new("/no/such"), &here.path().join("new")).is_err());
        assert!(!here.path().join("new").exists());
    }
}
