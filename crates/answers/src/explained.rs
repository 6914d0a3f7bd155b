//! Where time goes, and what accounts for a difference: `knee explain`.

use ledger::{
    Cause, Explained, GainBound, RecordedLedger, RowChange, WallTime, answer, gain_bound,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Where the time of an operation went at each point, and what accounts for the differences between variants.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Ledgers<'a> {
    /// The points of all records with their ledgers.
    pub points: Vec<&'a Explained>,
    /// The first variant against each other one, at each point that both have; empty for one variant.
    pub differences: Vec<LedgerDifference<'a>>,
}

/// What accounts for the difference between two points.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LedgerDifference<'a> {
    /// The baseline.
    before: ExplainedSide<'a>,
    /// The other side.
    after: ExplainedSide<'a>,
    /// The unit of work that times are per: "operation", say.
    per: String,
    /// The time by the clock on the wall before and after; then rows are of that. Null where they are of CPUs x time.
    wall: Option<(WallTime, WallTime)>,
    /// The rows that make the difference, the largest first.
    causes: Vec<Cause>,
    /// For each cause, what the slower side would gain at most without it; null for a cause against the difference.
    gains_without_causes: Vec<Option<GainBound>>,
    /// Whether profiling slowed a side too much, and no cause stands out from that.
    refused: bool,
    /// Whether runs of both sides took the same time whatever they did.
    bound_by_time: bool,
    /// Seconds of the shorter side's runs, if they are too short to profile; null otherwise.
    too_short_s: Option<f64>,
    /// Nanoseconds per unit of work of the difference that may be due to profiling; null if no run without a profile
    /// tells.
    disturbance_ns: Option<f64>,
    /// Number of causes left out because profiling may have made them.
    causes_within_disturbance: usize,
    /// The difference, row by row.
    change: RowChange,
}

/// One side of a difference.
#[derive(Debug, Serialize, JsonSchema)]
struct ExplainedSide<'a> {
    /// Name of the variant or record.
    name: &'a str,
    /// Number of the point in its record.
    point: usize,
}

impl<'a> LedgerDifference<'a> {
    /// Judges the difference of two named points per unit of work. `is_forced` lets all causes count. `None` if a side
    /// has no ledger.
    pub fn new(
        before: (&'a str, &Explained),
        after: (&'a str, &Explained),
        per: String,
        is_forced: bool,
    ) -> Option<LedgerDifference<'a>> {
        let judged = answer(before.1, after.1, is_forced)?;
        let gains = judged.causes.iter().map(|cause| gain_bound(&judged, cause)).collect();
        let side = |(name, explained): (&'a str, &Explained)| ExplainedSide {
            name,
            point: explained.point,
        };
        Some(LedgerDifference {
            before: side(before),
            after: side(after),
            per,
            gains_without_causes: gains,
            causes: judged.causes,
            wall: judged.wall,
            refused: judged.refused,
            bound_by_time: judged.bound_by_time,
            too_short_s: judged.too_short_s,
            disturbance_ns: judged.disturbance_ns,
            causes_within_disturbance: judged.causes_within_disturbance,
            change: judged.change,
        })
    }
}

/// The ledger of a perf.data file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordingLedger<'a> {
    /// Name of the file.
    pub name: &'a str,
    /// The ledger of its samples.
    pub recorded: &'a RecordedLedger,
}

/// What accounts for the difference between two perf.data files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RecordingDifference<'a> {
    /// The baseline.
    pub base: RecordingLedger<'a>,
    /// The other file.
    pub new: RecordingLedger<'a>,
    /// The difference, row by row.
    pub difference: &'a RowChange,
    /// The rows that make the difference, the largest first.
    pub causes: Vec<Cause>,
}
