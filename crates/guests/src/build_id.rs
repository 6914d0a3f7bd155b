//! Build IDs: the hash that the linker puts into a kernel. Two builds of one version have different ones, so they tell
//! whether the kernel that runs is the file that was asked for.

use std::fs;

use object::Endianness::Little;
use object::elf::{FileHeader64, NT_GNU_BUILD_ID};
use object::read::elf::{FileHeader, NoteIterator, ProgramHeader};

type Header = FileHeader64<object::Endianness>;

/// The build ID of the kernel that runs; `None` if it was built without.
pub fn running() -> Option<String> {
    let notes = fs::read("/sys/kernel/notes").ok()?;
    build_id(NoteIterator::<Header>::new(Little, 4, &notes).ok()?)
}

/// The build ID of an unpacked kernel.
pub fn in_kernel(kernel: &[u8]) -> Option<String> {
    let header = Header::parse(kernel).ok()?;
    let segments = header.program_headers(Little, kernel).ok()?;
    segments.iter().find_map(|segment| build_id(segment.notes(Little, kernel).ok()??))
}

fn build_id(mut notes: NoteIterator<Header>) -> Option<String> {
    while let Some(note) = notes.next().ok()? {
        if note.name() == b"GNU" && note.n_type(Little) == NT_GNU_BUILD_ID {
            return Some(note.desc().iter().map(|byte| format!("{byte:02x}")).collect());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note as it lies in a kernel.
    fn note(name: &[u8], kind: u32, contents: &[u8]) -> Vec<u8> {
        let number = |n: usize| (n as u32).to_le_bytes();
        let mut note =
            [number(name.len() + 1), number(contents.len()), kind.to_le_bytes()].concat();
        for part in [[name, b"\0"].concat(), contents.to_vec()] {
            note.extend(&part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let check = |notes: &[u8], expected: Option<&str>| {
            let notes = NoteIterator::<Header>::new(Little, 4, notes).unwrap();
            assert_eq!(build_id(notes).as_deref(), expected);
        };
        let xen = note(b"Xen", 18, &[1; 5]);
        let id = note(b"GNU", 3, &[0xab, 0, 0x1c]);
        check(&[xen.clone(), id.clone()].concat(), Some("ab001c"));
        check(&[note(b"GNU", 1, &[7]), id.clone()].concat(), Some("ab001c"));
        check(&xen, None);
        check(&id[..10], None);
        check(b"", None);
    }
}
