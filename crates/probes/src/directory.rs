//! The directory under test: its file system, mount options, free space, and the block
//! device below.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use host::mounts::{self, Mount};
use records::Directory;

use crate::tree::{chosen, value};

/// The facts about a directory. If it does not exist, only its path is known.
pub fn directory(path: &Path) -> Directory {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let root = Path::new("/");
    let mounts = mounts::current();
    let device = fs::metadata(&path).ok().map(|metadata| numbers(metadata.dev()));
    let mount = device.and_then(|device| mounts::containing(&mounts, &path, device));
    let space = mounts::space(&path);
    Directory {
        file_system: mount.map(|mount| mount.file_system.clone()),
        source: mount.map(|mount| mount.source.clone()),
        mount_point: mount.map(|mount| mount.mount_point.clone()),
        mount_options: mount.map(Mount::all_options),
        bytes_total: space.map(|space| space.bytes_total),
        bytes_free: space.map(|space| space.bytes_free),
        inodes_free: space.and_then(|space| space.inodes_free),
        device: mount.map(|mount| block_device(root, block_number(mount))).unwrap_or_default(),
        path,
    }
}

fn numbers(device: u64) -> (u32, u32) {
    (libc::major(device), libc::minor(device))
}

/// The numbers of the mounted block device: those of the mount's source if it exists (it may
/// not, like /dev/root), because btrfs mounts have device numbers of their own.
fn block_number(mount: &Mount) -> (u32, u32) {
    fs::metadata(&mount.source)
        .ok()
        .filter(|source| source.file_type().is_block_device())
        .map_or(mount.device, |source| numbers(source.rdev()))
}

/// The facts in sysfs about a block device; empty for other devices.
fn block_device(root: &Path, (major, minor): (u32, u32)) -> BTreeMap<String, String> {
    let Some(disk) = disk(&root.join(format!("sys/dev/block/{major}:{minor}"))) else {
        return BTreeMap::new();
    };
    let facts = [
        ("name", disk.file_name().map(|name| name.to_string_lossy().into_owned())),
        ("model", value(&disk, "device/model")),
        ("on", parts(&disk)),
        ("rotational", value(&disk, "queue/rotational")),
        ("scheduler", value(&disk, "queue/scheduler").map(chosen)),
        ("write_cache", value(&disk, "queue/write_cache")),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The disk of a device: a partition itself has no queue.
fn disk(device: &Path) -> Option<PathBuf> {
    let device = device.canonicalize().ok()?;
    if device.join("partition").exists() {
        device.parent().map(Path::to_owned)
    } else {
        Some(device)
    }
}

/// The devices that make up a mapped device or an array.
fn parts(disk: &Path) -> Option<String> {
    let parts = fs::read_dir(disk.join("slaves")).ok()?.flatten();
    let mut parts: Vec<_> =
        parts.map(|part| part.file_name().to_string_lossy().into_owned()).collect();
    parts.sort();
    (!parts.is_empty()).then(|| parts.join(","))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::expect;

    use super::*;
    use crate::tree;

    #[test]
    fn a_partition_is_described_by_its_disk() {
        let root = tree::fake(&[
            ("sys/block/nvme0n1/device/model", "Fast Disk           \n"),
            ("sys/block/nvme0n1/queue/rotational", "0\n"),
            ("sys/block/nvme0n1/queue/scheduler", "[none] mq-deadline kyber\n"),
            ("sys/block/nvme0n1/nvme0n1p3/partition", "3\n"),
            ("sys/block/dm-0/slaves/nvme0n1", ""),
            ("sys/dev/block/.keep", ""),
        ]);
        for (number, name) in [("259:3", "nvme0n1/nvme0n1p3"), ("253:0", "dm-0")] {
            let link = root.path().join("sys/dev/block").join(number);
            symlink(root.path().join("sys/block").join(name), link).unwrap();
        }
        let devices = [(259, 3), (253, 0), (0, 40)].map(|n| block_device(root.path(), n));
        expect![[r#"
            [
                {
                    "model": "Fast Disk",
                    "name": "nvme0n1",
                    "rotational": "0",
                    "scheduler": "none",
                },
                {
                    "name": "dm-0",
                    "on": "nvme0n1",
                },
                {},
            ]
        "#]]
        .assert_debug_eq(&devices);
    }

    #[test]
    fn proc_is_a_file_system_without_a_device() {
        let directory = directory(Path::new("/proc/self/.."));
        assert_eq!(directory.path, Path::new("/proc"));
        assert_eq!(directory.file_system.as_deref(), Some("proc"));
        assert!(directory.device.is_empty());
    }

    #[test]
    fn only_the_path_of_a_missing_directory_is_known() {
        let path = PathBuf::from("/no/such/directory");
        assert_eq!(directory(&path), Directory { path, ..Directory::default() });
    }
}
