//! Samples of where threads of this user run, by perf's task clock: allowed without privileges while
//! kernel.perf_event_paranoid is 2 or less, for the program alone and not for the kernel.
//!
//! Each sample has the registers and the top of the stack, which user_stacks.rs walks. A thread has its own event and
//! its own ring: rings of several threads on all CPUs would need a descriptor for each pair.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::user_registers::{REGISTERS as ALL_REGISTERS, UserRegisters};
use crate::perf_event::{self, EventAttributes};

/// Nanoseconds of a thread's CPU time between samples: 99 in a second.
const PERIOD_NS: u64 = 1_000_000_000 / 99;
/// Bytes of the stack in a sample; a record is smaller than 64 KiB, and a multiple of 8.
const STACK_BYTES: u32 = 4096;
/// Room for three samples, which are read soon. All rings of a user share `kernel.perf_event_mlock_kb`.
const RING_BYTES: usize = 16 << 10;
const PAGE_BYTES: usize = 4096;

/// Samples of one thread.
pub struct ClockSamples {
    _event: OwnedFd,
    page: *mut u8,
}

/// A sample.
pub struct ClockSample {
    pub at_ns: u64,
    pub registers: UserRegisters,
    /// For what its instruction accesses.
    pub all_registers: [u64; ALL_REGISTERS],
    pub stack: Vec<u8>,
}

impl ClockSamples {
    /// Begins to sample a thread.
    ///
    /// # Errors
    /// Says what the kernel refuses.
    pub fn begin(task: u32) -> Result<ClockSamples, String> {
        let attributes =
            EventAttributes::task_clock_in_user_mode(PERIOD_NS, REGISTERS, STACK_BYTES);
        let event = perf_event::open(&attributes, (task as libc::pid_t, -1))?;
        // SAFETY: a new mapping of the event, whose address the kernel chooses.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES + RING_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(format!("mapping samples: {}", std::io::Error::last_os_error()));
        }
        Ok(ClockSamples { _event: event, page: page.cast() })
    }

    /// Takes the samples that have come.
    pub fn take(&mut self) -> Vec<ClockSample> {
        // struct perf_event_mmap_page: data_head and data_tail lie at 1024 and 1032.
        let (head, tail) = (self.word(1024), self.word(1032));
        let end = head.load(Ordering::Acquire);
        let mut at = tail.load(Ordering::Relaxed);
        let mut samples = Vec::new();
        while at + 8 <= end {
            let record = self.bytes(at, 8);
            let kind = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
            let size = usize::from(u16::from_ne_bytes([record[6], record[7]]));
            if size < 8 {
                break;
            }
            const SAMPLE: u32 = 9;
            if kind == SAMPLE {
                samples.extend(sample(&self.bytes(at + 8, size - 8)));
            }
            at += size as u64;
        }
        fence(Ordering::SeqCst);
        tail.store(end, Ordering::Release);
        samples
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the page is mapped while self lives, and the word is aligned; the kernel writes it at any time.
        unsafe { &*self.page.add(offset).cast::<AtomicU64>() }
    }

    /// Bytes of the ring, which goes on at its start.
    fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        let byte = |index: usize| {
            let place = (at as usize + index) % RING_BYTES;
            // SAFETY: the place lies in the mapped ring, behind the first page; the kernel does not write what was not
            // given back.
            unsafe { self.page.add(PAGE_BYTES + place).read() }
        };
        (0..length.min(RING_BYTES)).map(byte).collect()
    }
}

impl Drop for ClockSamples {
    fn drop(&mut self) {
        // SAFETY: the mapping of begin, which nothing refers to any more.
        unsafe { libc::munmap(self.page.cast(), PAGE_BYTES + RING_BYTES) };
    }
}

/// The registers of a sample as bits, in the order of uapi/asm/perf_regs.h: AX, BX, CX, DX, SI, DI, BP, SP, IP, R8 to R15.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 0x1ff | 0xff << 16;
/// Frame pointer, link, stack pointer, place.
#[cfg(target_arch = "aarch64")]
const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const REGISTERS: u64 = 0;

/// A sample from its words: the time; the ABI and the registers; the length of the stack, the stack, and how much of
/// that the thread has.
fn sample(bytes: &[u8]) -> Option<ClockSample> {
    let word = |index: usize| {
        let bytes = bytes.get(8 * index..8 * index + 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    };
    let registers = REGISTERS.count_ones() as usize;
    // Without registers the thread was in the kernel.
    if word(1)? == 0 {
        return None;
    }
    let register = |index: usize| word(2 + index);
    let length = word(2 + registers)? as usize;
    let first = 8 * (3 + registers);
    let stack = bytes.get(first..first + length)?;
    let used = word((first + length) / 8).unwrap_or(length as u64) as usize;
    let values: Option<Vec<u64>> = (0..registers).map(register).collect();
    let (registers, all_registers) = sorted(&values?)?;
    Some(ClockSample {
        at_ns: word(0)?,
        registers,
        all_registers,
        stack: stack[..used.min(length)].to_vec(),
    })
}

/// The registers that walking needs, and all in the order of struct pt_regs.
#[cfg(target_arch = "x86_64")]
fn sorted(values: &[u64]) -> Option<(UserRegisters, [u64; ALL_REGISTERS])> {
    let &[ax, bx, cx, dx, si, di, bp, sp, ip, r8, r9, r10, r11, r12, r13, r14, r15] = values else {
        return None;
    };
    let all = [r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, 0, ip];
    Some((UserRegisters { ip, sp, bp, link: 0 }, all))
}

#[cfg(not(target_arch = "x86_64"))]
fn sorted(values: &[u64]) -> Option<(UserRegisters, [u64; ALL_REGISTERS])> {
    let &[bp, link, sp, ip] = values else { return None };
    Some((UserRegisters { ip, sp, bp, link }, [0; ALL_REGISTERS]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_sample_is_read_as_the_kernel_writes_it() {
        let registers = (100..117).collect::<Vec<u64>>();
        let words = [vec![77, 2], registers, vec![16, 1, 2, 8]].concat();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let read = sample(&bytes).unwrap();
        assert_eq!((read.at_ns, read.registers.ip, read.registers.sp), (77, 108, 107));
        assert_eq!((read.registers.bp, read.stack.len()), (106, 8));
        assert_eq!((read.all_registers[0], read.all_registers[10]), (116, 100));
        assert!(sample(&bytes[..40]).is_none());
        let in_kernel: Vec<u8> = [77_u64, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(sample(&in_kernel).is_none());
    }

    #[test]
    fn this_thread_is_sampled_where_the_kernel_allows_it() {
        // SAFETY: the call has no preconditions.
        let task = unsafe { libc::gettid() } as u32;
        let Ok(mut samples) = ClockSamples::begin(task) else { return };
        let mut taken = Vec::new();
        let begin = std::time::Instant::now();
        while taken.is_empty() && begin.elapsed().as_secs() < 10 {
            taken = samples.take();
        }
        assert!(taken[0].registers.sp > 0 && taken[0].registers.ip > 0);
    }
}
