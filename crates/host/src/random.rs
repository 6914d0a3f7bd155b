//! Random numbers from the kernel, for ids and for seeds that the user did not set.

use std::fs::File;
use std::io::{self, Read};

use anyhow::{Context, Result};

/// Fails where the kernel gives no random numbers. The standard library, too, panics there as soon as it makes a hash
/// map, so a program asks first.
pub fn check_random() -> Result<()> {
    bytes().map(|_| ()).context(
        "this host gives no random numbers, without which no id is sure to be new: a filter forbids getrandom(2), and \
         /dev/urandom cannot be read; allow one of them",
    )
}

/// 64 random bits.
pub fn random() -> u64 {
    u64::from_ne_bytes(bytes().expect("check_random has found random numbers"))
}

/// Random bytes from getrandom(2); where a kernel before 3.17 or a filter refuses that, from /dev/urandom.
fn bytes() -> io::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer is live and its length right; so few bytes are returned whole.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    }
    Ok(bytes)
}
