//! A block device that the user provides for file systems. knee accepts it only if it is unused and
//! blank, and leaves it blank.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// File systems, volume managers and partition tables leave their signatures within these bytes at
/// the beginning and the end of a device.
const FIRST_BYTES: u64 = 1 << 20;
const LAST_BYTES: u64 = 64 << 10;

/// Known signatures: offset, bytes, and what has them.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"XFSB", "an xfs file system"),
    (0, b"LUKS\xba\xbe", "an encrypted volume"),
    (0, b"hsqs", "a squashfs image"),
    (3, b"NTFS", "an ntfs file system"),
    (512, b"EFI PART", "a partition table"),
    (512, b"LABELONE", "an LVM volume"),
    (4096, b"EFI PART", "a partition table"),
    (4096, b"\xfc\x4e\x2b\xa9", "a member of a RAID array"),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (4086, b"SWAPSPACE2", "swap space"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (0x1fe, b"\x55\xaa", "a boot sector or partition table"),
];

/// Refuses a device that is not a block device, is used, or is not blank.
pub fn check(path: &Path) -> Result<()> {
    let name = path.display();
    let metadata = fs::metadata(path).with_context(|| format!("looking for the device {name}"))?;
    ensure!(
        metadata.file_type().is_block_device(),
        "{name} is not a block device: name one, or use loop"
    );
    check_unused(path, metadata.rdev())?;
    let device = open_exclusively(path)?;
    let bytes = size(&device).with_context(|| format!("reading the size of {name}"))?;
    ensure!(
        bytes > 2 * FIRST_BYTES,
        "{name} has {bytes} bytes, too few for a file system: name a larger device"
    );
    let (first, last) = ends(&device, bytes).with_context(|| format!("reading {name}"))?;
    let signature =
        SIGNATURES.iter().find(|(offset, bytes, _)| first[*offset..].starts_with(bytes));
    let content = signature.map_or("data", |(_, _, owner)| owner);
    ensure!(
        first.iter().chain(&last).all(|byte| *byte == 0),
        "{name} is not blank: it has {content}. If that is not needed: wipefs -a {name} && \
         dd if=/dev/zero of={name} bs=1M count=1"
    );
    Ok(())
}

/// Refuses a device that is mounted, has partitions, or is part of another device.
fn check_unused(path: &Path, number: u64) -> Result<()> {
    let name = path.display();
    let (major, minor) = (libc::major(number), libc::minor(number));
    let is_device =
        |source: &str| fs::metadata(source).is_ok_and(|metadata| metadata.rdev() == number);
    let mounts = host::mounts::current();
    let mounted =
        mounts.iter().find(|mount| mount.device == (major, minor) || is_device(&mount.source));
    if let Some(mount) = mounted {
        let at = mount.mount_point.display();
        anyhow::bail!("{name} is mounted at {at}: unmount it if it is not needed");
    }
    let sysfs = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    if let Some(holder) = entries(&sysfs.join("holders")).first() {
        let holder = holder.file_name().unwrap_or_default().display();
        anyhow::bail!("{name} is part of {holder}: name another device");
    }
    let partition = entries(&sysfs).into_iter().find(|entry| entry.join("partition").exists());
    ensure!(
        partition.is_none(),
        "{name} has partitions: name an unused partition, or another device"
    );
    Ok(())
}

/// Opens a device exclusively (O_EXCL); fails if the kernel or another process has claimed it.
fn open_exclusively(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_EXCL).open(path);
    opened.with_context(|| {
        format!(
            "opening {} exclusively (is it mounted, swap, or part of an array?)",
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

/// Blanks a device again, by removing the signatures of the file system that knee made.
pub fn wipe(path: &Path) -> Result<()> {
    let device = open_exclusively(path)?;
    let wipe = || {
        let bytes = size(&device)?;
        device.write_all_at(&vec![0; FIRST_BYTES as usize], 0)?;
        device.write_all_at(&vec![0; LAST_BYTES as usize], bytes - LAST_BYTES)?;
        device.sync_all()
    };
    wipe().with_context(|| format!("removing the file system from {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_not_a_block_device() {
        let error = check(Path::new("/proc/version")).unwrap_err().to_string();
        assert!(error.contains("is not a block device"), "{error}");
    }

    #[test]
    fn signatures_lie_in_the_bytes_that_are_read() {
        assert!(
            SIGNATURES
                .iter()
                .all(|(offset, bytes, _)| offset + bytes.len() <= FIRST_BYTES as usize)
        );
    }
}
