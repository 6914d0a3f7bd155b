//! The CPUs that the calling thread may run on.

use std::io;

/// Words of a mask that covers the most CPUs that Linux supports.
const WORDS: usize = 8192 / 64;

/// The numbers of the CPUs that the calling thread may run on, ascending; sched_getaffinity(2).
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

/// Restricts the calling thread to these CPUs.
pub fn set(cpus: &[u32]) -> io::Result<()> {
    set_of_thread(0, cpus)
}

/// Restricts a thread, by its id, to these CPUs; sched_setaffinity(2). 0 is the calling thread.
pub fn set_of_thread(thread: u32, cpus: &[u32]) -> io::Result<()> {
    apply(thread, &mask(cpus))
}

/// The mask of a set of CPUs as the kernel takes it, 64 CPUs a word.
pub fn mask(cpus: &[u32]) -> Vec<u64> {
    let highest = cpus.iter().max().copied().unwrap_or(0);
    let mut mask = vec![0; highest as usize / 64 + 1];
    for cpu in cpus {
        mask[*cpu as usize / 64] |= 1_u64 << (cpu % 64);
    }
    mask
}

/// Restricts a thread to the CPUs of a prepared mask. Unlike [`set_of_thread`] it allocates nothing,
/// so it may be called between fork and exec.
pub fn apply(thread: u32, mask: &[u64]) -> io::Result<()> {
    // SAFETY: the mask is live and its length given in bytes.
    let result = unsafe {
        libc::sched_setaffinity(
            thread as i32,
            size_of_val(mask),
            mask.as_ptr().cast::<libc::cpu_set_t>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_room_for_any_cpu() {
        assert_eq!(mask(&[0, 2]), [5]);
        let beyond = mask(&[1024]);
        assert_eq!((beyond.len(), beyond[16]), (17, 1));
        assert_eq!(mask(&[]), [0]);
    }
}
