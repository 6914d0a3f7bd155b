//! Allocations of kernel memory by tasks, counted by the kernel's tracepoints: each object from a slab, each block from the
//! page allocator. Nothing is sampled, so counts are exact. An interrupt during a task counts as the task's.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::perf_event::{self, EventAttributes, PerfTarget};
use crate::permissions::tracefs;

/// Tracepoints of the slab allocator. Those for a node were merged into the others by "mm/slab_common: drop kmem_alloc &
/// avoid dereferencing fields when not using" (Linux 6.1).
const SLAB: [(&str, Presence); 4] = [
    ("kmalloc", Presence::Always),
    ("kmem_cache_alloc", Presence::Always),
    ("kmalloc_node", Presence::Sometimes),
    ("kmem_cache_alloc_node", Presence::Sometimes),
];

/// The tracepoint of the page allocator: one for each block, whatever its size.
const PAGES: &str = "mm_page_alloc";

/// Whether every kernel has a tracepoint.
#[derive(Clone, Copy, PartialEq)]
enum Presence {
    Always,
    Sometimes,
}

/// From when on allocations are counted.
#[derive(Clone, Copy, PartialEq)]
pub enum CountFrom {
    /// From [`AllocationCounter::start`] on, those of the calling thread and of all that it starts later.
    Start,
    /// From the execution of a program on, those of children of the calling thread, without its own.
    Execution,
}

/// Counters of the allocations of a thread, and of all that it starts.
pub struct AllocationCounter {
    slab: Vec<OwnedFd>,
    pages: OwnedFd,
}

/// Numbers of allocations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationCounts {
    /// Objects from slabs.
    pub slab: u64,
    /// Blocks from the page allocator, those for slabs included.
    pub pages: u64,
}

impl AllocationCounter {
    /// Opens the counters for the calling thread.
    ///
    /// # Errors
    /// Says which tracepoint the kernel does not let this process count.
    pub fn new(from: CountFrom) -> Result<AllocationCounter, String> {
        let folder = tracefs(Path::new("/"))?.join("events/kmem");
        let mut slab = Vec::new();
        for (name, presence) in SLAB {
            if presence == Presence::Always || folder.join(name).is_dir() {
                slab.push(open(&folder, name, from)?);
            }
        }
        Ok(AllocationCounter { slab, pages: open(&folder, PAGES, from)? })
    }

    /// Counts from now on.
    ///
    /// # Errors
    /// Says what the kernel refused.
    pub fn start(&self) -> Result<(), String> {
        self.each(perf_event::IOC_ENABLE)
    }

    /// Counts no more.
    ///
    /// # Errors
    /// Says what the kernel refused.
    pub fn stop(&self) -> Result<(), String> {
        self.each(perf_event::IOC_DISABLE)
    }

    fn each(&self, request: libc::c_ulong) -> Result<(), String> {
        for counter in self.slab.iter().chain([&self.pages]) {
            // SAFETY: the counter is open; the request has no argument.
            if unsafe { libc::ioctl(counter.as_raw_fd(), request, 0) } < 0 {
                return Err(format!("counting allocations: {}", io::Error::last_os_error()));
            }
        }
        Ok(())
    }

    /// The allocations that were counted so far.
    ///
    /// # Errors
    /// Says what could not be read.
    pub fn counts(&self) -> Result<AllocationCounts, String> {
        let slab = self.slab.iter().map(value).sum::<Result<u64, String>>()?;
        Ok(AllocationCounts { slab, pages: value(&self.pages)? })
    }
}

fn open(folder: &Path, name: &str, from: CountFrom) -> Result<OwnedFd, String> {
    let path = folder.join(name).join("id");
    let said = |why: String| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(&path).map_err(|e| said(e.to_string()))?;
    let id = text.trim().parse().map_err(|_| said("is no number".to_string()))?;
    let begins = match from {
        CountFrom::Start => 0,
        CountFrom::Execution => perf_event::ENABLE_ON_EXEC,
    };
    let flags = perf_event::DISABLED | perf_event::INHERIT | begins;
    let event = EventAttributes::new(perf_event::TYPE_TRACEPOINT, id, 0, flags);
    perf_event::open(&event, CALLER).map_err(|why| format!("kmem:{name}: {why}"))
}

/// The calling thread, on whatever CPU.
const CALLER: PerfTarget = (0, -1);

fn value(counter: &OwnedFd) -> Result<u64, String> {
    let mut count = 0_u64;
    // SAFETY: the counter is open, and `count` has the length given.
    let read =
        unsafe { libc::read(counter.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
    if read == size_of::<u64>() as isize {
        return Ok(count);
    }
    Err(format!("reading a count of allocations: {}", io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::{AllocationCounter, CountFrom};

    /// Allocations while a file is opened this often.
    fn opening(times: u32) -> Result<u64, String> {
        let counter = AllocationCounter::new(CountFrom::Start)?;
        counter.start()?;
        for _ in 0..times {
            drop(File::open("/dev/null"));
        }
        counter.stop()?;
        drop(File::open("/dev/null"));
        Ok(counter.counts()?.slab)
    }

    #[test]
    fn each_allocation_is_counted_or_the_reason_is_named() {
        match (opening(100), opening(200)) {
            (Ok(fewer), Ok(more)) => assert!(fewer >= 100 && more == 2 * fewer, "{fewer} {more}"),
            (Err(why), _) | (_, Err(why)) => {
                assert!(why.contains("tracefs") || why.contains("kmem"), "{why}");
            }
        }
    }
}
