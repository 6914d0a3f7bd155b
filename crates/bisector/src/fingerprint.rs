//! What a build is, as a hash: equal hashes load equal code and data.
//!
//! In programs and libraries, only what is loaded counts: allocated sections that the file holds, without notes such
//! as the build id. Debugging information has paths and times. Of archives (jars, wheels), the names and bytes of what they
//! hold count, without times. The folder of the build, where its name is part of what is loaded, counts as one fixed name.

mod archive;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::durable::Seal;
use object::read::elf::{ElfFile32, ElfFile64};
use object::{Object, ObjectSection, SectionFlags, SectionKind, elf};

/// Digits of a commit id in the release of a kernel.
const RELEASE_DIGITS: usize = 12;

/// Stands for the name of the build's folder.
const ANY_FOLDER: u8 = b'#';

/// The hash of what a build made in `folder`. `tracked` are the files that were there before; `products` are what the
/// user says the build makes, relative to the folder.
pub fn fingerprint(
    folder: &Path,
    tracked: &BTreeSet<PathBuf>,
    products: &[PathBuf],
) -> Result<String> {
    let found = if products.is_empty() {
        let made = made(folder, tracked)?;
        let programs: Vec<PathBuf> =
            made.iter().filter(|path| is_loadable(&folder.join(path))).cloned().collect();
        if programs.is_empty() { made } else { programs }
    } else {
        for product in products {
            ensure!(
                folder.join(product).is_file(),
                "the build made no {} (--product)",
                product.display()
            );
        }
        products.to_vec()
    };
    // A build that makes nothing is what its sources are.
    let found = if found.is_empty() { tracked.iter().cloned().collect() } else { found };
    let name = folder.file_name().unwrap_or_default().as_encoded_bytes();
    let mut all = String::new();
    for path in found {
        let whole = folder.join(&path);
        let bytes = fs::read(&whole).with_context(|| format!("reading {}", whole.display()))?;
        let hash = Seal::for_bytes(&replaced(&loaded(&bytes), name)).sha256;
        all += &format!("{} {hash}\n", path.display());
    }
    Ok(Seal::for_bytes(all.as_bytes()).sha256[..16].to_string())
}

/// The hash of what a kernel loads, by its unpacked image: the name of the commit in its release counts as one fixed name.
/// A kernel built by knee holds nothing else that differs between builds.
pub fn kernel_fingerprint(unpacked: &Path, commit: &str) -> Result<String> {
    let bytes = fs::read(unpacked).with_context(|| format!("reading {}", unpacked.display()))?;
    let name = &commit.as_bytes()[..RELEASE_DIGITS.min(commit.len())];
    Ok(Seal::for_bytes(&replaced(&loaded(&bytes), name)).sha256[..16].to_string())
}

/// Regular files in a folder that are not in the list, in order.
fn made(folder: &Path, tracked: &BTreeSet<PathBuf>) -> Result<Vec<PathBuf>> {
    let mut files = files_below(folder, Path::new(""))?;
    // What Maven notes for itself, with the time or in any order.
    let is_note = |path: &Path| {
        path.as_os_str().as_encoded_bytes().ends_with(archive::NOTE)
            || path.iter().any(|part| part == "maven-status")
    };
    files.retain(|path| !tracked.contains(path) && !is_note(path));
    files.sort();
    Ok(files)
}

/// The regular files of a folder, relative to it. Symbolic links are not followed.
pub fn files_below(folder: &Path, below: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let here = folder.join(below);
    for entry in fs::read_dir(&here).with_context(|| format!("listing {}", here.display()))? {
        let entry = entry?;
        let (path, kind) = (below.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            files.extend(files_below(folder, &path)?);
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

/// Whether a file is a program or a shared library; objects and archives are parts of them.
fn is_loadable(path: &Path) -> bool {
    let is_executable = fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0);
    let is_library = path.file_name().is_some_and(|n| n.to_string_lossy().contains(".so"));
    is_executable || is_library
}

/// Whether a file is a program or a shared library that a linker made.
pub fn is_linked(path: &Path) -> bool {
    let mut head = [0; 18];
    let is_read = File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    // One of both bytes of the type is 0, whatever their order.
    let kind = elf::FileType(head[16].max(head[17]).into());
    is_read && head.starts_with(&elf::ELFMAG) && [elf::ET_EXEC, elf::ET_DYN].contains(&kind)
}

/// The bytes of a file that are loaded: all, unless it is ELF or an archive.
fn loaded(bytes: &[u8]) -> Vec<u8> {
    if let Some(held) = archive::held(bytes) {
        return held;
    }
    if let Ok(file) = ElfFile64::<object::Endianness>::parse(bytes) {
        return sections(&file);
    }
    match ElfFile32::<object::Endianness>::parse(bytes) {
        Ok(file) => sections(&file),
        Err(_) => bytes.to_vec(),
    }
}

fn sections<'a>(file: &impl Object<'a>) -> Vec<u8> {
    let mut all = Vec::new();
    for section in file.sections() {
        let is_allocated = match section.flags() {
            SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & elf::SHF_ALLOC.0 != 0,
            _ => false,
        };
        if !is_allocated || section.kind() == SectionKind::Note {
            continue;
        }
        let head = format!("{:?} {} {}\n", section.name_bytes(), section.address(), section.size());
        all.extend_from_slice(head.as_bytes());
        all.extend_from_slice(section.data().unwrap_or_default());
    }
    all
}

/// The bytes with each occurrence of a name overwritten.
fn replaced(bytes: &[u8], name: &[u8]) -> Vec<u8> {
    let mut result = bytes.to_vec();
    if name.len() < 8 || name.len() > bytes.len() {
        return result;
    }
    let mut at = 0;
    while at + name.len() <= bytes.len() {
        if bytes[at] == name[0] && bytes[at..].starts_with(name) {
            result[at..at + name.len()].fill(ANY_FOLDER);
            at += name.len();
        } else {
            at += 1;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::PathBuf;

    use super::fingerprint;

    #[test]
    fn the_name_of_the_folder_does_not_count_but_every_byte_made_does() {
        let root = tempfile::tempdir().unwrap();
        let build = |folder: &str, text: &str| {
            let folder = root.path().join(folder);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("source.c"), "source").unwrap();
            fs::write(folder.join("made"), text.replace("HERE", folder.to_str().unwrap())).unwrap();
            fingerprint(&folder, &BTreeSet::from([PathBuf::from("source.c")]), &[]).unwrap()
        };
        let first = build("0123456789ab", "made in HERE");
        assert_eq!(first, build("ba9876543210", "made in HERE"));
        assert_ne!(first, build("aa9876543210", "made 1n HERE"));
    }

    #[test]
    fn a_product_that_is_not_made_is_named() {
        let root = tempfile::tempdir().unwrap();
        let why = fingerprint(root.path(), &BTreeSet::new(), &[PathBuf::from("app")]).unwrap_err();
        assert_eq!(why.to_string(), "the build made no app (--product)");
    }
}
