//! When knee gives up a guest. The guest's CPUs are threads of this host, so knee sees whether it makes
//! progress without asking it, which would disturb its measurements.

use std::time::{Duration, Instant};

use guests::qemu::Qemu;

/// The progress of a run's guest so far.
pub struct Watchdog {
    /// How long the guest may go without progress.
    limit: Duration,
    /// How long the guest is silent in a normal run.
    quiet: Duration,
    /// How long its run may take in all.
    deadline: Duration,
    /// Time since the guest last sent anything, minus the time that its CPUs waited for the host's.
    silent: Duration,
    /// Time since the guest's CPUs last ran or waited to run.
    still: Duration,
    passed: Duration,
    times: Option<Times>,
    checked: Instant,
}

/// How long a guest's CPUs have run on the host's CPUs and waited for them, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    ran_ns: u64,
    waited_ns: u64,
}

/// Time between two checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(900);

/// A longer time between two checks is not the guest's fault: knee itself did not run.
const STEP_MAX: Duration = Duration::from_secs(2);

impl Watchdog {
    pub fn new(limit: Duration, quiet: Duration, deadline: Duration) -> Watchdog {
        let none = Duration::ZERO;
        Watchdog {
            limit,
            quiet,
            deadline,
            silent: none,
            still: none,
            passed: none,
            times: None,
            checked: Instant::now(),
        }
    }

    /// Restarts the wait for output of the guest.
    pub fn heard(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// Why to give the guest up, to follow "the guest", if it has made no progress for too long.
    pub fn check(&mut self, qemu: &Qemu) -> Option<String> {
        let step = self.checked.elapsed();
        if step < CHECK_INTERVAL {
            return None;
        }
        self.checked = Instant::now();
        let cpus = qemu.threads().max(1) as u64;
        let times = qemu.times();
        let times =
            times.map(|(ran, waited)| Times { ran_ns: ran / cpus, waited_ns: waited / cpus });
        self.update(step, times)
    }

    /// Takes in the CPUs' times, `step` after those before.
    fn update(&mut self, step: Duration, times: Option<Times>) -> Option<String> {
        let step = step.min(STEP_MAX);
        let before = std::mem::replace(&mut self.times, times);
        let waited = match (before, times) {
            (Some(before), Some(now)) => now.waited_ns.saturating_sub(before.waited_ns),
            _ => 0,
        };
        self.passed += step;
        self.silent += step.saturating_sub(Duration::from_nanos(waited));
        let is_still = times.is_some() && before == times;
        self.still = if is_still { self.still + step } else { Duration::ZERO };
        let seconds = |time: Duration| time.as_secs_f64().round();
        if self.still > self.limit {
            let still = seconds(self.still);
            Some(format!("is stopped: its CPUs have not run on the host for {still} s"))
        } else if self.silent > self.quiet + self.limit {
            Some(format!("sent nothing for {} s, while its CPUs ran", seconds(self.silent)))
        } else if self.passed > self.deadline + self.limit {
            Some(format!("had not finished its run after {} s", seconds(self.passed)))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks once a second on a guest whose CPUs run and wait for these shares of it, and which sends
    /// something every `heard_every` seconds (0 is never). Expects when and why it is given up.
    #[track_caller]
    fn check((ran, waited): (f64, f64), heard_every: u64, expected: &str) {
        let s = Duration::from_secs;
        let mut watchdog = Watchdog::new(s(10), s(5), s(60));
        let ended = (1..1000).find_map(|second| {
            if heard_every > 0 && second % heard_every == 0 {
                watchdog.heard();
            }
            let ns = |part: f64| (part * 1e9) as u64 * second;
            let times = Times { ran_ns: ns(ran), waited_ns: ns(waited) };
            watchdog.update(s(1), Some(times)).map(|why| format!("{second}: {why}"))
        });
        assert_eq!(ended.as_deref(), Some(expected));
    }

    #[test]
    fn a_guest_that_does_not_run_is_given_up_before_its_run_would_be_over() {
        check((0.0, 0.0), 0, "12: is stopped: its CPUs have not run on the host for 11 s");
        check((0.0, 0.0), 3, "12: is stopped: its CPUs have not run on the host for 11 s");
    }

    #[test]
    fn a_guest_that_runs_may_be_silent_for_as_long_as_its_run_and_longer() {
        check((1.0, 0.0), 0, "16: sent nothing for 16 s, while its CPUs ran");
        check((0.1, 0.0), 0, "16: sent nothing for 16 s, while its CPUs ran");
    }

    #[test]
    fn time_in_which_others_had_the_host_does_not_count() {
        check((0.5, 0.5), 0, "30: sent nothing for 16 s, while its CPUs ran");
    }

    #[test]
    fn a_guest_that_says_things_for_ever_is_given_up() {
        check((1.0, 0.0), 3, "71: had not finished its run after 71 s");
    }

    #[test]
    fn a_guest_is_not_blamed_for_a_knee_that_was_stopped() {
        let s = Duration::from_secs;
        let mut watchdog = Watchdog::new(s(10), s(5), s(60));
        let times = Some(Times { ran_ns: 1, waited_ns: 0 });
        assert_eq!(watchdog.update(s(1), times), None);
        assert_eq!(watchdog.update(s(1000), times), None);
    }
}
