//! The kinds of file systems that knee can make, one row each: what makes it, what checks it
//! without changing it, and what describes it.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use host::nearest;

use crate::file_systems::geometry;
use crate::file_systems::program::Program;

/// One kind.
#[derive(Debug)]
pub struct Kind {
    /// Its name, as mount(8) takes it.
    pub name: &'static str,
    /// What it is made with; absent for what needs no device.
    pub tools: Option<Tools>,
}

/// The programs of a kind.
#[derive(Debug)]
pub struct Tools {
    /// Makes it.
    pub make: Program,
    /// Says whether it is sound, by its exit status, and changes nothing.
    pub check: Program,
    /// Describes it; absent where what makes it does so.
    pub describe: Option<Program>,
    /// Reads the description.
    pub geometry: fn(&str) -> BTreeMap<String, String>,
    /// Describes the free space of one that is not mounted.
    pub free_space: Program,
    /// Reads how many extents that has.
    pub free_extents: fn(&str) -> Option<u64>,
}

const BTRFS: &str = "btrfs-progs";

/// All kinds, by name.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "btrfs",
        tools: Some(Tools {
            make: program("mkfs.btrfs", &[], BTRFS),
            check: program("btrfs", &["check", "--readonly"], BTRFS),
            describe: None,
            geometry: geometry::btrfs,
            // Its tree of free space.
            free_space: program("btrfs", &["inspect-internal", "dump-tree", "-t", "10"], BTRFS),
            free_extents: geometry::free_extents_btrfs,
        }),
    },
    ext("ext2", &["-t", "ext2", "-q", "-F"]),
    ext("ext3", &["-t", "ext3", "-q", "-F"]),
    ext("ext4", &["-t", "ext4", "-q", "-F"]),
    Kind { name: "tmpfs", tools: None },
    Kind {
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

const fn ext(name: &'static str, arguments: &'static [&'static str]) -> Kind {
    Kind {
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

/// The kind of this name.
pub fn kind(name: &str) -> Result<&'static Kind> {
    match KINDS.iter().find(|kind| kind.name == name) {
        Some(kind) => Ok(kind),
        None => {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            let hint = nearest(name, names.iter().copied());
            bail!("knee makes no file system of kind '{name}'{hint}; it makes {}", names.join(", "))
        }
    }
}
