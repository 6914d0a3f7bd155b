//! The only clock of a run: `CLOCK_MONOTONIC`, which all processes of a boot share.

/// Nanoseconds since an arbitrary instant that is fixed for the boot.
#[inline(always)]
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live; CLOCK_MONOTONIC exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
