//! Warm-up: found in the intervals of the run itself, and only marked; nothing is cut off by a
//! guess.

use records::Warmup;

use crate::Spread;

/// Fewer intervals than this cannot show a warm-up.
const INTERVALS_MIN: usize = 20;

/// A difference smaller than this share of the rate is not worth a mark.
const MATERIAL: f64 = 0.02;

/// Whether and when a run became steady. `intervals` are (ns since the release, operations
/// so far), ascending. `None` if there are too few.
///
/// The warm-up ends where cutting it off makes the mean of the rest most certain: the marginal
/// standard error rule (K. P. White, "An effective truncation heuristic for bias reduction in
/// simulation output", Simulation 69, 1997). The rule also cuts pure noise somewhere, so a cut
/// counts only if the parts differ by more than the noise.
pub fn warmup(intervals: &[(u64, u64)]) -> Option<Warmup> {
    let rates = rates(intervals);
    if rates.len() < INTERVALS_MIN {
        return None;
    }
    let cut = cheapest_cut(&rates);
    let (head, rest) = rates.split_at(cut);
    let (first, second) = rest.split_at(rest.len() / 2);
    // The rate still moves after the cut, by more than noise and by more than a little: no part
    // of the run is steady.
    if differ(first, second, 4.0, 2.5 * MATERIAL) {
        return Some(Warmup::Never);
    }
    if !differ(head, rest, 3.0, MATERIAL) {
        return Some(Warmup::Steady);
    }
    let (start_ns, start_operations) = intervals[cut - 1];
    let (end_ns, end_operations) = *intervals.last()?;
    let steady_s = (end_ns - start_ns) as f64 / 1e9;
    Some(Warmup::Until {
        seconds: start_ns as f64 / 1e9,
        steady_operations_per_s: (end_operations - start_operations) as f64 / steady_s,
    })
}

/// Operations per ns of each interval. A last interval that was cut short is joined to the one
/// before it.
fn rates(intervals: &[(u64, u64)]) -> Vec<f64> {
    let mut ends = intervals.to_vec();
    if let [.., (a, _), (b, _), (c, _)] = ends[..]
        && c.saturating_sub(b) < b.saturating_sub(a) / 2
    {
        ends.remove(ends.len() - 2);
    }
    let starts = std::iter::once(&(0, 0)).chain(&ends);
    let rate = |((t0, n0), (t1, n1)): (&(u64, u64), &(u64, u64))| {
        (t1 > t0).then(|| n1.saturating_sub(*n0) as f64 / (t1 - t0) as f64)
    };
    starts.zip(&ends).filter_map(rate).collect()
}

/// The cut, of at most half of the values, that minimises the standard error of the mean of the
/// rest.
fn cheapest_cut(values: &[f64]) -> usize {
    let cost = |cut: usize| {
        let rest = &values[cut..];
        let mean = rest.iter().sum::<f64>() / rest.len() as f64;
        let squares: f64 = rest.iter().map(|v| (v - mean).powi(2)).sum();
        squares / (rest.len() as f64).powi(2)
    };
    (0..=values.len() / 2).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(0)
}

/// Whether two parts differ by `z` standard errors of their difference, and by the share `material`
/// of the second part's mean.
fn differ(a: &[f64], b: &[f64], z: f64, material: f64) -> bool {
    let (Some(a), Some(b)) = (Spread::from_values(a), Spread::from_values(b)) else {
        return false;
    };
    // The beginning may be short, so the rest shows how noisy an interval is.
    let noise = b.stddev.unwrap_or(0.0);
    let error = noise * (1.0 / a.n as f64 + 1.0 / b.n as f64).sqrt();
    let difference = (a.mean - b.mean).abs();
    difference > z * error && difference > material * b.mean.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of 10 ms with these operations in each.
    fn intervals(operations: impl IntoIterator<Item = u64>) -> Vec<(u64, u64)> {
        let mut sum = 0;
        let cumulate = |(i, n): (usize, u64)| {
            sum += n;
            ((i as u64 + 1) * 10_000_000, sum)
        };
        operations.into_iter().enumerate().map(cumulate).collect()
    }

    /// ±3 % of repeatable noise around `level`.
    fn noisy(level: u64, n: u64) -> impl Iterator<Item = u64> {
        (0..n).map(move |i| level * (97 + i.wrapping_mul(2_654_435_761) % 7) / 100)
    }

    #[test]
    fn noise_alone_is_steady() {
        assert_eq!(warmup(&intervals(noisy(1000, 50))), Some(Warmup::Steady));
        assert_eq!(warmup(&intervals([500; 30])), Some(Warmup::Steady));
        assert_eq!(warmup(&intervals([0; 30])), Some(Warmup::Steady));
    }

    #[test]
    fn a_slow_start_is_found_where_it_ends() {
        let run = intervals(noisy(400, 8).chain(noisy(1000, 42)));
        let Some(Warmup::Until { seconds, steady_operations_per_s }) = warmup(&run) else {
            panic!("{:?}", warmup(&run));
        };
        assert!((0.07..=0.09).contains(&seconds), "{seconds}");
        assert!((98_000.0..102_000.0).contains(&steady_operations_per_s));
    }

    #[test]
    fn a_run_that_keeps_getting_slower_never_becomes_steady() {
        assert_eq!(warmup(&intervals((0..60).map(|i| 2000 - 20 * i))), Some(Warmup::Never));
    }

    #[test]
    fn few_intervals_cannot_show_a_warm_up() {
        assert_eq!(warmup(&intervals([100; 19])), None);
        assert_eq!(warmup(&[]), None);
    }

    #[test]
    fn a_last_interval_cut_short_does_not_count_alone() {
        let mut run = intervals([1000; 30]);
        let (at_ns, operations) = *run.last().unwrap();
        run.push((at_ns + 100, operations));
        assert_eq!(warmup(&run), Some(Warmup::Steady));
    }
}
