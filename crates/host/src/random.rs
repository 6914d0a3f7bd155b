//! Random numbers of the kernel's, for ids and for seeds that nobody gave.

/// 64 random bits; getrandom(2).
pub fn random() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is live and its length right; 8 bytes are always given whole.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_ne_bytes(bytes)
}
