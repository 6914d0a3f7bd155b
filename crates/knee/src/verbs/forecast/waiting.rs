//! What a task that waits for a lock adds to the time for which it is held, from the lock's own code on a described host:
//! with nothing to do outside, all tasks but one wait, so the time between two operations grows by it with each task.

use answers::SimulatedHandOver;
use anyhow::{Result, ensure};
use engines::simulated::{NS, Time};
use host::in_parallel;
use studies::Subject;
use studies::simulations::{Conditions, LockLoad, Variation, point};

/// Hosts that are drawn from the ranges.
const DRAWS: u64 = 8;
/// A lock that takes no longer with more waiting tasks has this, so that it has a logarithm.
const LEAST_NS: f64 = 0.1;

/// The standard deviation of a hand-over's logarithm: by the draws, and no less than what the simulator is off by.
pub fn deviation(found: &SimulatedHandOver) -> f64 {
    const SIMULATOR: f64 = 0.1;
    let (low, high) = found.range_ns;
    // The range of nine draws is three standard deviations.
    SIMULATOR.hypot((high / low).ln() / 3.0)
}

/// Simulates a lock that is held for this time, with 2 to this number of CPUs of a host.
pub fn hand_over(lock: &str, host: &str, hold_ns: u64, most: u32) -> Result<SimulatedHandOver> {
    let subject = Subject::lock(lock)?;
    let host = described_hosts::find(host)?;
    let most = host.cpus().min((most as usize).max(4));
    ensure!(most >= 4, "host {} has {} CPUs: a hand-over takes 4", host.name, host.cpus());
    let mut counts: Vec<usize> =
        std::iter::successors(Some(2), |n| Some(2 * n)).take_while(|n| *n < most).collect();
    counts.push(most);
    let load = LockLoad {
        start_within_ns: hold_ns,
        variation: Variation::Exponential,
        lines_written: 2,
        lines_read: 2,
        ..LockLoad::steady(0, hold_ns, 90)
    };
    let rates = in_parallel(counts.len(), |index| {
        let length = (500 * (hold_ns + 500)).max(200_000);
        let conditions =
            Conditions { draws: DRAWS, ..Conditions::new(&host, 1, length as Time * NS) };
        let cpus = counts[index];
        point(&subject, load, &conditions, cpus, cpus).map(|point| point.rates)
    });
    let rates: Vec<Vec<f64>> = rates.into_iter().collect::<Result<_>>()?;
    let slope = |draw: usize| {
        let points = counts.iter().zip(&rates).filter(|(_, rates)| rates[draw] > 0.0);
        let points = points.map(|(cpus, rates)| (*cpus as f64, 1e9 / rates[draw]));
        slope(&points.collect::<Vec<_>>()).max(LEAST_NS)
    };
    let slopes: Vec<f64> = (0..=DRAWS as usize).map(slope).collect();
    let extreme = |of: fn(f64, f64) -> f64| slopes.iter().copied().reduce(of).unwrap_or(LEAST_NS);
    Ok(SimulatedHandOver {
        lock: lock.to_string(),
        host: host.name.clone(),
        cpus: (counts[0], most),
        ns: slopes[0],
        range_ns: (extreme(f64::min), extreme(f64::max)),
    })
}

/// The slope of the straight line nearest to these points, each off by a share of its value.
fn slope(points: &[(f64, f64)]) -> f64 {
    let weighted = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
        points.iter().map(|(x, y)| of(*x, *y) / (y * y)).sum()
    };
    let all = weighted(&|_, _| 1.0);
    let (x, y) = (weighted(&|x, _| x) / all, weighted(&|_, y| y) / all);
    weighted(&|a, b| (a - x) * (b - y)) / weighted(&|a, _| (a - x).powi(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiters_on_the_lock_word_add_to_the_hold_and_waiters_in_a_queue_do_not() {
        let ns = |lock| hand_over(lock, "generic-2s", 200, 16).unwrap();
        let (ticket, mcs) = (ns("ticket"), ns("mcs"));
        assert!(ticket.ns > 2.0 * mcs.ns, "{ticket:?} {mcs:?}");
        let (low, high) = ticket.range_ns;
        assert!(low <= ticket.ns && ticket.ns <= high && deviation(&ticket) >= 0.1, "{ticket:?}");
    }

    #[test]
    fn locks_that_do_not_exist_are_named() {
        let error = hand_over("tiket", "generic-2s", 200, 16).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no lock is called \"tiket\"; did you mean \"ticket\"? `knee list algorithms` shows all"
        );
    }

    #[test]
    fn a_line_has_its_slope() {
        assert!((slope(&[(2.0, 7.0), (4.0, 11.0), (16.0, 35.0)]) - 2.0).abs() < 1e-12);
    }
}
