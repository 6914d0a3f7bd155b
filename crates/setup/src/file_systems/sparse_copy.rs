//! Pristine images: a file is made once and copied for each run, so that all runs start from the
//! same state. A copy has holes where the image has holes, and shares its blocks where the file
//! system below can do that.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};

// linux/fs.h
const FICLONE: libc::Ioctl = 0x4004_9409_u32 as libc::Ioctl;

/// How much is read and written at a time where the kernel does not copy by itself.
const CHUNK_BYTES: usize = 1 << 20;

/// Zeros are looked for in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

/// Copies a file to one that did not exist, readable by nobody else. Holes stay holes. What
/// could not be copied whole is removed again. The copy is open for reading and writing.
pub fn copy_sparse(from: &Path, to: &Path) -> Result<File> {
    let copying = || format!("copying the image {} to {}", from.display(), to.display());
    let image = File::open(from).with_context(copying)?;
    let found = image.metadata().with_context(copying)?;
    ensure!(found.is_file(), "{}: it is no plain file: give an image", copying());
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(to)
        .with_context(copying)?;
    let copied = match clone(&image, &file) {
        true => Ok(()),
        false => file.set_len(found.len()).and_then(|()| copy_data(&image, &file, found.len())),
    };
    // Else writing it out would fall into the run that it is for.
    let copied = copied.and_then(|()| file.sync_data());
    copied.inspect_err(|_| drop(fs::remove_file(to))).with_context(copying)?;
    Ok(file)
}

/// Makes a file the same as another one of its length, whatever was in it.
pub fn copy_onto(from: &File, to: &File) -> Result<()> {
    let copy = || -> io::Result<()> {
        if clone(from, to) {
            return Ok(());
        }
        let end = from.metadata()?.len();
        blank(to, end)?;
        copy_data(from, to, end)
    };
    copy().and_then(|()| to.sync_data()).context("copying an image")
}

/// Makes a hole of the first bytes of a file.
pub fn blank(file: &File, bytes: u64) -> io::Result<()> {
    match punch(file, 0, bytes) {
        true => Ok(()),
        false => Err(io::Error::last_os_error()),
    }
}

/// Lets both files share their blocks until one of them is written to; whether that can be.
fn clone(image: &File, file: &File) -> bool {
    // SAFETY: two open descriptors.
    unsafe { libc::ioctl(file.as_raw_fd(), FICLONE, image.as_raw_fd()) == 0 }
}

/// Copies what is no hole.
fn copy_data(image: &File, file: &File, end: u64) -> io::Result<()> {
    let mut at = 0;
    while let Some((start, stop)) = next_data(image, at, end)? {
        copy_range(image, file, start, stop)?;
        at = stop;
    }
    Ok(())
}

/// Makes holes of what is nothing but zeros, so that there is less to copy.
pub fn punch_holes(path: &Path) -> Result<()> {
    let dig = || -> io::Result<()> {
        let image = File::options().read(true).write(true).open(path)?;
        let end = image.metadata()?.len();
        let mut at = 0;
        while let Some((start, stop)) = next_data(&image, at, end)? {
            dig_zeros(&image, start, stop)?;
            at = stop;
        }
        Ok(())
    };
    dig().with_context(|| format!("making holes in {}", path.display()))
}

/// The same between `start` and `stop`, in pieces that file systems can do without.
fn dig_zeros(image: &File, start: u64, stop: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = start;
    while at < stop {
        let wanted = PIECE_BYTES.min((stop - at) as usize);
        image.read_exact_at(&mut piece[..wanted], at)?;
        let zeros = piece[..wanted].iter().all(|byte| *byte == 0);
        // Where no holes can be made, zeros stay.
        if zeros && !punch(image, at, wanted as u64) {
            return Ok(());
        }
        at += wanted as u64;
    }
    Ok(())
}

fn punch(image: &File, at: u64, bytes: u64) -> bool {
    let flags = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: an open descriptor.
    unsafe { libc::fallocate(image.as_raw_fd(), flags, at as i64, bytes as i64) == 0 }
}

/// Where the next data from `at` on begin and end, before `end`.
fn next_data(image: &File, at: u64, end: u64) -> io::Result<Option<(u64, u64)>> {
    let seek = |from: u64, whence| {
        // SAFETY: an open descriptor. Its position is used by nobody.
        match unsafe { libc::lseek(image.as_raw_fd(), from as libc::off_t, whence) } {
            -1 => Err(io::Error::last_os_error()),
            found => Ok(found as u64),
        }
    };
    if at >= end {
        return Ok(None);
    }
    match seek(at, libc::SEEK_DATA) {
        Ok(start) if start >= end => Ok(None),
        Ok(start) => Ok(Some((start, seek(start, libc::SEEK_HOLE)?.min(end)))),
        // Nothing but a hole up to the end.
        Err(e) if e.raw_os_error() == Some(libc::ENXIO) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Copies the bytes from `start` to `stop` to the same place.
fn copy_range(image: &File, file: &File, start: u64, stop: u64) -> io::Result<()> {
    let mut at = start;
    while at < stop {
        let (mut from, mut to) = (at as i64, at as i64);
        let length = (stop - at) as usize;
        // SAFETY: open descriptors and live offsets.
        let copied = unsafe {
            libc::copy_file_range(
                image.as_raw_fd(),
                &mut from,
                file.as_raw_fd(),
                &mut to,
                length,
                0,
            )
        };
        match copied {
            1.. => at += copied as u64,
            // Short reads and file systems that cannot, or not to another one (EXDEV, EINVAL,
            // EOPNOTSUPP): reading says what is wrong, if anything is.
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
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "it became shorter")),
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
        let found = fs::metadata(to).unwrap();
        assert!(found.blocks() * 512 < 8 * MIB, "holes stay holes: {} blocks", found.blocks());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
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
            let found = fs::metadata(&to).unwrap();
            assert_eq!((found.len(), found.blocks()), (bytes, 0));
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
        let said = copy_sparse(here.path(), &here.path().join("new")).unwrap_err();
        assert!(said.to_string().contains("no plain file"), "{said:#}");
        assert!(copy_sparse(Path::new("/no/such"), &here.path().join("new")).is_err());
        assert!(!here.path().join("new").exists());
    }
}
