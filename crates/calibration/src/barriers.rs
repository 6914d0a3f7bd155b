//! Instructions that wait for memory, and that empty caches.

use std::sync::atomic::AtomicU64;

/// Whether user space can empty caches.
pub const CAN_FLUSH: bool = cfg!(target_arch = "x86_64");

/// Writes a line back to memory, and has it in no cache.
pub fn flush(of: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it, and it changes no value.
    unsafe {
        std::arch::x86_64::_mm_clflush(of.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = of;
}

/// Waits until all that was written is where it belongs, and begins nothing meanwhile. A compiler
/// makes a locked instruction of a fence of the language, behind which a CPU asks for the next lines
/// already.
pub fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it, and it changes no value.
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
