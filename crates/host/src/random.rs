//! Random numbers from the kernel, for ids and for seeds that the user did not set.

/// 64 random bits; getrandom(2).
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is live and its length right; getrandom always returns 8 bytes whole.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}
