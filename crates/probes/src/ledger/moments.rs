//! When to look at a run of some seconds.

use std::time::Duration;

/// What to do at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An edge between two windows.
    Edge,
    /// A burst of this length; the one before the first edge is the trial.
    Burst(Duration),
}

/// How long a burst is. Long beside the fast operations that need bursts, of which it holds
/// thousands.
pub const BURST_NS: u64 = 2_000_000;

/// How often there is one: attaching and detaching take about as long as it does, and operations
/// that take twice as long while each call is counted take 1 to 2 % longer altogether.
const PERIOD_NS: u64 = 150_000_000;

/// The moments of a run of `end_ns` in the order of time, in ns since its beginning, but for the
/// edge that is its end. What tasks do first is in no window: there is the trial, the first burst.
pub fn moments(end_ns: u64, windows: u64, bursts: bool) -> Vec<(u64, Moment)> {
    let settled_ns = (end_ns / 10).min(200_000_000);
    let edge = |i: u64| settled_ns + (end_ns - settled_ns) * i / windows;
    let mut moments: Vec<(u64, Moment)> = (0..windows).map(|i| (edge(i), Moment::Edge)).collect();
    let mut burst = |begins_ns: u64, length_ns: u64| {
        moments.push((begins_ns, Moment::Burst(Duration::from_nanos(length_ns))));
    };
    if bursts {
        burst(settled_ns / 2, BURST_NS.min(settled_ns / 8));
        for window in 0..windows {
            let length_ns = edge(window + 1) - edge(window);
            let number = (length_ns / PERIOD_NS).max(1);
            let period_ns = length_ns / number;
            let burst_ns = BURST_NS.min(period_ns / 20);
            for i in 0..number {
                // Attaching and detaching take time too.
                let free_ns = period_ns - period_ns / 4;
                let begins_ns = (free_ns as f64 * phase(i)) as u64;
                burst(edge(window) + period_ns * i + begins_ns, burst_ns);
            }
        }
    }
    moments.sort_by_key(|(at_ns, _)| *at_ns);
    moments
}

/// Where in its period a burst begins, 0 to 1: spread evenly, in step with no timer.
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
            let moments = moments(end_ns, windows, true);
            let edges = moments.iter().filter(|(_, moment)| *moment == Moment::Edge);
            let mut edges: Vec<u64> = edges.map(|(at_ns, _)| *at_ns).collect();
            assert_eq!(edges.len() as u64, windows);
            edges.insert(0, 0);
            edges.push(end_ns);
            for edge in edges.windows(2) {
                let bursts = moments.iter().filter_map(|(at_ns, moment)| match moment {
                    Moment::Burst(length) => Some((*at_ns, at_ns + length.as_nanos() as u64)),
                    Moment::Edge => None,
                });
                let within = bursts.filter(|(from, to)| edge[0] < *from && *to < edge[1]);
                assert!(within.count() >= 1, "{edge:?} {moments:?}");
            }
        }
    }

    #[test]
    fn bursts_begin_at_any_phase_of_a_tick() {
        let moments = moments(2_000_000_000, 1, true);
        let begins = moments.iter().filter(|(_, moment)| *moment != Moment::Edge);
        let begins: Vec<u64> = begins.map(|(at_ns, _)| *at_ns).collect();
        assert_eq!(begins.len(), 13);
        let mut phases: Vec<u64> = begins.iter().map(|at| at % 4_000_000 / 1_000_000).collect();
        phases.sort();
        phases.dedup();
        assert_eq!(phases, [0, 1, 2, 3]);
    }

    #[test]
    fn without_bursts_there_are_edges_alone() {
        let edges = [(100_000_000, Moment::Edge), (550_000_000, Moment::Edge)];
        assert_eq!(moments(1_000_000_000, 2, false), edges);
    }
}
