//! A program of this host for a guest, which has no libraries: the program, its dynamic linker and its libraries, as files
//! for the guest's initramfs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use host::children;
use object::read::elf::{ElfFile64, ProgramHeader};

/// Where programs are in the guest, and their libraries.
const PROGRAMS: &str = "loads";
pub const LIBRARIES: &str = "/loads/lib";

/// The dynamic linker of the C library of GNU, at the path that programs name.
const LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The longest program.
const PROGRAM_BYTES_MAX: u64 = 256 << 20;

/// The path of a program in the guest: below the programs, that of this host, so that two programs with one name differ.
pub fn path_in_guest(program: &Path) -> String {
    let path = program.to_string_lossy();
    format!("/{PROGRAMS}/{}", path.trim_start_matches('/'))
}

/// The files that a guest needs for a program: their paths there, without the first slash, and here. The program is only
/// read, never started: the system's dynamic linker lists its libraries.
pub fn with_libraries(program: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let shown = program.display();
    let mut bytes = Vec::new();
    let opened = File::open(program).with_context(|| format!("opening {shown}"))?;
    opened
        .take(PROGRAM_BYTES_MAX)
        .read_to_end(&mut bytes)
        .with_context(|| format!("reading {shown}"))?;
    ensure!(
        !bytes.starts_with(b"#!"),
        "{shown} is a script, and a virtual machine has only the program that is named and its libraries: name a program"
    );
    let in_guest = path_in_guest(program).trim_start_matches('/').to_string();
    let mut files = BTreeMap::from([(in_guest, program.to_path_buf())]);
    match linker_of(&bytes).with_context(|| format!("{shown} is no program for x86-64"))? {
        None => return Ok(files),
        Some(linker) if linker == LINKER => (),
        Some(other) => {
            bail!("{shown} is linked by {other}: link it statically for a virtual machine")
        }
    }
    let listed = children::output(Command::new(LINKER).arg("--list").arg(program));
    let listed = listed.with_context(|| format!("asking {LINKER} for the libraries of {shown}"))?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    files.insert(LINKER.trim_start_matches('/').to_string(), fs::canonicalize(LINKER)?);
    for (name, path) in listed.lines().filter_map(library) {
        let path = path.with_context(|| format!("{shown} needs {name}, which is not installed"))?;
        files.insert(format!("{}/{name}", LIBRARIES.trim_start_matches('/')), path);
    }
    Ok(files)
}

/// Whether these files have a dynamic linker, which loads the libraries among them.
pub fn has_linker(files: &BTreeMap<String, PathBuf>) -> bool {
    files.contains_key(LINKER.trim_start_matches('/'))
}

/// The libraries in what the linker lists of a program that it was about to start, with their addresses. The kernel's own
/// library has no file.
pub fn loaded(listed: &str) -> Vec<(String, u64)> {
    let library = |line: &str| {
        let (name, address) = line.trim().rsplit_once(" (0x")?;
        let path = name.split_once(" => ").map_or(name, |(_, path)| path);
        let address = u64::from_str_radix(address.trim_end_matches(')'), 16).ok()?;
        path.starts_with('/').then(|| (path.to_string(), address))
    };
    listed.lines().filter_map(library).collect()
}

/// The dynamic linker that a program names; none if it is linked statically.
fn linker_of(bytes: &[u8]) -> Result<Option<String>> {
    let file: ElfFile64 = ElfFile64::parse(bytes)?;
    let endian = file.endian();
    for header in file.elf_program_headers() {
        if let Some(path) = header.interpreter(endian, bytes)? {
            return Ok(Some(String::from_utf8_lossy(path).into_owned()));
        }
    }
    Ok(None)
}

/// A library in a line of `ld.so --list`: its name, and where it is, if it was found. Lines without => are the kernel's
/// own library and the linker.
fn library(line: &str) -> Option<(String, Option<PathBuf>)> {
    let (name, found) = line.trim().split_once(" => ")?;
    let path = found.split(" (0x").next().filter(|path| path.starts_with('/'));
    let file = Path::new(name).file_name()?.to_string_lossy().into_owned();
    Some((file, path.map(PathBuf::from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_linker_name_libraries() {
        let check = |line: &str, expected: Option<(&str, Option<&str>)>| {
            let expected = expected.map(|(name, path)| (name.to_string(), path.map(PathBuf::from)));
            assert_eq!(library(line), expected, "{line}");
        };
        check("\tlinux-vdso.so.1 (0x00007ffd)", None);
        check(
            "\tlibc.so.6 => /lib/libc.so.6 (0x00007f12)",
            Some(("libc.so.6", Some("/lib/libc.so.6"))),
        );
        check("\tlibx.so.1 => not found", Some(("libx.so.1", None)));
    }

    #[test]
    fn loaded_libraries_have_addresses() {
        let listed = "\tlinux-vdso.so.1 (0x00007ffff7fc1000)\n\
                      \tlibc.so.6 => /loads/lib/libc.so.6 (0x00007ffff7ddd000)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007ffff7fc5000)\n\
                      \tlibx.so.1 => not found\n";
        let expected = [
            ("/loads/lib/libc.so.6".to_string(), 0x7fff_f7dd_d000),
            ("/lib64/ld-linux-x86-64.so.2".to_string(), 0x7fff_f7fc_5000),
        ];
        assert_eq!(loaded(listed), expected);
    }

    #[test]
    fn a_script_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("a.sh");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let why = with_libraries(&script).unwrap_err().to_string();
        assert!(why.contains("is a script"), "{why}");
    }
}
