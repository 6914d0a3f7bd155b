//! Write faults on a shared mapping of a file of the task's own.
//!
//! The semantics of will-it-scale's page_fault3: each task maps its own unlinked file
//! (128 MiB by default) shared, writes one byte to each page, unmaps and maps again.
//! A first pass, which allocates the file's blocks, is made before the run begins. The fault
//! calls the file system's page_mkwrite: on journalling file systems that starts a
//! transaction, whose locks bend the curve.
//!
//! Operations are pages touched, as in page_fault3. A file system with large folios maps a whole
//! folio with one fault (see `vmstat.pgfault/op`: 0.03 on ext4 and XFS of Linux 6.18 with 128 MiB,
//! 0.2 with 16 MiB). So rates on two kinds of file systems, or with two sizes, do not compare
//! fault for fault.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::fault::{self, Pages, SIZE};
use crate::mapping::Mapping;
use crate::{Failure, Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 2,
    aliases: &["page_fault3"],
    family: Family::PageFaults,
    operation: "one write fault; one mmap and munmap per pass over the file",
    forms: Forms::Both,
    parameters: &[SIZE],
    needs: &[
        Need::OpenFiles(1),
        Need::FreeBytes(|load| load.tasks as u64 * load.values.number("size_bytes")),
    ],
    prepare: |load| {
        fault::prepare(load, |path, size| Ok(SharedFile(fault::unlinked_file(path, size)?)))
    },
};

struct SharedFile(File);

impl Pages for SharedFile {
    fn map(&self, size: usize) -> Result<Mapping, Failure> {
        Mapping::from_file(&self.0, size, libc::MAP_SHARED)
    }

    fn check(&self, _: &Mapping, offset: usize, mark: u8) -> Result<(), Failure> {
        let mut byte = [0];
        self.0
            .read_exact_at(&mut byte, offset as u64)
            .map_err(|e| Failure::from_error("reading back a touched page", e))?;
        if byte[0] != mark {
            return Err(Failure::new(format!(
                "the byte written at offset {offset} is not in the file"
            )));
        }
        Ok(())
    }

    fn fault_on_each(&self) -> bool {
        // tmpfs may map all pages of a large folio by one fault.
        false
    }
}
