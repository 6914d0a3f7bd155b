//! The PVH boot protocol (Xen's), by which QEMU starts an unpacked kernel: an ELF note holds the
//! address of the entry.

use anyhow::{Context, Result, bail, ensure};
use object::Endianness::Little;
use object::elf::{EM_X86_64, FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};

/// Refuses a kernel in which QEMU finds no entry.
pub fn check_pvh(kernel: &[u8]) -> Result<()> {
    let header = FileHeader64::parse(kernel).context("it is not a 64-bit ELF file")?;
    if header.e_machine(Little) != EM_X86_64 {
        bail!("it is for another architecture");
    }
    ensure!(pvh_entry(kernel)?.is_some(), "it was built without CONFIG_PVH");
    Ok(())
}

/// XEN_ELFNOTE_PHYS32_ENTRY of xen/interface/elfnote.h.
const PHYS32_ENTRY: NoteType = NoteType(18);

/// The offset of the entry's address in the file.
pub fn pvh_entry(kernel: &[u8]) -> Result<Option<usize>> {
    let header = FileHeader64::parse(kernel)?;
    for segment in header.program_headers(Little, kernel)? {
        let Some(mut notes) = segment.notes(Little, kernel)? else { continue };
        while let Some(note) = notes.next()? {
            let is_entry = note.name() == b"Xen" && note.n_type(Little) == PHYS32_ENTRY;
            // A shorter note holds no address.
            if is_entry && note.desc().len() >= 4 {
                let at = note.desc().as_ptr() as usize - kernel.as_ptr() as usize;
                return Ok(Some(at));
            }
        }
    }
    Ok(None)
}
