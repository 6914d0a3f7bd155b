//! Mapping and unmapping of memory.
//!
//! Each operation maps memory of the task's own, touches it with `touch=yes`, and unmaps
//! it. Processes share nothing but the kernel's accounting of committed memory and, with
//! `touch=yes`, its allocator. Threads share one address space, whose lock each call takes
//! for writing, so they take turns: that is the curve of programs whose allocator maps
//! and unmaps large blocks. With `touch=yes` each munmap also has pages to free and
//! TLBs of the other threads' CPUs to flush. A file's mapping is also entered into the file's
//! tree of mappings, under a lock of the file, which is the task's own. The defaults are
//! will-it-scale's mmap1; its mmap2 has mapping=private_file.

use std::fs::File;
use std::path::PathBuf;

use crate::mapping::{self, Backing};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, TaskForm,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["mmap1"],
    family: Family::Memory,
    operation: "one mmap, a write to each page with `touch=yes`, and one munmap",
    forms: Forms::Both,
    parameters: &[
        Backing::PARAMETER,
        Parameter {
            name: "size_bytes",
            about: "length of each mapping, rounded up to whole pages",
            default: "128M",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
        Parameter {
            name: "touch",
            about: "whether to write one byte to each page before munmap",
            default: "no",
            kind: ParameterKind::Choice(&["no", "yes"]),
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
    Ok(Box::new(Setup {
        size: mapping::size(load),
        backing: Backing::from_load(load),
        paths: load.task_paths(),
        touch: load.values.choice("touch") == "yes",
        own_address_space: load.form == TaskForm::Processes,
    }))
}

struct Setup {
    size: usize,
    backing: Backing,
    paths: Vec<PathBuf>,
    touch: bool,
    own_address_space: bool,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let file = self.backing.create(&self.paths[index], self.size)?;
        let page = mapping::page_bytes();
        Ok(Box::new(Mapper { setup: self, file, page, faults_before: mapping::faults() }))
    }
}

struct Mapper<'a> {
    setup: &'a Setup,
    file: Option<File>,
    page: usize,
    faults_before: u64,
}

impl Task for Mapper<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let mapping = self.setup.backing.map(self.file.as_ref(), self.setup.size)?;
        if self.setup.touch {
            mapping.mark_pages(self.page, 1);
        }
        mapping.unmap()
    }

    /// Each touched mapping took a fault. One more mapping must be writable up to its end,
    /// and not after munmap.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let faults = mapping::faults() - self.faults_before;
        if self.setup.touch && faults < operations {
            return Err(Failure::new(format!(
                "{operations} mappings touched, but {faults} faults"
            )));
        }
        let mapping = self.setup.backing.map(self.file.as_ref(), self.setup.size)?;
        let last = mapping.byte(self.setup.size - 1);
        if !mapping::is_writable(last) {
            return Err(Failure::new("the end of the mapping is not mapped"));
        }
        mapping.unmap()?;
        // Another thread may have mapped this address again by now.
        if self.setup.own_address_space && mapping::is_writable(last) {
            return Err(Failure::new("the memory is still mapped after munmap"));
        }
        Ok(())
    }
}
