//! Durations of single operations: one HDR histogram a task, merged for the run.

use hdrhistogram::Histogram;
use host::clock::now_ns;
use records::{Latency, TaskReport};

/// Longest duration that is resolved, 10 minutes; longer ones count as this.
const LONGEST_NS: u64 = 600_000_000_000;

/// An empty histogram of three digits. Its memory is touched only where it is used, so
/// 4096 of them cost little.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds are constants in range")
}

/// The non-empty buckets: (upper bound in ns, count).
pub fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    histogram.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value())).collect()
}

/// Merges the durations of all tasks, and takes them out of the reports.
pub fn merge(reports: &mut [TaskReport]) -> Latency {
    let mut merged = histogram();
    for report in reports {
        for (ns, count) in std::mem::take(&mut report.durations) {
            merged.saturating_record_n(ns, count);
        }
    }
    Latency {
        count: merged.len(),
        mean_ns: merged.mean(),
        stddev_ns: sample_stddev(&merged),
        p50_ns: merged.value_at_quantile(0.5),
        p99_ns: merged.value_at_quantile(0.99),
        p999_ns: merged.value_at_quantile(0.999),
        max_ns: merged.max(),
        timing_cost_ns: timing_cost_ns(),
        buckets: buckets(&merged),
    }
}

/// The crate divides by n; a sample's standard deviation is divided by n - 1.
fn sample_stddev(merged: &Histogram<u64>) -> f64 {
    let n = merged.len() as f64;
    if n > 1.0 { merged.stdev() * (n / (n - 1.0)).sqrt() } else { 0.0 }
}

/// What the two clock reads around an operation add to its duration: the median over empty
/// operations.
fn timing_cost_ns() -> f64 {
    let mut empty: Vec<u64> = (0..2001)
        .map(|_| {
            let start = now_ns();
            now_ns() - start
        })
        .collect();
    empty.sort_unstable();
    empty[empty.len() / 2] as f64
}
