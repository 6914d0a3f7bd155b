//! Write faults on a shared mapping of a file of the task's own.
//!
//! The semantics of will-it-scale's page_fault3: each task maps its own unlinked file
//! (128 MiB unless told otherwise) shared, writes one byte to each page, unmaps and maps
//! again. Blocks are allocated during the first pass only, so a run shorter than some
//! passes measures allocation; the detected warm-up shows it. The fault calls the file
//! system's page_mkwrite: on journalling file systems that starts a transaction, and its
//! locks are what bends the curve.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use crate::{Failure, Family, Forms, Kind, Load, Need, Parameter, Prepared, Spec, Task, files};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["page_fault3"],
    family: Family::PageFaults,
    operation: "one write fault; one mmap and munmap per pass over the file",
    forms: Forms::Both,
    parameters: &[Parameter {
        name: "size_bytes",
        about: "length of each task's file, rounded up to whole pages",
        default: "128M",
        kind: Kind::Number { min: 4096, max: 1 << 40 },
    }],
    needs: &[
        Need::OpenFiles(1),
        Need::FreeBytes(|load| load.tasks as u64 * load.values.number("size_bytes")),
    ],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    // SAFETY: no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let size = (load.values.number("size_bytes") as usize).next_multiple_of(page);
    Ok(Box::new(Prepare { paths: (0..load.tasks).map(|i| load.task_path(i)).collect(), size, page }))
}

struct Prepare {
    paths: Vec<std::path::PathBuf>,
    size: usize,
    page: usize,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let file = files::create(path)?;
        std::fs::remove_file(path)
            .map_err(|e| Failure::of(format!("unlinking {}", path.display()), e))?;
        file.set_len(self.size as u64)
            .map_err(|e| Failure::of(format!("extending {} to {} bytes", path.display(), self.size), e))?;
        let start = map(&file, self.size)?;
        Ok(Box::new(Toucher { file, start, size: self.size, page: self.page, next: 0, passes: 0 }))
    }
}

struct Toucher {
    file: File,
    start: *mut u8,
    size: usize,
    page: usize,
    /// Offset of the next page to touch; `size` at the end of a pass.
    next: usize,
    passes: u8,
}

impl Task for Toucher {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.size {
            self.map_again()?;
        }
        // SAFETY: `next` is below `size`, and the mapping is `size` bytes long.
        unsafe { self.start.add(self.next).write_volatile(self.passes.wrapping_add(1)) };
        self.next += self.page;
        Ok(())
    }

    /// The bytes written in this pass are in the file, and no others.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let pages = (self.size / self.page) as u64;
        let expected_next = match operations % pages {
            0 if operations > 0 => self.size,
            rest => rest as usize * self.page,
        };
        if self.next != expected_next {
            return Err(Failure::new(format!(
                "{operations} faults counted, but the next page is at {} and not {expected_next}",
                self.next
            )));
        }
        if let Some(last) = self.next.checked_sub(self.page) {
            use std::os::unix::fs::FileExt;
            let mut byte = [0];
            self.file
                .read_exact_at(&mut byte, last as u64)
                .map_err(|e| Failure::of("reading back a touched page", e))?;
            if byte[0] != self.passes.wrapping_add(1) {
                return Err(Failure::new(format!("the byte written at {last} is not in the file")));
            }
        }
        Ok(())
    }
}

impl Toucher {
    #[cold]
    fn map_again(&mut self) -> Result<(), Failure> {
        // SAFETY: exactly what `map` mapped; no reference into it exists.
        unsafe { libc::munmap(self.start.cast(), self.size) };
        self.start = map(&self.file, self.size)?;
        self.next = 0;
        self.passes = self.passes.wrapping_add(1);
        Ok(())
    }
}

impl Drop for Toucher {
    fn drop(&mut self) {
        // SAFETY: as in `map_again`.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}

fn map(file: &File, size: usize) -> Result<*mut u8, Failure> {
    // SAFETY: a new mapping chosen by the kernel touches no memory that exists.
    let address = unsafe {
        libc::mmap(
            null_mut(),
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    if address == libc::MAP_FAILED {
        return Err(Failure::last_os_error("mmap of the task's file"));
    }
    Ok(address.cast())
}
