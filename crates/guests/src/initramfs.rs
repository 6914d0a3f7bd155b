//! An initramfs: a cpio archive in the format "newc" (Documentation/driver-api/early-userspace/
//! buffer-format.rst), uncompressed, which a kernel on a slow CPU unpacks fastest.

use anyhow::{Context, Result, ensure};
use object::Endianness::Little;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

/// A cpio archive under construction.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

/// The attributes of an entry besides its name and content.
struct Attributes {
    mode: u32,
    /// Major and minor number of a device file.
    device: (u32, u32),
}

impl Archive {
    /// Adds a directory.
    pub fn directory(&mut self, path: &str) {
        self.entry(path, Attributes { mode: libc::S_IFDIR | 0o755, device: (0, 0) }, &[]);
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, Attributes { mode: libc::S_IFCHR | 0o600, device: (major, minor) }, &[]);
    }

    /// Adds an executable file.
    pub fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, Attributes { mode: libc::S_IFREG | 0o755, device: (0, 0) }, content);
    }

    /// Adds an executable file and the directories that lead to it.
    pub fn file_with_parents(&mut self, path: &str, content: &[u8]) {
        for (slash, _) in path.match_indices('/') {
            self.directory(&path[..slash]);
        }
        self.file(path, content);
    }

    /// Ends the archive and returns its bytes.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", Attributes { mode: 0, device: (0, 0) }, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, Attributes { mode, device }: Attributes, content: &[u8]) {
        self.entries += 1;
        let fields = [
            self.entries, // inode
            mode,
            0, // user
            0, // group
            1, // links
            0, // time
            content.len() as u32,
            0, // device that holds the file, major and minor
            0,
            device.0,
            device.1,
            path.len() as u32 + 1,
            0, // checksum, of another format
        ];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").bytes());
        }
        self.bytes.extend(path.bytes().chain([0]));
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// Compresses an archive with zstd. A higher level would cost the host more time than it saves the
/// guest.
pub fn compressed(archive: &[u8]) -> Result<Vec<u8>> {
    zstd::encode_all(archive, 3).context("compressing the initramfs")
}

/// Strips a program of what only debuggers and linkers read: the sections that are not loaded, and
/// the section table.
pub fn stripped(program: &[u8]) -> Result<Vec<u8>> {
    let header = FileHeader64::parse(program)?;
    let segments = header.program_headers(Little, program)?;
    let ends = segments.iter().filter(|segment| segment.p_type(Little) == PT_LOAD);
    let ends =
        ends.map(|segment| segment.p_offset(Little).saturating_add(segment.p_filesz(Little)));
    let end = ends.max().unwrap_or(0) as usize;
    ensure!(
        end >= 0x40 && end <= program.len(),
        "the program has no loadable segment, or is cut off"
    );
    let mut stripped = program[..end].to_vec();
    // e_shoff; e_shnum and e_shstrndx (elf(5)).
    stripped[0x28..0x30].fill(0);
    stripped[0x3c..0x40].fill(0);
    Ok(stripped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_what_the_format_says() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.device("dev/console", 5, 1);
        archive.file("init", b"hello");
        let shown: Vec<String> = archive
            .finish()
            .chunks(4)
            .map(|word| String::from_utf8_lossy(word).replace('\0', "."))
            .collect();
        expect_test::expect![[r#"
            070701 00000001 000041ed 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000004 00000000dev...
            070701 00000002 00002180 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000005 00000001 0000000c 00000000dev/console...
            070701 00000003 000081ed 00000000 00000000 00000001 00000000 00000005 00000000 00000000 00000000 00000000 00000005 00000000init..hello...
            070701 00000004 00000000 00000000 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 0000000b 00000000TRAILER!!!...."#]]
        .assert_eq(&readable(&shown.concat()));
    }

    /// Separates the fields of each entry.
    fn readable(text: &str) -> String {
        let entries = text.split("070701").skip(1).map(|entry| {
            let (fields, rest) = entry.split_at(13 * 8);
            let fields: Vec<&str> =
                (0..13).map(|number| &fields[8 * number..8 * number + 8]).collect();
            format!("070701 {}{rest}", fields.join(" "))
        });
        entries.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_stripped_program_still_runs() {
        use std::os::unix::fs::PermissionsExt;
        let program = std::fs::read("/bin/true").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stripped");
        std::fs::write(&path, stripped(&program).unwrap()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(std::process::Command::new(&path).status().unwrap().success());
        assert!(stripped(b"#!/bin/sh").is_err());
    }
}
