//! How much of its CPU time a thread spends in page faults, by its counters: the kernel counts faults, not their time. What
//! one takes on this host is measured.

use std::time::Duration;

use host::clock::now_ns;

use super::task_files::Charged;

/// Pages that are touched to measure a fault.
const PAGES: usize = 64;
/// Under load one takes so many times as long at most, with what it takes to give the page back.
const LOADED_TIMES: f64 = 3.0;
/// Where it cannot be measured.
const USUAL_NS: u64 = 500;

/// What a page fault takes here, on memory of no file, in ns: of several tries, the median.
pub fn fault_ns() -> u64 {
    const TRIES: usize = 5;
    let mut tries: Vec<u64> = (0..TRIES).filter_map(|_| touched_ns()).collect();
    tries.sort_unstable();
    tries.get(tries.len() / 2).map_or(USUAL_NS, |ns| ns / PAGES as u64).max(1)
}

/// How long it takes to touch new pages once.
fn touched_ns() -> Option<u64> {
    const PAGE_BYTES: usize = 4096;
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, whose address the kernel chooses.
    let pages =
        unsafe { libc::mmap(std::ptr::null_mut(), PAGES * PAGE_BYTES, access, kind, -1, 0) };
    if pages == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is this function's; huge pages would be touched at once.
    unsafe { libc::madvise(pages, PAGES * PAGE_BYTES, libc::MADV_NOHUGEPAGE) };
    let begin = now_ns();
    for page in 0..PAGES {
        // SAFETY: within the mapping, which is writable.
        unsafe { pages.cast::<u8>().add(page * PAGE_BYTES).write_volatile(1) };
    }
    let took_ns = now_ns() - begin;
    // SAFETY: the mapping is this function's, and nothing refers to it any more.
    unsafe { libc::munmap(pages, PAGES * PAGE_BYTES) };
    Some(took_ns)
}

/// The shares of a thread's CPU time in the kernel, and in page faults of that, between two readings of its counters, in which it
/// ran for so long.
pub fn shares(before: Charged, after: Charged, ran: Duration, fault_ns: u64) -> (f64, f64) {
    let since = |of: fn(Charged) -> u64| of(after).saturating_sub(of(before)) as f64;
    let (user, system) = (since(|charged| charged.user), since(|charged| charged.system));
    let in_kernel = if user + system > 0.0 { system / (user + system) } else { 0.0 };
    let faults_ns = since(|charged| charged.faults) * fault_ns as f64 * LOADED_TIMES;
    let in_faults = faults_ns / ran.as_nanos().max(1) as f64;
    (in_kernel, in_faults.min(in_kernel))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_take_no_more_than_the_time_in_the_kernel() {
        let check = |faults: u64, user: u64, system: u64, expected: f64| {
            let (before, ran) = (Charged::default(), Duration::from_millis(100));
            let (_, found) = shares(before, Charged { faults, user, system }, ran, 1000);
            assert!((found - expected).abs() < 1e-9, "{faults} {user} {system}: {found}");
        };
        check(10_000, 2, 8, 0.3);
        check(90_000, 5, 5, 0.5);
        check(0, 5, 5, 0.0);
        check(90_000, 0, 0, 0.0);
    }

    #[test]
    fn a_page_fault_takes_time() {
        assert!(fault_ns() > 0);
    }
}
