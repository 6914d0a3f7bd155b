//! Mapping and unmapping of anonymous memory.
//!
//! Each operation maps memory of the task's own, touches it if asked, and unmaps it. As
//! processes nothing is shared but the kernel's accounting of promised memory and, with
//! `touch=yes`, its allocator. As threads each call takes the one address space's lock
//! for writing, so they take turns: that is the curve of programs whose allocator maps
//! and unmaps large blocks. With `touch=yes` each munmap also has pages to free and
//! TLBs of the other threads' CPUs to flush. The defaults are will-it-scale's mmap1.

use crate::mapping::{self, Mapping};
use crate::{Failure, Family, Form, Forms, Kind, Load, Parameter, Prepared, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["mmap1"],
    family: Family::Memory,
    operation: "one mmap, the touching if asked, and one munmap",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "size_bytes",
            about: "length of each mapping, rounded up to whole pages",
            default: "128M",
            kind: Kind::Number { min: 1, max: 1 << 40 },
        },
        Parameter {
            name: "touch",
            about: "whether one byte is written to each page before munmap",
            default: "no",
            kind: Kind::Choice(&["no", "yes"]),
        },
    ],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Prepare {
        size: mapping::size(load),
        touch: load.values.choice("touch") == "yes",
        alone: load.form == Form::Processes,
    }))
}

struct Prepare {
    size: usize,
    touch: bool,
    /// Whether each task has an address space of its own.
    alone: bool,
}

impl Prepared for Prepare {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let page = mapping::page_bytes();
        Ok(Box::new(Mapper { plan: self, page, faults_before: mapping::faults() }))
    }
}

struct Mapper<'a> {
    plan: &'a Prepare,
    page: usize,
    faults_before: u64,
}

impl Task for Mapper<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let mapping = Mapping::anonymous(self.plan.size)?;
        if self.plan.touch {
            mapping.mark_pages(self.page, 1);
        }
        mapping.unmap()
    }

    /// Touching faulted; and once more, looking: mapped memory can be written up to its
    /// end, unmapped memory cannot.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let faults = mapping::faults() - self.faults_before;
        if self.plan.touch && faults < operations {
            return Err(Failure::new(format!(
                "{operations} mappings touched, but {faults} faults"
            )));
        }
        let mapping = Mapping::anonymous(self.plan.size)?;
        let last = mapping.byte(self.plan.size - 1);
        if !mapping::is_writable(last) {
            return Err(Failure::new("the end of the mapping is not mapped"));
        }
        mapping.unmap()?;
        // Another thread may have mapped the place again by now.
        if self.plan.alone && mapping::is_writable(last) {
            return Err(Failure::new("the memory is still mapped after munmap"));
        }
        Ok(())
    }
}
