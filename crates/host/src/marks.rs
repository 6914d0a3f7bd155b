//! The marks of a traced run: a task says by stores to one page when its windows begin and end, and the plugin of QEMU
//! that watches the guest sees them (`crates/guests/plugin/accesses.c`). The harness of a user's own load does the same
//! (`crates/own_loads/c/harness/marks.h`).

use std::io::{Error, Result};
use std::thread;
use std::time::Duration;

/// Where the page is, as `MARKS` of the plugin.
const PAGE: usize = 0x1337_0000_0000;

/// Makes the plugin watch everything.
const ARM: usize = 255;
/// Opens a window for each task that executes user code.
const PROGRAM: usize = 253;
/// Keeps this task out of such windows.
const ASIDE: usize = 252;

/// The page of marks, mapped by this task's process.
#[derive(Clone, Copy)]
pub struct Marks;

impl Marks {
    /// Has everything watched from now on, but counted only in windows. The plugin knows this task from its next switch on,
    /// so it sleeps.
    pub fn arm() -> Result<Marks> {
        let marks = Marks::map()?;
        marks.store(ARM);
        thread::sleep(Duration::from_millis(1));
        Ok(marks)
    }

    /// Keeps the calling task out of the windows of programs.
    pub fn stand_aside(self) {
        self.store(ASIDE);
    }

    /// Maps the page, unless another task of this process has.
    fn map() -> Result<Marks> {
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
        let error = Error::last_os_error();
        if mapped == libc::MAP_FAILED && error.raw_os_error() != Some(libc::EEXIST) {
            return Err(error);
        }
        Ok(Marks)
    }

    /// Begins this task's window `number`, from 1 on; 0 ends it.
    pub fn window(self, number: usize) {
        self.store(number);
    }

    /// Begins a window for all tasks that execute user code from now on, but this one; `window(0)` ends it.
    pub fn program(self) {
        self.store(PROGRAM);
    }

    fn store(self, number: usize) {
        // SAFETY: the page is mapped, and only stores to it matter.
        unsafe { std::ptr::write_volatile((PAGE as *mut u64).add(number), 1) };
    }
}
