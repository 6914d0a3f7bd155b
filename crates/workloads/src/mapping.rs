//! Memory that a task maps for itself, unmapped on drop, and ways to ask the kernel about
//! it: whether it is writable, how many faults it cost.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::null_mut;

use crate::{Failure, Load, Parameter, ParameterKind, sys};

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// The length of each task's memory, by default one page.
pub(crate) const SIZE: Parameter = Parameter {
    name: "size_bytes",
    about: "length of each task's memory, rounded up to whole pages",
    default: "4k",
    kind: ParameterKind::Number { min: 1, max: 1 << 40 },
};

/// Parameter `size_bytes` in whole pages.
pub(crate) fn size(load: &Load) -> usize {
    (load.values.number("size_bytes") as usize).next_multiple_of(page_bytes())
}

/// The page size of this kernel.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// Readable and writable memory of this task alone. There are no references into it.
pub(crate) struct Mapping {
    start: *mut u8,
    size: usize,
}

impl Mapping {
    /// No memory yet.
    pub(crate) const NONE: Mapping = Mapping { start: null_mut(), size: 0 };

    /// Maps `size` bytes of private anonymous memory.
    #[inline(always)]
    pub(crate) fn anonymous(size: usize) -> Result<Mapping, Failure> {
        let start = map(size, READ_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        Ok(Mapping { start, size })
    }

    /// Maps the first `size` bytes of a file; `sharing` is `MAP_SHARED` or `MAP_PRIVATE`.
    pub(crate) fn from_file(file: &File, size: usize, sharing: i32) -> Result<Mapping, Failure> {
        Ok(Mapping { start: map(size, READ_WRITE, sharing, file.as_raw_fd())?, size })
    }

    /// The address of byte `offset`.
    #[inline(always)]
    pub(crate) fn byte(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset < self.size);
        // SAFETY: callers stay below `size`, the length of the mapping.
        unsafe { self.start.add(offset) }
    }

    /// Writes `mark` to the first byte of each page.
    #[inline(always)]
    pub(crate) fn mark_pages(&self, page: usize, mark: u8) {
        for offset in (0..self.size).step_by(page) {
            // SAFETY: below `size`, in a writable mapping.
            unsafe { self.byte(offset).write_volatile(mark) };
        }
    }

    /// Whether the first byte of each page is `mark`.
    pub(crate) fn pages_marked(&self, page: usize, mark: u8) -> bool {
        // SAFETY: below `size`, in a readable mapping.
        (0..self.size)
            .step_by(page)
            .all(|offset| unsafe { self.byte(offset).read_volatile() } == mark)
    }

    /// Calls madvise for the whole mapping.
    #[inline(always)]
    pub(crate) fn advise(&self, what: &'static str, advice: i32) -> Result<(), Failure> {
        // SAFETY: our own mapping; no reference into it can see its contents change.
        sys(what, unsafe { libc::madvise(self.start.cast(), self.size, advice) }).map(drop)
    }

    /// Unmaps and returns the result; dropping unmaps too.
    #[inline(always)]
    pub(crate) fn unmap(self) -> Result<(), Failure> {
        // SAFETY: exactly what was mapped; this function consumes it.
        let result = unsafe { libc::munmap(self.start.cast(), self.size) };
        std::mem::forget(self);
        sys("munmap", result).map(drop)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.size > 0 {
            // SAFETY: exactly what was mapped; `self` ends here.
            unsafe { libc::munmap(self.start.cast(), self.size) };
        }
    }
}

/// What a task's mapping maps (parameter `mapping`).
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Backing {
    Anonymous,
    PrivateFile,
    SharedFile,
}

impl Backing {
    pub(crate) const PARAMETER: Parameter = Parameter {
        name: "mapping",
        about: "anonymous memory, or the task's own file, mapped private or shared",
        default: "anonymous",
        kind: ParameterKind::Choice(&["anonymous", "private_file", "shared_file"]),
    };

    pub(crate) fn from_load(load: &Load) -> Backing {
        match load.values.choice(Self::PARAMETER.name) {
            "anonymous" => Backing::Anonymous,
            "private_file" => Backing::PrivateFile,
            _ => Backing::SharedFile,
        }
    }

    /// Creates the file of that length, all holes, that is mapped, if there is one.
    pub(crate) fn create(self, path: &Path, size: usize) -> Result<Option<File>, Failure> {
        if self == Backing::Anonymous {
            return Ok(None);
        }
        let file = crate::files::create(path)?;
        let extended = file.set_len(size as u64);
        extended.map_err(|e| Failure::from_error(format!("extending {}", path.display()), e))?;
        Ok(Some(file))
    }

    /// Maps `size` bytes.
    #[inline(always)]
    pub(crate) fn map(self, file: Option<&File>, size: usize) -> Result<Mapping, Failure> {
        match file {
            None => Mapping::anonymous(size),
            Some(file) if self == Backing::PrivateFile => {
                Mapping::from_file(file, size, libc::MAP_PRIVATE)
            }
            Some(file) => Mapping::from_file(file, size, libc::MAP_SHARED),
        }
    }
}

/// Anonymous memory between two inaccessible pages, so that the kernel keeps it as a VMA
/// of its own: it is neither merged with a neighbour nor split from one.
pub(crate) struct Fenced {
    /// Inside `outer`, which alone unmaps.
    inner: std::mem::ManuallyDrop<Mapping>,
    _outer: Mapping,
}

impl Fenced {
    /// `size` bytes, whole pages, readable and writable.
    pub(crate) fn new(size: usize) -> Result<Fenced, Failure> {
        let page = page_bytes();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let outer = Mapping {
            start: map(size + 2 * page, libc::PROT_NONE, flags, -1)?,
            size: size + 2 * page,
        };
        let inner = std::mem::ManuallyDrop::new(Mapping { start: outer.byte(page), size });
        let fenced = Fenced { inner, _outer: outer };
        fenced.protect("mprotect to open the memory", READ_WRITE)?;
        Ok(fenced)
    }

    /// Calls mprotect for the whole memory.
    #[inline(always)]
    pub(crate) fn protect(&self, what: &'static str, protection: i32) -> Result<(), Failure> {
        // SAFETY: our own mapping; only raw pointers reach into it.
        let result =
            unsafe { libc::mprotect(self.inner.start.cast(), self.inner.size, protection) };
        sys(what, result).map(drop)
    }
}

impl std::ops::Deref for Fenced {
    type Target = Mapping;
    fn deref(&self) -> &Mapping {
        &self.inner
    }
}

#[inline(always)]
fn map(size: usize, protection: i32, flags: i32, fd: i32) -> Result<*mut u8, Failure> {
    // SAFETY: a new mapping where the kernel chooses touches no memory that exists.
    let address = unsafe { libc::mmap(null_mut(), size, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(Failure::last_os_error("mmap"));
    }
    Ok(address.cast())
}

/// Whether the kernel can write a byte at this address for this process. Safe to ask about
/// memory at which a store would kill the process.
pub(crate) fn is_writable(address: *mut u8) -> bool {
    // SAFETY: the kernel checks the address. Not libc's getrandom, which may write without
    // a system call.
    unsafe { libc::syscall(libc::SYS_getrandom, address, 1, 0) == 1 }
}

/// Page faults of the calling thread so far.
pub(crate) fn faults() -> u64 {
    // SAFETY: rusage is plain data, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    (usage.ru_minflt + usage.ru_majflt) as u64
}
