//! What would be run: `knee run --plan`.

use records::{Effect, Experiment, Point, Warning};
use schemars::JsonSchema;
use serde::Serialize;

/// What would be run, and how long that takes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RunPlan<'a> {
    /// The experiment; docs/guide/experiments.md has its keys.
    pub experiment: &'a Experiment,
    /// Seed of the random order.
    pub seed: u64,
    /// The points, each of which runs once in a block.
    pub points: Vec<PlannedPoint<'a>>,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of runs; null if runs decide how many there are.
    pub runs: Option<u32>,
    /// Seconds that all runs of known length take, with set-up and cleanup: by earlier records, or else common times.
    pub seconds: TimeRange,
    /// Number of points whose runs have an unknown length.
    pub points_of_unknown_length: usize,
    /// What would be started and changed on this host.
    pub effects: &'a [Effect],
    /// What makes the results less trustworthy.
    pub warnings: &'a [Warning],
    /// Why this host or user would be refused; null if the plan can be run.
    pub refused: Option<&'a str>,
}

/// A point, and what earlier records say about it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlannedPoint<'a> {
    /// What is run.
    #[serde(flatten)]
    pub point: &'a Point,
    /// Seconds of a run, with set-up and cleanup; null if nothing tells.
    pub run_seconds: Option<TimeRange>,
    /// Id of the earlier record; null without one.
    pub earlier_record: Option<&'a str>,
    /// Standard deviation of single runs of the deciding metric in that record, as a share; null without one.
    pub earlier_deviation: Option<f64>,
}

/// A time in seconds that lies between two values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TimeRange {
    /// The shortest time.
    pub low: f64,
    /// The longest time.
    pub high: f64,
}

impl TimeRange {
    /// A time that is known.
    pub fn exactly(seconds: f64) -> TimeRange {
        TimeRange { low: seconds, high: seconds }
    }

    /// Both times together.
    #[must_use]
    pub fn plus(self, other: TimeRange) -> TimeRange {
        TimeRange { low: self.low + other.low, high: self.high + other.high }
    }

    /// This many times.
    #[must_use]
    pub fn times(self, factor: f64) -> TimeRange {
        TimeRange { low: self.low * factor, high: self.high * factor }
    }
}
