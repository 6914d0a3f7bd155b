//! Instructions that wait for memory or flush cache lines.

use std::sync::atomic::AtomicU64;

/// Whether user space can flush cache lines.
pub const CAN_FLUSH: bool = cfg!(target_arch = "x86_64");

/// Writes a line back to memory and evicts it from all caches.
pub fn flush(word: &AtomicU64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it, and it changes no value.
    unsafe {
        std::arch::x86_64::_mm_clflush(word.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = word;
}

/// Waits until all earlier stores are visible, and starts no later load before that. A compiler turns
/// a fence of the language into a locked instruction, behind which a CPU already requests the next
/// lines.
pub fn settle() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it, and it changes no value.
    unsafe {
        std::arch::x86_64::_mm_mfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
