//! When to take snapshots and bursts during a run of some seconds.

use std::time::Duration;

use super::SamplingStep;

/// The length of a burst: long enough for thousands of the fast operations that need bursts.
pub const BURST_NS: u64 = 2_000_000;

/// The time between bursts: attaching and detaching take about as long as a burst, and operations
/// that take twice as long while each call is counted take 1 to 2 % longer altogether.
const PERIOD_NS: u64 = 150_000_000;

/// The steps of a run of `end_ns` in order of time, in ns since its beginning, without the snapshot
/// at its end. The beginning of the run is in no window: it has the trial, the first burst.
pub fn schedule(end_ns: u64, windows: u64, bursts: bool) -> Vec<(u64, SamplingStep)> {
    let settled_ns = (end_ns / 10).min(200_000_000);
    let window_start = |i: u64| settled_ns + (end_ns - settled_ns) * i / windows;
    let mut steps: Vec<(u64, SamplingStep)> =
        (0..windows).map(|i| (window_start(i), SamplingStep::Snapshot)).collect();
    let mut burst = |begins_ns: u64, length_ns: u64| {
        steps.push((begins_ns, SamplingStep::Burst(Duration::from_nanos(length_ns))));
    };
    if bursts {
        burst(settled_ns / 2, BURST_NS.min(settled_ns / 8));
        for window in 0..windows {
            let length_ns = window_start(window + 1) - window_start(window);
            let number = (length_ns / PERIOD_NS).max(1);
            let period_ns = length_ns / number;
            let burst_ns = BURST_NS.min(period_ns / 20);
            for i in 0..number {
                // Attaching and detaching take time too.
                let free_ns = period_ns - period_ns / 4;
                let begins_ns = (free_ns as f64 * phase(i)) as u64;
                burst(window_start(window) + period_ns * i + begins_ns, burst_ns);
            }
        }
    }
    steps.sort_by_key(|(at_ns, _)| *at_ns);
    steps
}

/// Where in its period a burst begins, 0 to 1: spread evenly, out of step with any timer.
fn phase(number: u64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    ((number + 1) as f64 * GOLDEN).fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_window_has_bursts_of_its_own_after_a_trial() {
        for (end_ns, windows) in [(1_000_000_000, 1), (1_000_000_000, 7), (120_000_000, 1)] {
            let steps = schedule(end_ns, windows, true);
            let snapshots = steps.iter().filter(|(_, step)| *step == SamplingStep::Snapshot);
            let mut boundaries: Vec<u64> = snapshots.map(|(at_ns, _)| *at_ns).collect();
            assert_eq!(boundaries.len() as u64, windows);
            boundaries.insert(0, 0);
            boundaries.push(end_ns);
            for window in boundaries.windows(2) {
                let bursts = steps.iter().filter_map(|(at_ns, step)| match step {
                    SamplingStep::Burst(length) => Some((*at_ns, at_ns + length.as_nanos() as u64)),
                    SamplingStep::Snapshot => None,
                });
                let within = bursts.filter(|(from, to)| window[0] < *from && *to < window[1]);
                assert!(within.count() >= 1, "{window:?} {steps:?}");
            }
        }
    }

    #[test]
    fn bursts_begin_at_any_phase_of_a_tick() {
        let steps = schedule(2_000_000_000, 1, true);
        let bursts = steps.iter().filter(|(_, step)| *step != SamplingStep::Snapshot);
        let starts_ns: Vec<u64> = bursts.map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(starts_ns.len(), 13);
        let mut phases: Vec<u64> = starts_ns.iter().map(|at| at % 4_000_000 / 1_000_000).collect();
        phases.sort();
        phases.dedup();
        assert_eq!(phases, [0, 1, 2, 3]);
    }

    #[test]
    fn without_bursts_there_are_only_snapshots() {
        let snapshots =
            [(100_000_000, SamplingStep::Snapshot), (550_000_000, SamplingStep::Snapshot)];
        assert_eq!(schedule(1_000_000_000, 2, false), snapshots);
    }
}
