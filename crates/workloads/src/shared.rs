//! Memory that all tasks of a run share, even processes: an anonymous shared mapping,
//! made before the tasks and inherited by fork. It has no name, so none can be left over.

use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::{io, mem, slice};

use crate::Failure;

/// A value on cache lines of its own. 128 bytes: the adjacent-line prefetcher of x86
/// pairs lines.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct CacheLine<T>(pub T);

impl<T> Deref for CacheLine<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Values of `T` in shared memory. `T` must be usable by several processes
/// simultaneously and valid when zero: atomics, and [`CacheLine`]s and structs of them.
pub struct Shared<T> {
    start: NonNull<T>,
    length: usize,
}

impl<T: Sync> Shared<T> {
    /// Maps `length` values of `T`, all bytes zero.
    ///
    /// # Safety
    /// All-zero bytes must be a valid `T`, and `T` must hold no pointer to memory of
    /// one process.
    pub unsafe fn zeroed(length: usize) -> Result<Shared<T>, Failure> {
        // SAFETY: the caller vouches for `T`; an anonymous mapping is zero.
        unsafe { Shared::map(length, libc::MAP_ANONYMOUS, -1) }
    }

    /// Maps `length` values of `T` from a descriptor, for example of a BPF map.
    ///
    /// # Safety
    /// As for [`Shared::zeroed`]. The descriptor must hold at least `length` values of `T`,
    /// zero or written as such.
    pub unsafe fn from_descriptor(memory: BorrowedFd, length: usize) -> Result<Shared<T>, Failure> {
        // SAFETY: the caller vouches for `T` and for the descriptor.
        unsafe { Shared::map(length, 0, memory.as_raw_fd()) }
    }

    /// # Safety
    /// As for [`Shared::zeroed`]; a descriptor must hold `length` values of `T`.
    unsafe fn map(length: usize, flags: libc::c_int, fd: libc::c_int) -> Result<Self, Failure> {
        assert!(mem::align_of::<T>() <= 4096, "a page is the largest alignment mmap gives");
        // SAFETY: a fresh mapping touches no memory that exists.
        let address = unsafe {
            libc::mmap(
                null_mut(),
                bytes::<T>(length),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | flags,
                fd,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(Failure::from_error(
                format!("mapping {} shared bytes", bytes::<T>(length)),
                error,
            ));
        }
        let start = NonNull::new(address.cast()).expect("mmap never returns address 0 unasked");
        Ok(Shared { start, length })
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` values, valid because zero is (`zeroed`),
        // and lives as long as `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // SAFETY: exactly what `zeroed` mapped; `&self` borrows have ended.
        unsafe { libc::munmap(self.start.as_ptr().cast(), bytes::<T>(self.length)) };
    }
}

// SAFETY: `Shared` only hands out `&T`.
unsafe impl<T: Sync> Sync for Shared<T> {}
// SAFETY: the mapping belongs to no thread.
unsafe impl<T: Sync> Send for Shared<T> {}

fn bytes<T>(length: usize) -> usize {
    (length * mem::size_of::<T>()).max(1)
}
