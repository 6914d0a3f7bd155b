//! The marks of a traced run: a task says by stores to one page when its windows begin and end, and the plugin of QEMU
//! that watches the guest sees them (`crates/guests/plugin/accesses.c`).
//!
//!     warm-up: n/4 operations ─ window 1: n/4 ─ window 2: n/2
//!
//! A window of twice the operations must have twice the accesses: else the operation is not in a steady state.

use workloads::Failure;

/// Where the page is, as `MARKS` of the plugin.
const PAGE: usize = 0x1337_0000_0000;

/// The mark that makes the plugin watch everything.
const ARM: usize = 255;

/// The page of marks, mapped by this task's process.
#[derive(Clone, Copy)]
pub struct Marks;

impl Marks {
    /// Has everything watched from now on, but counted only in windows.
    pub fn arm() -> Result<Marks, Failure> {
        let marks = Marks::map()?;
        marks.store(ARM);
        Ok(marks)
    }

    /// Maps the page, unless another task of this process has.
    fn map() -> Result<Marks, Failure> {
        // SAFETY: a new page at an address where nothing else is: MAP_FIXED_NOREPLACE sees to that.
        let mapped = unsafe {
            libc::mmap(
                PAGE as *mut libc::c_void,
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        let error = std::io::Error::last_os_error();
        if mapped == libc::MAP_FAILED && error.raw_os_error() != Some(libc::EEXIST) {
            return Err(Failure::from_error("mapping the page of marks", error));
        }
        Ok(Marks)
    }

    /// Begins this task's window `number`, from 1 on; 0 ends it.
    pub fn window(self, number: usize) {
        self.store(number);
    }

    fn store(self, number: usize) {
        // SAFETY: the page is mapped, and only stores to it matter.
        unsafe { std::ptr::write_volatile((PAGE as *mut u64).add(number), 1) };
    }
}

/// The operations of the warm-up and of each window, of `all`.
pub fn parts(all: u64) -> [(usize, u64); 3] {
    let quarter = (all / 4).max(1);
    [(0, quarter), (1, quarter), (2, 2 * quarter)]
}
