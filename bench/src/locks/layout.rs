//! Where code lies: this program once more, somewhere else in memory.
//!
//! Two tasks that hand a lock to and fro fall in step, and single cycles decide into which: the
//! same instructions at other addresses were seen to pass it a third more often, and two sides
//! whose instructions are the same but for the registers 1.7 times. So where code lies is chosen by
//! chance, for each layout anew, as Stabilizer does (Curtsinger and Berger 2013, STABILIZER:
//! statistically sound performance evaluation), and a ratio is of what layouts do on average.
//!
//! All of the program is copied, its data too, by any number of bytes. Within a copy everything is as
//! far from everything else as in the original, so code finds its constants and whom it calls.

use std::ffi::{c_int, c_void};
use std::{io, ptr, slice};

use anyhow::{Context, Result, ensure};
use rand::RngExt;

/// Bytes in which copies lie: the more, the more bits of an address change.
const ROOM: usize = 64 << 20;

/// A copy of the program.
pub struct Layout {
    /// All of the room.
    room: *mut u8,
    /// How far a copied function is from the original.
    distance: isize,
}

// SAFETY: memory of nobody else, written before anybody else has it.
unsafe impl Sync for Layout {}

impl Layout {
    /// A copy by chance.
    pub fn random(random: &mut impl RngExt) -> Result<Layout> {
        let parts = parts();
        let start = parts.iter().map(|part| part.as_ptr() as usize).min().unwrap_or_default();
        let end = parts.iter().map(|part| part.as_ptr_range().end as usize).max();
        let bytes = end.unwrap_or_default() - start;
        ensure!(bytes < ROOM, "this program is too large to be copied");
        let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping touches no memory that exists.
        let room = unsafe { libc::mmap(ptr::null_mut(), ROOM, access, kind, -1, 0) };
        if room == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("mapping memory for code");
        }
        let to = room as usize + random.random_range(0..ROOM - bytes);
        for part in parts {
            // SAFETY: within the room, as far from its start as the part is from that of all.
            unsafe {
                let to = (to + (part.as_ptr() as usize - start)) as *mut u8;
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
        }
        Ok(Layout { room: room.cast(), distance: to.wrapping_sub(start) as isize })
    }

    /// Where the copy of a function lies.
    pub fn copy_of(&self, function: *const ()) -> *const () {
        function.wrapping_byte_offset(self.distance)
    }
}

impl Drop for Layout {
    fn drop(&mut self) {
        // SAFETY: exactly what `random` mapped; nobody runs there any more.
        unsafe { libc::munmap(self.room.cast(), ROOM) };
    }
}

/// What of this program is loaded.
fn parts() -> Vec<&'static [u8]> {
    unsafe extern "C" fn add(
        program: *mut libc::dl_phdr_info,
        _: libc::size_t,
        parts: *mut c_void,
    ) -> c_int {
        // SAFETY: as dl_iterate_phdr promises, and it is given our vector.
        let (program, parts) = unsafe { (&*program, &mut *parts.cast::<Vec<&'static [u8]>>()) };
        // SAFETY: so many headers.
        let headers =
            unsafe { slice::from_raw_parts(program.dlpi_phdr, program.dlpi_phnum.into()) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = (program.dlpi_addr + header.p_vaddr) as *const u8;
            // SAFETY: loaded, and stays so.
            parts.push(unsafe { slice::from_raw_parts(start, header.p_memsz as usize) });
        }
        // The first is the program; what else there may be has no part in this.
        1
    }
    let mut parts: Vec<&'static [u8]> = Vec::new();
    // SAFETY: `add` is given what it expects.
    unsafe { libc::dl_iterate_phdr(Some(add), ptr::from_mut(&mut parts).cast()) };
    parts
}
