//! madvise(MADV_DONTNEED) of one page after the other, in a mapping of the task's own.
//!
//! An operation writes to the next page, which faults it in, discards it, and reads it again, which faults once more;
//! at the end of the mapping it is mapped anew. Each discard flushes one page from the TLBs of all CPUs that run the address
//! space: of none but its own if the tasks are processes, of all tasks' CPUs if they are threads. Of anonymous memory
//! and of a private mapping of a file, the page is gone after the discard and reads as zero, or as the file has it; with
//! `mapping=shared_file` it stays in the page cache, so the second fault finds it. The defaults are will-it-scale's
//! tlb_flush2; its tlb_flush1 and tlb_flush3 map files, with size_bytes=128M. discard_shared_address_space discards the same
//! pages again and again.
//!
//! The first pass over a file also fills the page cache. A pass over 128 MiB takes some tenths of a second, so only runs of
//! several seconds (`--seconds`) show the passes after it.

use std::fs::File;
use std::path::PathBuf;

use crate::mapping::{self, Backing, Mapping};
use crate::{Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["tlb_flush2"],
    family: Family::Memory,
    operation: "a write to the next page, one madvise(MADV_DONTNEED) and a read of it",
    forms: Forms::Both,
    parameters: &[
        Backing::PARAMETER,
        Parameter {
            name: "size_bytes",
            about: "length of the mapping, rounded up to whole pages",
            default: "1M",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
    ],
    needs: &[
        Need::OpenFiles(1),
        Need::Where {
            parameter: Backing::PARAMETER.name,
            word: "shared_file",
            need: &Need::FreeBytes(|load| (load.tasks * mapping::size(load)) as u64),
        },
    ],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let (size, backing) = (mapping::size(load), Backing::from_load(load));
    Ok(Box::new(Setup { size, backing, paths: load.task_paths() }))
}

struct Setup {
    size: usize,
    backing: Backing,
    paths: Vec<PathBuf>,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let file = self.backing.create(&self.paths[index], self.size)?;
        let memory = self.backing.map(file.as_ref(), self.size)?;
        let page = mapping::page_bytes();
        let faults_before = mapping::faults();
        Ok(Box::new(Discarder { setup: self, file, memory, page, next: 0, found: 0, faults_before }))
    }
}

struct Discarder<'a> {
    setup: &'a Setup,
    file: Option<File>,
    memory: Mapping,
    page: usize,
    /// The offset of the next page.
    next: usize,
    /// The sum of what the discarded pages held when they were read again.
    found: u64,
    faults_before: u64,
}

impl Task for Discarder<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.setup.size {
            std::mem::replace(&mut self.memory, Mapping::NONE).unmap()?;
            self.memory = self.setup.backing.map(self.file.as_ref(), self.setup.size)?;
            self.next = 0;
        }
        let byte = self.memory.byte(self.next);
        // SAFETY: a byte of the writable mapping, to which there are no references.
        unsafe { byte.write_volatile(1) };
        // SAFETY: one page of the mapping.
        crate::sys("madvise(MADV_DONTNEED)", unsafe {
            libc::madvise(byte.cast(), self.page, libc::MADV_DONTNEED)
        })?;
        // SAFETY: as for the write.
        self.found += u64::from(unsafe { byte.read_volatile() });
        self.next += self.page;
        Ok(())
    }

    /// The pages of a shared file kept what was written, the others did not. Each operation took at least one fault.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let expected = if self.setup.backing == Backing::SharedFile { operations } else { 0 };
        if self.found != expected {
            return Err(Failure::new(format!(
                "of {operations} discarded pages {} kept what was written, not {expected}",
                self.found
            )));
        }
        let faults = mapping::faults() - self.faults_before;
        if faults < operations {
            return Err(Failure::new(format!("{operations} discards counted, but {faults} faults")));
        }
        Ok(())
    }
}
