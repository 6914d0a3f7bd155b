//! getrusage(2), and its differences.

use records::Usage;

/// Usage of the calling thread.
pub fn thread() -> Usage {
    getrusage(libc::RUSAGE_THREAD)
}

/// Usage of the calling process: all its threads.
pub fn process() -> Usage {
    getrusage(libc::RUSAGE_SELF)
}

fn getrusage(who: i32) -> Usage {
    // SAFETY: rusage is plain data, valid when zero; the call fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    from_rusage(&usage)
}

/// Converts the kernel's struct.
pub fn from_rusage(usage: &libc::rusage) -> Usage {
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Usage {
        user_us: us(usage.ru_utime),
        system_us: us(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        max_rss_kib: usage.ru_maxrss as u64,
        block_inputs: usage.ru_inblock as u64,
        block_outputs: usage.ru_oublock as u64,
    }
}

/// What was used between two readings. The resident set is a high-water mark: the later one counts.
pub fn between(before: &Usage, after: &Usage) -> Usage {
    combine(after, before, u64::saturating_sub, |after, _| after)
}

/// What two tasks used together. The resident set is the larger of the two.
pub fn sum(a: &Usage, b: &Usage) -> Usage {
    combine(a, b, |a, b| a + b, u64::max)
}

fn combine(a: &Usage, b: &Usage, count: fn(u64, u64) -> u64, mark: fn(u64, u64) -> u64) -> Usage {
    Usage {
        user_us: count(a.user_us, b.user_us),
        system_us: count(a.system_us, b.system_us),
        voluntary_switches: count(a.voluntary_switches, b.voluntary_switches),
        involuntary_switches: count(a.involuntary_switches, b.involuntary_switches),
        minor_faults: count(a.minor_faults, b.minor_faults),
        major_faults: count(a.major_faults, b.major_faults),
        max_rss_kib: mark(a.max_rss_kib, b.max_rss_kib),
        block_inputs: count(a.block_inputs, b.block_inputs),
        block_outputs: count(a.block_outputs, b.block_outputs),
    }
}
