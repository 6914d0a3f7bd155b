//! malloc and free of one block.
//!
//! With a size above the allocator's threshold (128 KiB in glibc, until it has grown) each operation maps and unmaps
//! memory, so the curve is that of mmap_munmap: threads take turns at the lock of their address space. A smaller block
//! comes from the thread's own cache and goes back there, so nothing is shared and no system call is made; the curve
//! should be straight. `touch=yes` writes to each page, which makes the kernel find, zero and free pages. The allocator is
//! the one in this binary, glibc's. The defaults are will-it-scale's malloc1; its malloc2 has size_bytes=1k.

use std::hint::black_box;

use crate::mapping::page_bytes;
use crate::{
    Failure, Family, Forms, Load, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["malloc1"],
    family: Family::Memory,
    operation: "one malloc, a write to each page with `touch=yes`, and one free",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "size_bytes",
            about: "length of each block",
            default: "128M",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
        Parameter {
            name: "touch",
            about: "whether to write one byte to each page before free",
            default: "no",
            kind: ParameterKind::Choice(&["no", "yes"]),
        },
    ],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let size = load.values.number("size_bytes") as usize;
    let touch = load.values.choice("touch") == "yes";
    each_task(move |_| {
        let oversized = Oversized::take_from_heap(size)?;
        let (size, touch, page) = (size, touch, page_bytes());
        Ok(Allocator { size, touch, page, touched: 0, _oversized: oversized })
    })
}

struct Allocator {
    size: usize,
    touch: bool,
    page: usize,
    /// The sum of what was read back from the last touched byte of each block.
    touched: u64,
    _oversized: Oversized,
}

/// Blocks that the allocator gave for this size although they are larger. A task that is a process inherits the heap of
/// its worker with what is free there. A free block that is 16 bytes too large to be kept in the thread's cache, and too
/// small to be split, would be given and taken back by the slow path for ever: blocks of 1024 bytes took twice as long in
/// processes as in threads. So the task keeps such blocks until it ends.
struct Oversized(Vec<*mut libc::c_void>);

impl Oversized {
    /// The most blocks to keep; a heap of a worker has few.
    const MOST: usize = 256;

    fn take_from_heap(size: usize) -> Result<Oversized, Failure> {
        // glibc's blocks are 16 bytes apart, and 8 of them are its own.
        let fitting = (size + 8).next_multiple_of(16).max(32) - 8;
        let mut oversized = Oversized(Vec::with_capacity(Self::MOST));
        while oversized.0.len() < Self::MOST {
            let block: *mut libc::c_void = allocate(size)?.cast();
            // SAFETY: a block of the allocator, which is freed once: here, or when the task ends.
            unsafe {
                let usable = libc::malloc_usable_size(block);
                if usable <= fitting || size >= LARGE {
                    libc::free(block);
                    break;
                }
            }
            oversized.0.push(block);
        }
        Ok(oversized)
    }
}

/// Bytes from which on glibc may map a block by itself.
const LARGE: usize = 128 << 10;

impl Drop for Oversized {
    fn drop(&mut self) {
        // SAFETY: blocks of the allocator, freed once.
        self.0.drain(..).for_each(|block| unsafe { libc::free(block) });
    }
}

impl Task for Allocator {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let block = allocate(self.size)?;
        if self.touch {
            for offset in (0..self.size).step_by(self.page) {
                // SAFETY: below `size`, in a block of that length.
                unsafe { block.add(offset).write_volatile(1) };
            }
            // SAFETY: the first byte, which was just written.
            self.touched += u64::from(unsafe { block.read_volatile() });
        }
        // SAFETY: allocated above, freed once.
        unsafe { libc::free(block.cast()) };
        Ok(())
    }

    /// Each touched block was writable, and one more block is, at both ends.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.touch && self.touched != operations {
            return Err(Failure::new(format!(
                "{operations} blocks counted, but {} touched",
                self.touched
            )));
        }
        let block = allocate(self.size)?;
        // SAFETY: both ends of a block of that length, freed once.
        let kept = unsafe {
            block.write_volatile(1);
            block.add(self.size - 1).write_volatile(2);
            let (first, last) = (block.read_volatile(), block.add(self.size - 1).read_volatile());
            libc::free(block.cast());
            last == 2 && (first == 1 || self.size == 1)
        };
        if kept { Ok(()) } else { Err(Failure::new("a block does not keep what is written to it")) }
    }
}

/// A block from the C library's allocator. The compiler must not know that it is freed again: it would remove both calls.
#[inline(always)]
fn allocate(size: usize) -> Result<*mut u8, Failure> {
    // SAFETY: no preconditions.
    let block = black_box(unsafe { libc::malloc(black_box(size)) });
    if block.is_null() { Err(Failure::last_os_error("malloc")) } else { Ok(block.cast()) }
}
