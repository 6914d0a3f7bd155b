//! Write faults on anonymous memory.
//!
//! The semantics of will-it-scale's page_fault1: each task maps memory (128 MiB by
//! default), writes one byte to each page, unmaps and maps again. A fault takes a page
//! from the allocator, clears it, charges it to the memory cgroup and links it into the
//! page tables; munmap gives all of it back. For processes, the allocator, memory
//! bandwidth and the cgroup's counters bend the curve; for threads also the locks of the
//! shared address space (a lock per mapping for faults since Linux 6.4).
//!
//! With huge pages one fault serves many of the counted pages: the effect `faults` is the
//! number of faults, whatever `huge_pages` advised.

use crate::fault::{self, Pages, SIZE};
use crate::mapping::Mapping;
use crate::{Failure, Family, Forms, Need, Parameter, ParameterKind, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["page_fault1"],
    family: Family::PageFaults,
    operation: "first write to one page; one mmap and munmap per pass over the memory",
    forms: Forms::Both,
    parameters: &[
        SIZE,
        Parameter {
            name: "huge_pages",
            about: "system: as /sys/kernel/mm/transparent_hugepage says; never, always: \
                    advised by madvise (MADV_NOHUGEPAGE, MADV_HUGEPAGE)",
            default: "system",
            kind: ParameterKind::Choice(&["system", "never", "always"]),
        },
    ],
    needs: &[Need::Memory(|load| load.tasks as u64 * load.values.number("size_bytes"))],
    prepare: |load| {
        let pages = match load.values.choice("huge_pages") {
            "never" => Anonymous::Small,
            "always" => Anonymous::Huge,
            _ => Anonymous::System,
        };
        fault::prepare(load, move |_, _| Ok(pages))
    },
};

/// Anonymous memory by the size of its pages.
#[derive(Clone, Copy, PartialEq)]
enum Anonymous {
    System,
    Small,
    Huge,
}

impl Pages for Anonymous {
    fn map(&self, size: usize) -> Result<Mapping, Failure> {
        let mapping = Mapping::anonymous(size)?;
        let advised = match self {
            Anonymous::System => Ok(()),
            Anonymous::Small => mapping.advise("madvise(MADV_NOHUGEPAGE)", libc::MADV_NOHUGEPAGE),
            Anonymous::Huge => mapping.advise("madvise(MADV_HUGEPAGE)", libc::MADV_HUGEPAGE),
        };
        match advised {
            // A kernel built without huge pages does not know the advice. Others need not
            // follow it; the effect `faults` shows whether they did.
            Err(failure) if failure.errno() == Some(libc::EINVAL) => Ok(mapping),
            other => other.map(|()| mapping),
        }
    }

    fn check(&self, mapping: &Mapping, offset: usize, mark: u8) -> Result<(), Failure> {
        // SAFETY: `offset` is a page of this pass, in a readable mapping.
        let byte = unsafe { mapping.byte(offset).read_volatile() };
        if byte != mark {
            return Err(Failure::new(format!(
                "{mark} was written at offset {offset}, but {byte} is there"
            )));
        }
        Ok(())
    }

    fn fault_on_each(&self) -> bool {
        *self == Anonymous::Small
    }

    fn of_a_file(&self) -> bool {
        false
    }
}
