//! The one operation behind all page-fault workloads: write to the next page of a
//! mapping; after the last page unmap, map again and continue with the first. The
//! workloads differ in what they map.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::mapping::{self, Mapping};
use crate::{Failure, Load, Parameter, ParameterKind, Prepared, Task, files};

/// The length of each task's mapping.
pub(crate) const SIZE: Parameter = Parameter {
    name: "size_bytes",
    about: "length of each task's mapping, rounded up to whole pages",
    default: "128M",
    kind: ParameterKind::Number { min: 4096, max: 1 << 40 },
};

/// The memory that a task maps again for each pass.
pub(crate) trait Pages {
    /// Maps `size` bytes, none of them touched.
    fn map(&self, size: usize) -> Result<Mapping, Failure>;
    /// Checks that `mark`, just written at `offset`, is where it belongs, and only there.
    fn check(&self, mapping: &Mapping, offset: usize, mark: u8) -> Result<(), Failure>;
    /// Whether the kernel must take a fault for each page: no huge pages, and no fault
    /// that maps several pages.
    fn fault_on_each(&self) -> bool;
    /// Whether the pages come from a file, which keeps them between the passes.
    fn of_a_file(&self) -> bool {
        true
    }
}

/// Prepares a workload whose tasks touch the pages that `make` makes of the task's own path
/// and the length of the mapping.
pub(crate) fn prepare<P: Pages + 'static>(
    load: &Load,
    make: impl Fn(&Path, usize) -> Result<P, Failure> + Sync + 'static,
) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Touchers { paths: load.task_paths(), size: mapping::size(load), make }))
}

/// A file of `size` bytes that has no name: created, extended, unlinked.
pub(crate) fn unlinked_file(path: &Path, size: usize) -> Result<File, Failure> {
    let file = files::create(path)?;
    std::fs::remove_file(path)
        .map_err(|e| Failure::from_error(format!("unlinking {}", path.display()), e))?;
    file.set_len(size as u64).map_err(|e| {
        Failure::from_error(format!("extending {} to {size} bytes", path.display()), e)
    })?;
    Ok(file)
}

struct Touchers<F> {
    paths: Vec<PathBuf>,
    size: usize,
    make: F,
}

impl<P, F> Prepared for Touchers<F>
where
    P: Pages + 'static,
    F: Fn(&Path, usize) -> Result<P, Failure> + Sync,
{
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let pages = (self.make)(&self.paths[index], self.size)?;
        let mut toucher = Toucher {
            mapping: pages.map(self.size)?,
            pages,
            size: self.size,
            page: mapping::page_bytes(),
            next: 0,
            passes: 0,
            faults_before: 0,
        };
        if toucher.pages.of_a_file() {
            toucher.first_pass()?;
        }
        toucher.faults_before = mapping::faults();
        Ok(Box::new(toucher))
    }
}

struct Toucher<P> {
    mapping: Mapping,
    pages: P,
    size: usize,
    page: usize,
    /// Offset of the next page to touch; `size` at the end of a pass.
    next: usize,
    passes: u8,
    faults_before: u64,
}

impl<P: Pages> Task for Toucher<P> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.size {
            self.map_again()?;
        }
        // SAFETY: `next` is below `size`, the length of the writable mapping.
        unsafe { self.mapping.byte(self.next).write_volatile(self.mark()) };
        self.next += self.page;
        Ok(())
    }

    /// The last byte written is where it belongs, and as many pages were touched as counted.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let faults = self.faults();
        let pages = (self.size / self.page) as u64;
        let expected_next = match operations % pages {
            0 if operations > 0 => self.size,
            rest => rest as usize * self.page,
        };
        if self.next != expected_next {
            return Err(Failure::new(format!(
                "{operations} pages counted, but the next one is at offset {}, not {expected_next}",
                self.next
            )));
        }
        if self.pages.fault_on_each() && faults < operations {
            return Err(Failure::new(format!("{operations} pages counted, but {faults} faults")));
        }
        match self.next.checked_sub(self.page) {
            Some(last) => self.pages.check(&self.mapping, last, self.mark()),
            None => Ok(()),
        }
    }

    fn effects(&self) -> Vec<(&'static str, f64)> {
        vec![("faults", self.faults() as f64)]
    }
}

impl<P: Pages> Toucher<P> {
    /// The byte that this pass writes.
    #[inline(always)]
    fn mark(&self) -> u8 {
        self.passes.wrapping_add(1)
    }

    /// Faults since the task was made.
    fn faults(&self) -> u64 {
        mapping::faults() - self.faults_before
    }

    /// Fills the page cache and allocates the file's blocks, which only a first pass does:
    /// counted, it would make short runs slower than long ones.
    fn first_pass(&mut self) -> Result<(), Failure> {
        for _ in 0..self.size / self.page {
            self.operate()?;
        }
        self.map_again()
    }

    #[cold]
    fn map_again(&mut self) -> Result<(), Failure> {
        // Unmaps the old mapping first, as a program does that has finished with it.
        self.mapping = Mapping::NONE;
        self.mapping = self.pages.map(self.size)?;
        self.next = 0;
        self.passes = self.passes.wrapping_add(1);
        Ok(())
    }
}
