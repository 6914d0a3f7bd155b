//! Programs that have been made, a folder each, named after a hash of the file, the flags, the compiler
//! and the harness:
//!
//!     KEY/NAME          the program for this host
//!     KEY/NAME.static   the program for virtual machines
//!     KEY/load.json     `CompiledLoad`; its headers, and the other files that the flags name, must be unchanged

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host::durable::Seal;
use host::paths::{self, check_private};
use records::{CompiledLoad, OwnLoad};

use crate::Linkage;
use crate::compiler::Compiler;

/// Digits of the hash in a folder's name.
const KEY_DIGITS: usize = 16;

/// The description of a load beside its programs.
pub const DESCRIPTION: &str = "load.json";

/// The sources of the harness, by their names beside each other: the first includes the others, in this order.
pub const HARNESS: [(&str, &str); 8] = [
    ("harness.c", include_str!("../c/harness.c")),
    ("harness/board.h", include_str!("../c/harness/board.h")),
    ("harness/report.h", include_str!("../c/harness/report.h")),
    ("harness/task.h", include_str!("../c/harness/task.h")),
    ("harness/marks.h", include_str!("../c/harness/marks.h")),
    ("harness/drive.h", include_str!("../c/harness/drive.h")),
    ("harness/interface.h", include_str!("../c/harness/interface.h")),
    ("harness/tasks.h", include_str!("../c/harness/tasks.h")),
];

/// Everything that makes the harness.
pub fn harness_key() -> String {
    let texts = HARNESS.iter().map(|(_, text)| *text).chain([crate::HEADER]);
    key(&texts.collect::<Vec<_>>())
}

/// A hash of texts.
pub fn key(parts: &[&str]) -> String {
    let joined = parts.iter().map(|part| format!("{} {part}\n", part.len())).collect::<String>();
    Seal::for_bytes(joined.as_bytes()).sha256[..KEY_DIGITS].to_string()
}

/// The folder of all programs, which nobody else may write to.
pub fn root() -> Result<PathBuf> {
    let root = paths::cache()?.join("own-loads");
    let made = || -> Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&root)?;
        check_private(&root, &fs::symlink_metadata(&root)?)
    };
    made().with_context(|| format!("making the folder {}", root.display()))?;
    Ok(root)
}

/// The folder of a load's programs.
pub fn folder(own: &OwnLoad, contents: &Seal, compiler: &Compiler) -> Result<PathBuf> {
    let name = own.file.to_string_lossy();
    // Flags may name folders and files from here.
    let here = if own.flags.is_empty() { PathBuf::new() } else { env::current_dir()? };
    let flags = [own.flags.clone(), vec![here.to_string_lossy().into_owned()]].concat().join("\0");
    let parts = [&contents.sha256, &flags, &*name, &compiler.identity()?, &harness_key()];
    Ok(root()?.join(key(&parts)))
}

/// The program of a load in its folder.
pub fn program(folder: &Path, own: &OwnLoad, linkage: Linkage) -> PathBuf {
    let name = own.name();
    // Profiles show the name of the process.
    let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
    match linkage {
        Linkage::Dynamic => folder.join(stem),
        Linkage::Static => folder.join(format!("{stem}.static")),
    }
}

/// A load that is in the cache, with unchanged headers.
pub fn find(folder: &Path, own: &OwnLoad, linkage: Linkage) -> Option<CompiledLoad> {
    let text = fs::read_to_string(folder.join(DESCRIPTION)).ok()?;
    let compiled: CompiledLoad = serde_json::from_str(&text).ok()?;
    let is_unchanged = |(path, sha256): (&PathBuf, &String)| {
        Seal::for_file(path).is_ok_and(|seal| seal.sha256 == *sha256)
    };
    let is_there = program(folder, own, linkage).is_file();
    (is_there && compiled.headers.iter().all(is_unchanged)).then_some(compiled)
}
