//! Memory of this process.

/// Gives memory that was freed back to the system. The allocator keeps it otherwise, as much for each thread as it
/// needed once: for a process that opens large records now and then, and lives long.
pub fn give_back() {
    // SAFETY: a plain call.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
