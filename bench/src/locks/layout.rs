//! Code layout: a copy of this program, at a random address in memory.
//!
//! Two tasks that pass a lock back and forth fall into a rhythm, and single cycles decide which
//! one. The same instructions at other addresses passed a lock a third more often; two sides whose
//! instructions differed only in registers, 1.7 times as often. So each layout places the code at
//! random, as Stabilizer does (Curtsinger and Berger 2013, STABILIZER: statistically sound
//! performance evaluation), and a ratio is an average over layouts.
//!
//! The whole program is copied, with its data, by any number of bytes. Distances within a copy are
//! those of the original, so the code finds its constants and the functions that it calls.

use std::ffi::{c_int, c_void};
use std::{io, ptr, slice};

use anyhow::{Context, Result, ensure};
use rand::RngExt;

/// Bytes of the room in which a copy lies. More bytes change more bits of the addresses.
const ROOM: usize = 64 << 20;

/// A copy of the program.
pub struct Layout {
    room: *mut u8,
    /// Bytes from an original function to its copy.
    distance: isize,
}

// SAFETY: no other code uses the memory, which is written before the layout is shared.
unsafe impl Sync for Layout {}

impl Layout {
    /// A copy at a random address.
    pub fn random(random: &mut impl RngExt) -> Result<Layout> {
        let parts = parts();
        let start = parts.iter().map(|part| part.as_ptr() as usize).min().unwrap_or_default();
        let end = parts.iter().map(|part| part.as_ptr_range().end as usize).max();
        let bytes = end.unwrap_or_default() - start;
        ensure!(bytes < ROOM, "this program is too large to be copied");
        let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping touches no existing memory.
        let room = unsafe { libc::mmap(ptr::null_mut(), ROOM, protection, flags, -1, 0) };
        if room == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("mapping memory for code");
        }
        let copy_start = room as usize + random.random_range(0..ROOM - bytes);
        for part in parts {
            let part_copy = (copy_start + (part.as_ptr() as usize - start)) as *mut u8;
            // SAFETY: the copy is within the room: it starts at most `ROOM - bytes` into it.
            unsafe { ptr::copy_nonoverlapping(part.as_ptr(), part_copy, part.len()) };
        }
        Ok(Layout { room: room.cast(), distance: copy_start.wrapping_sub(start) as isize })
    }

    /// The address of a function's copy.
    pub fn copy_of(&self, function: *const ()) -> *const () {
        function.wrapping_byte_offset(self.distance)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: exactly what `random` mapped; no code runs there any more.
        unsafe { libc::munmap(self.room.cast(), ROOM) };
    }
}

/// The loaded segments of this program.
fn parts() -> Vec<&'static [u8]> {
    unsafe extern "C" fn add(
        program: *mut libc::dl_phdr_info,
        _: libc::size_t,
        parts: *mut c_void,
    ) -> c_int {
        // SAFETY: dl_iterate_phdr passes a valid program, and our vector.
        let (program, parts) = unsafe { (&*program, &mut *parts.cast::<Vec<&'static [u8]>>()) };
        // SAFETY: the program has this many headers.
        let headers =
            unsafe { slice::from_raw_parts(program.dlpi_phdr, program.dlpi_phnum.into()) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = (program.dlpi_addr + header.p_vaddr) as *const u8;
            // SAFETY: the segment is loaded, and stays so.
            parts.push(unsafe { slice::from_raw_parts(start, header.p_memsz as usize) });
        }
        // The first object is the program; libraries are not copied.
        1
    }
    let mut parts: Vec<&'static [u8]> = Vec::new();
    // SAFETY: `add` is given what it expects.
    unsafe { libc::dl_iterate_phdr(Some(add), ptr::from_mut(&mut parts).cast()) };
    parts
}
