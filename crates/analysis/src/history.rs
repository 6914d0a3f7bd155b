//! What an earlier record says about a point: how much its runs varied and how long they took.
//! With this a plan can tell, before anything is run, how long it takes and what it can find.

use records::{Opened, Point};

use crate::Spread;

/// The runs of a point in an earlier record.
#[derive(Clone, Debug, PartialEq)]
pub struct PointHistory {
    /// Id of the earlier record.
    pub record: String,
    /// Number of runs.
    pub runs: usize,
    /// Standard deviation of the deciding metric over runs, as a share of its mean.
    pub deviation: f64,
    /// Median time from the start of a run to the start of the next, in seconds.
    pub run_s: f64,
}

impl PointHistory {
    /// The history of `point` in `past`, if that record has at least three runs of it with
    /// `metric`. Runs of variants that change the host do not count.
    pub fn from_record(past: &Opened, point: &Point, metric: &str) -> Option<PointHistory> {
        let index = point_in(past, point)?;
        let runs: Vec<_> = past.runs_of(index).filter(|run| run.finished()).collect();
        let values: Vec<f64> = runs.iter().filter_map(|run| run.value(metric)).collect();
        let spread = Spread::from_values(&values);
        let spread = spread.filter(|spread| spread.n >= 3 && spread.mean > 0.0)?;
        let next_start =
            |run: u32| past.runs.iter().find(|next| next.run == run + 1).map(|r| r.started);
        let lasted: Vec<f64> = runs
            .iter()
            .filter_map(|run| Some(next_start(run.run)?.duration_since(run.started).as_secs_f64()))
            .collect();
        Some(PointHistory {
            record: past.record.id.clone(),
            runs: spread.n,
            deviation: spread.stddev? / spread.mean,
            run_s: Spread::from_values(&lasted)?.median,
        })
    }
}

/// The point of an earlier record at which the same was run as at `point`. Points of variants that
/// change the host do not count.
pub(crate) fn point_in(past: &Opened, point: &Point) -> Option<usize> {
    let is_same = |other: &Point| {
        // Names of variants do not matter, only what was run.
        let bare = |point: &Point| Point { variant: String::new(), cell: None, ..point.clone() };
        bare(other) == bare(point)
    };
    let changes_host = |point: &Point| {
        let variant = past.record.variants.iter().find(|v| v.name == point.variant);
        variant.is_some_and(|v| !v.sysctl.is_empty() || !v.under.is_empty() || v.binary.is_some())
    };
    past.record.points.iter().position(|p| is_same(p) && !changes_host(p))
}
