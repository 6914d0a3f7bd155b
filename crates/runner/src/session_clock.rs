//! When the runs of a session start: the time of day when it began, and what has passed since. The clock of the day may be set
//! meanwhile; budgets and blocks go by the time between runs.

use jiff::{SignedDuration, Timestamp};

/// A clock that only runs forward.
#[derive(Clone, Copy, Debug)]
pub struct SessionClock {
    began: Timestamp,
    began_ns: u64,
}

impl SessionClock {
    /// A session begins.
    pub fn start() -> SessionClock {
        SessionClock { began: Timestamp::now(), began_ns: since_boot_ns() }
    }

    pub fn now(&self) -> Timestamp {
        self.at(since_boot_ns())
    }

    fn at(&self, ns: u64) -> Timestamp {
        let passed = ns.saturating_sub(self.began_ns).min(i64::MAX as u64);
        let passed = SignedDuration::from_nanos(passed as i64);
        self.began.checked_add(passed).unwrap_or(self.began)
    }
}

/// Nanoseconds since the boot, with those in which the host slept.
fn since_boot_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is live; CLOCK_BOOTTIME exists on every Linux since 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_passed_is_the_difference_of_two_times_whatever_the_clock_of_the_day_says() {
        // Set back to 1970, as on a board without a battery.
        let clock = SessionClock { began: Timestamp::UNIX_EPOCH, began_ns: 7_000_000_000 };
        let check = |ns: u64, expected: &str| assert_eq!(clock.at(ns).to_string(), expected);
        check(7_000_000_000, "1970-01-01T00:00:00Z");
        check(9_500_000_000, "1970-01-01T00:00:02.5Z");
        check(6_000_000_000, "1970-01-01T00:00:00Z");
        check(u64::MAX, "2262-04-11T23:47:16.854775807Z");
        let clock = SessionClock::start();
        let earlier = clock.now();
        assert!(clock.now() >= earlier);
    }
}
