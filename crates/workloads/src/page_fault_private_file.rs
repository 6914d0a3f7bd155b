//! Write faults on a private mapping of a file of the task's own: copy on write.
//!
//! The semantics of will-it-scale's page_fault2: each task maps its own unlinked file
//! (128 MiB by default) privately, writes one byte to each page, unmaps and maps again.
//! Each fault finds the page in the page cache, copies it to a fresh anonymous page and
//! charges that to the memory cgroup; munmap frees the copies. A first pass, which fills the
//! page cache from the empty file, is made before the run begins. The file is never written,
//! so its file system hardly matters: compare with page_fault_anonymous, which clears a page where this one
//! copies, and with page_fault_shared_file, which calls into the file system. Threads
//! share one address space, so their curve bends earlier than that of processes.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::fault::{self, Pages, SIZE};
use crate::mapping::Mapping;
use crate::{Failure, Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 2,
    aliases: &["page_fault2"],
    family: Family::PageFaults,
    operation: "one copy-on-write fault; one mmap and munmap per pass over the file",
    forms: Forms::Both,
    parameters: &[SIZE],
    needs: &[
        Need::OpenFiles(1),
        // The file's pages in the page cache, and a copy of each.
        Need::Memory(|load| 2 * load.tasks as u64 * load.values.number("size_bytes")),
    ],
    prepare: |load| {
        fault::prepare(load, |path, size| Ok(PrivateFile(fault::unlinked_file(path, size)?)))
    },
};

struct PrivateFile(File);

impl Pages for PrivateFile {
    fn map(&self, size: usize) -> Result<Mapping, Failure> {
        Mapping::from_file(&self.0, size, libc::MAP_PRIVATE)
    }

    /// The byte is in memory, but not in the file.
    fn check(&self, mapping: &Mapping, offset: usize, mark: u8) -> Result<(), Failure> {
        // SAFETY: `offset` is a page of this pass, in a readable mapping.
        let in_memory = unsafe { mapping.byte(offset).read_volatile() };
        let mut in_file = [0];
        self.0
            .read_exact_at(&mut in_file, offset as u64)
            .map_err(|e| Failure::from_error("reading the file behind a touched page", e))?;
        if (in_memory, in_file) != (mark, [0]) {
            return Err(Failure::new(format!(
                "{mark} was written at offset {offset}: memory has {in_memory}, the file {}",
                in_file[0]
            )));
        }
        Ok(())
    }

    fn fault_on_each(&self) -> bool {
        true
    }
}
