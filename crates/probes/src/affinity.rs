//! The CPUs that the calling thread may run on.

use std::io;

/// Words of a mask for the most CPUs that Linux has.
const WORDS: usize = 8192 / 64;

/// Their numbers, ascending; sched_getaffinity(2).
pub fn get() -> io::Result<Vec<u32>> {
    let mut mask = [0_u64; WORDS];
    // SAFETY: the mask is live and its length given in bytes.
    let bytes = unsafe {
        libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast::<libc::cpu_set_t>())
    };
    if bytes < 0 {
        return Err(io::Error::last_os_error());
    }
    let is_set = |cpu: &u32| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..WORDS as u32 * 64).filter(is_set).collect())
}

/// Moves the calling thread to these.
pub fn set(cpus: &[u32]) -> io::Result<()> {
    let mut mask = [0_u64; WORDS];
    for cpu in cpus {
        let word = mask.get_mut(*cpu as usize / 64).ok_or(io::ErrorKind::InvalidInput)?;
        *word |= 1 << (cpu % 64);
    }
    // SAFETY: the mask is live and its length given in bytes.
    let result = unsafe {
        libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast::<libc::cpu_set_t>())
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
