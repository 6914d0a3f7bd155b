//! The kinds of file systems that knee can make, one row each: the programs that make it, check it
//! without changing it, and describe it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use host::unknown_of;

use crate::file_systems::geometry;
use crate::file_systems::program::Program;

/// A kind of file system.
#[derive(Debug)]
pub struct FileSystemKind {
    /// Its name for mount(8).
    pub name: &'static str,
    /// Its programs; `None` for a kind that needs no device.
    pub tools: Option<Tools>,
}

/// The programs of a kind of file system.
#[derive(Debug)]
pub struct Tools {
    pub make: Program,
    /// Checks an unmounted file system without changing it; fails if it is corrupted.
    pub check: Program,
    /// Prints the geometry; `None` where `make` prints it.
    pub describe: Option<Program>,
    /// Parses the printed geometry.
    pub geometry: fn(&str) -> BTreeMap<String, String>,
    /// Prints the free space of an unmounted file system.
    pub free_space: Program,
    /// Parses the number of free extents.
    pub free_extents: fn(&str) -> Option<u64>,
}

const BTRFS: &str = "btrfs-progs";

/// All kinds, in the order of their names.
pub const KINDS: &[FileSystemKind] = &[
    FileSystemKind {
        name: "btrfs",
        tools: Some(Tools {
            make: program("mkfs.btrfs", &[], BTRFS),
            check: program("btrfs", &["check", "--readonly"], BTRFS),
            describe: None,
            geometry: geometry::btrfs,
            // Tree 10 is the free space tree.
            free_space: program("btrfs", &["inspect-internal", "dump-tree", "-t", "10"], BTRFS),
            free_extents: geometry::free_extents_btrfs,
        }),
    },
    ext("ext2", &["-t", "ext2", "-q", "-F"]),
    ext("ext3", &["-t", "ext3", "-q", "-F"]),
    ext("ext4", &["-t", "ext4", "-q", "-F"]),
    FileSystemKind { name: "tmpfs", tools: None },
    FileSystemKind {
        name: "xfs",
        tools: Some(Tools {
            make: program("mkfs.xfs", &[], "xfsprogs"),
            check: program("xfs_repair", &["-n"], "xfsprogs"),
            describe: None,
            geometry: geometry::xfs,
            free_space: program("xfs_db", &["-r", "-c", "freesp -s"], "xfsprogs"),
            free_extents: geometry::free_extents_xfs,
        }),
    },
];

const fn ext(name: &'static str, arguments: &'static [&'static str]) -> FileSystemKind {
    FileSystemKind {
        name,
        tools: Some(Tools {
            make: program("mke2fs", arguments, "e2fsprogs"),
            check: program("e2fsck", &["-f", "-n"], "e2fsprogs"),
            describe: Some(program("dumpe2fs", &["-h"], "e2fsprogs")),
            geometry: geometry::ext,
            free_space: program("e2freefrag", &[], "e2fsprogs"),
            free_extents: geometry::free_extents_ext,
        }),
    }
}

const fn program(
    name: &'static str,
    arguments: &'static [&'static str],
    package: &'static str,
) -> Program {
    Program { name, arguments, package }
}

/// Finds a kind by its name.
pub fn kind(name: &str) -> Result<&'static FileSystemKind> {
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        None => {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            bail!("{}", unknown_of("kind of file system that knee can make", name, &names))
        }
    }
}
