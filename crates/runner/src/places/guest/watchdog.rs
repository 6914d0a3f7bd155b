//! When a guest is given up. Its CPUs are threads of this host, so whether it gets on can be seen
//! without asking it, which would disturb what it measures.

use std::time::{Duration, Instant};

use guests::qemu::Qemu;

/// What of a run's guest has been seen so far.
pub struct Watchdog {
    /// How long is too long.
    watchdog: Duration,
    /// How long the guest has a reason to say nothing.
    quiet: Duration,
    /// How long its run may take in all.
    deadline: Duration,
    /// Since something was last heard, less what its CPUs were kept from the host's.
    silent: Duration,
    /// Since its CPUs last ran, or wanted to.
    still: Duration,
    passed: Duration,
    times: Option<Times>,
    looked: Instant,
}

/// How long a guest's CPUs have run on the host, and waited for it, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    ran_ns: u64,
    waited_ns: u64,
}

/// How long between two looks.
const LOOKS: Duration = Duration::from_millis(900);

/// More than this between two looks was not the guest's: knee itself did not run.
const STEP: Duration = Duration::from_secs(2);

impl Watchdog {
    pub fn new(watchdog: Duration, quiet: Duration, deadline: Duration) -> Watchdog {
        let none = Duration::ZERO;
        Watchdog {
            watchdog,
            quiet,
            deadline,
            silent: none,
            still: none,
            passed: none,
            times: None,
            looked: Instant::now(),
        }
    }

    /// Begins again to wait for a word.
    pub fn heard(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// What is wrong with the guest, to follow "the guest", once that has been so for too long.
    pub fn tried(&mut self, machine: &Qemu) -> Option<String> {
        let step = self.looked.elapsed();
        if step < LOOKS {
            return None;
        }
        self.looked = Instant::now();
        let cpus = machine.threads().max(1) as u64;
        let times = machine.times();
        let times =
            times.map(|(ran, waited)| Times { ran_ns: ran / cpus, waited_ns: waited / cpus });
        self.look(step, times)
    }

    /// A look at its clocks, so long after the last one.
    fn look(&mut self, step: Duration, times: Option<Times>) -> Option<String> {
        let step = step.min(STEP);
        let before = std::mem::replace(&mut self.times, times);
        let waited = match (before, times) {
            (Some(before), Some(now)) => now.waited_ns.saturating_sub(before.waited_ns),
            _ => 0,
        };
        self.passed += step;
        self.silent += step.saturating_sub(Duration::from_nanos(waited));
        let is_still = times.is_some() && before == times;
        self.still = if is_still { self.still + step } else { Duration::ZERO };
        let after = |time: Duration| time.as_secs_f64().round();
        match () {
            () if self.still > self.watchdog => Some(format!(
                "is stopped: its CPUs have not run on the host for {} s",
                after(self.still)
            )),
            () if self.silent > self.quiet + self.watchdog => {
                Some(format!("said nothing for {} s, while its CPUs ran", after(self.silent)))
            }
            () if self.passed > self.deadline + self.watchdog => {
                Some(format!("was not done with its run after {} s", after(self.passed)))
            }
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks each second at a guest whose CPUs run and wait so much of it, and which is heard so often
    /// (0 is never); when it is given up, and why.
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
            watchdog.look(s(1), Some(times)).map(|why| format!("{second}: {why}"))
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
        check((1.0, 0.0), 0, "16: said nothing for 16 s, while its CPUs ran");
        check((0.1, 0.0), 0, "16: said nothing for 16 s, while its CPUs ran");
    }

    #[test]
    fn what_others_had_of_the_host_does_not_count() {
        check((0.5, 0.5), 0, "30: said nothing for 16 s, while its CPUs ran");
    }

    #[test]
    fn a_guest_that_says_things_for_ever_is_given_up() {
        check((1.0, 0.0), 3, "71: was not done with its run after 71 s");
    }

    #[test]
    fn a_guest_is_not_blamed_for_a_knee_that_was_stopped() {
        let s = Duration::from_secs;
        let mut watchdog = Watchdog::new(s(10), s(5), s(60));
        let times = Some(Times { ran_ns: 1, waited_ns: 0 });
        assert_eq!(watchdog.look(s(1), times), None);
        assert_eq!(watchdog.look(s(1000), times), None);
    }
}
