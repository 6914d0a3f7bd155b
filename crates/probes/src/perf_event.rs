//! perf_event_open(2), as far as knee needs it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

// include/uapi/linux/perf_event.h
pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const TYPE_TRACEPOINT: u32 = 2;
#[cfg(feature = "bpf")]
pub(crate) const TYPE_RAW: u32 = 4;
pub(crate) const COUNT_HW_CPU_CYCLES: u64 = 0;
#[cfg(feature = "bpf")]
pub(crate) const COUNT_HW_INSTRUCTIONS: u64 = 1;
#[cfg(feature = "bpf")]
pub(crate) const COUNT_HW_CACHE_MISSES: u64 = 3;
pub(crate) const COUNT_SW_CPU_CLOCK: u64 = 0;
pub(crate) const COUNT_SW_TASK_CLOCK: u64 = 1;
const FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// Bit 0 of the flags: the event does not count until it is enabled.
pub(crate) const DISABLED: u64 = 1;
/// Bit 1: what the watched thread starts later is counted with it.
pub(crate) const INHERIT: u64 = 1 << 1;
/// Bit 12: the event counts once the thread executes a program.
pub(crate) const ENABLE_ON_EXEC: u64 = 1 << 12;

/// `_IO('$', 0)` and `_IO('$', 1)`: an event and those inherited from it count, or count no more.
pub(crate) const IOC_ENABLE: libc::c_ulong = 0x2400;
pub(crate) const IOC_DISABLE: libc::c_ulong = 0x2401;

/// Bit 10: the period is a frequency in Hz.
#[cfg(feature = "bpf")]
pub(crate) const FREQUENCY: u64 = 1 << 10;

/// Bit 7: the event does not count while its CPU is idle.
#[cfg(feature = "bpf")]
pub(crate) const EXCLUDE_IDLE: u64 = 1 << 7;

/// What a perf event watches: a process and a CPU; -1 is any.
pub(crate) type PerfTarget = (libc::pid_t, libc::c_int);

/// The first versions of perf_event_attr: kernels of 4.1 and newer accept them.
#[repr(C)]
pub(crate) struct EventAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    /// Address of a breakpoint, or of the path of a probed file.
    place: u64,
    /// Length of a breakpoint, or offset in a probed file.
    extent: u64,
    branches: u64,
    /// The registers of a sample, as bits.
    user_registers: u64,
    /// Bytes of the stack of a sample.
    user_stack: u32,
    clock: i32,
}

const _: () = assert!(size_of::<EventAttributes>() == 96, "PERF_ATTR_SIZE_VER3");

impl EventAttributes {
    pub(crate) fn new(kind: u32, config: u64, period: u64, flags: u64) -> EventAttributes {
        EventAttributes {
            kind,
            size: size_of::<EventAttributes>() as u32,
            config,
            sample_period: period,
            sample_type: 0,
            read_format: 0,
            flags,
            wakeup_events: 0,
            breakpoint_type: 0,
            place: 0,
            extent: 0,
            branches: 0,
            user_registers: 0,
            user_stack: 0,
            clock: 0,
        }
    }

    /// Samples of a thread in user mode, one for each such CPU time, with these registers and so many bytes of its stack.
    /// Times are CLOCK_MONOTONIC.
    pub(crate) fn task_clock_in_user_mode(
        period_ns: u64,
        user_registers: u64,
        user_stack: u32,
    ) -> EventAttributes {
        // Bits 5, 6 and 25 of the flags; bits of the type of samples.
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
        const USE_CLOCK: u64 = 1 << 25;
        const TIME: u64 = 1 << 2;
        const USER_REGISTERS: u64 = 1 << 12;
        const USER_STACK: u64 = 1 << 13;
        let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | USE_CLOCK;
        EventAttributes {
            sample_type: TIME | USER_REGISTERS | USER_STACK,
            user_registers,
            user_stack,
            clock: libc::CLOCK_MONOTONIC,
            ..EventAttributes::new(TYPE_SOFTWARE, COUNT_SW_TASK_CLOCK, period_ns, flags)
        }
    }

    /// A probe at an offset of the file with this path, which must live until the event is open.
    pub(crate) fn at(self, path: &std::ffi::CStr, offset: u64) -> EventAttributes {
        EventAttributes { place: path.as_ptr() as u64, extent: offset, ..self }
    }

    /// Makes a read return the value with the times for which the event was enabled and ran.
    #[cfg(feature = "bpf")]
    pub(crate) fn scaled(self) -> EventAttributes {
        EventAttributes { read_format: 1 | 1 << 1, ..self }
    }
}

/// Opens an event.
pub(crate) fn open(attributes: &EventAttributes, target: PerfTarget) -> Result<OwnedFd, String> {
    const NO_GROUP: libc::c_int = -1;
    let (process, cpu) = target;
    // SAFETY: the attributes are live and hold their size; the kernel only reads them.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const *attributes,
            process,
            cpu,
            NO_GROUP,
            FLAG_FD_CLOEXEC,
        )
    };
    if descriptor < 0 {
        return Err(format!("perf_event_open: {}", io::Error::last_os_error()));
    }
    // SAFETY: the system call has just returned this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}
