//! A block device that the user gives us to make file systems on: taken only if nobody uses it
//! and there is nothing on it, and blank again when we are done.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// What file systems, volume managers and partition tables leave lies within these, at the
/// beginning and the end of a device.
const FIRST_BYTES: u64 = 1 << 20;
const LAST_BYTES: u64 = 64 << 10;

/// Known marks: where, what, whose.
const MARKS: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an xfs file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume"),
    (0, b"hsqs", "a squashfs image"),
    (3, b"NTFS", "an ntfs file system"),
    (512, b"EFI PART", "a partition table"),
    (512, b"LABELONE", "an LVM volume"),
    (4096, b"EFI PART", "a partition table"),
    (4096, b"\xfc\x4e\x2b\xa9", "a part of an array"),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x1fe, b"\x55\xaa", "a boot sector or partition table"),
];

/// Refuses a device that is not a block device, is used, or is not blank.
pub fn check(path: &Path) -> Result<()> {
    let name = path.display();
    let found = fs::metadata(path).with_context(|| format!("looking for the device {name}"))?;
    ensure!(found.file_type().is_block_device(), "{name} is no block device: give one, or loop");
    check_unused(path, found.rdev())?;
    let device = open_alone(path)?;
    let bytes = size(&device).with_context(|| format!("asking for the size of {name}"))?;
    ensure!(bytes > 2 * FIRST_BYTES, "{name} has {bytes} bytes, too few for any file system");
    let (first, last) = ends(&device, bytes).with_context(|| format!("reading {name}"))?;
    let mark = MARKS.iter().find(|(at, mark, _)| first[*at..].starts_with(mark));
    let what = mark.map_or("data", |(_, _, what)| what);
    ensure!(
        first.iter().chain(&last).all(|byte| *byte == 0),
        "{name} is not blank, it has {what}: if that may go, wipefs -a {name} && \
         dd if=/dev/zero of={name} bs=1M count=1"
    );
    Ok(())
}

/// Refuses a device that is mounted, has partitions, or is a part of something else.
fn check_unused(path: &Path, number: u64) -> Result<()> {
    let name = path.display();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let is_ours = |source: &str| fs::metadata(source).is_ok_and(|found| found.rdev() == number);
    let mounts = probes::mounts();
    let mounted =
        mounts.iter().find(|mount| mount.device == (major, minor) || is_ours(&mount.source));
    if let Some(mount) = mounted {
        let at = mount.mount_point.display();
        anyhow::bail!("{name} is mounted at {at}: umount it, if it is not needed");
    }
    let facts = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    if let Some(holder) = entries(&facts.join("holders")).first() {
        let holder = holder.file_name().unwrap_or_default().display();
        anyhow::bail!("{name} is a part of {holder}: take another device");
    }
    let partition = entries(&facts).into_iter().find(|entry| entry.join("partition").exists());
    ensure!(partition.is_none(), "{name} has partitions: name one that is free, or another device");
    Ok(())
}

/// Opens a device that nobody else has claimed.
fn open_alone(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path);
    opened.with_context(|| {
        format!(
            "opening {} for us alone (is it mounted, swap, or part of an array?)",
            path.display()
        )
    })
}

fn size(mut device: &File) -> io::Result<u64> {
    device.seek(SeekFrom::End(0))
}

fn ends(device: &File, bytes: u64) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut first, mut last) = (vec![0; FIRST_BYTES as usize], vec![0; LAST_BYTES as usize]);
    device.read_exact_at(&mut first, 0)?;
    device.read_exact_at(&mut last, bytes - LAST_BYTES)?;
    Ok((first, last))
}

/// Makes a device of ours blank again: the marks of the file system that we made go.
pub fn wipe(path: &Path) -> Result<()> {
    let device = open_alone(path)?;
    let wiped = || {
        let bytes = size(&device)?;
        device.write_all_at(&vec![0; FIRST_BYTES as usize], 0)?;
        device.write_all_at(&vec![0; LAST_BYTES as usize], bytes - LAST_BYTES)?;
        device.sync_all()
    };
    wiped().with_context(|| format!("removing our file system from {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_no_block_device() {
        let said = check(Path::new("/proc/version")).unwrap_err().to_string();
        assert!(said.contains("is no block device"), "{said}");
    }

    #[test]
    fn marks_lie_where_we_look() {
        assert!(MARKS.iter().all(|(at, mark, _)| at + mark.len() <= FIRST_BYTES as usize));
    }
}
