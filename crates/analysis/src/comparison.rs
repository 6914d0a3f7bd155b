//! The comparison of variants as a value: `compare` makes it, and every report of a comparison
//! shows it. Numbers are unrounded; ratios are changes against the baseline, 0.05 for 5 % more.

mod nodes;

use std::collections::BTreeMap;

use records::{Better, Pass, Values};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Modes, Spread};

pub use nodes::{ComparedNode, EqualRuns, NodeDisagreement, NodeEffect, NodeSurvey, OddNode};

/// Several variants, the first of them the baseline, over all cells that they share.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// The variants, the baseline first.
    pub variants: Vec<ComparedVariant>,
    /// How the runs were laid out, which limits what verdicts mean.
    pub design: Design,
    /// The metric that decides.
    pub primary: String,
    /// Other metrics that the user asked for.
    pub shown: Vec<String>,
    /// The smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// The confidence level of the intervals, 0.95.
    pub confidence: f64,
    /// The points that all variants share, in the order of the experiment.
    pub cells: Vec<CellComparison>,
    /// Cells that differ only in their CPUs, together; only curves of at least two cells.
    pub curves: Vec<CurveComparison>,
    /// How far runs of the same point differed within a block.
    pub noise_floor: Option<NoiseFloor>,
    /// Blocks that were left out, and why.
    pub discards: Discards,
    /// Where the variance of the primary metric comes from, if units were nested.
    pub variance: Vec<VarianceShare>,
    /// The nodes that the runs were made on, if they are of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<NodeSurvey>,
    /// What limits these verdicts, a sentence each.
    pub warnings: Vec<String>,
}

/// One variant of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedVariant {
    /// Name of the variant, or of the record.
    pub name: String,
    /// What it does differently: "mode=try, sysctl vm.x=1". Empty for a baseline that changes
    /// nothing of the load.
    pub about: String,
    /// Id of the record that holds its runs.
    pub record: String,
    /// Host and kernel that its runs were made on, as far as known: "lab1, 6.18.2".
    pub host: String,
}

/// How the runs were laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "layout", rename_all = "snake_case")]
pub enum Design {
    /// Each block has one run of every variant, in random order: pairs within blocks.
    Blocks {
        /// Blocks went on until decided: the intervals allow for looking after each stage.
        sequential: bool,
    },
    /// Separate records whose sessions alternate in time: pairs of neighbouring sessions.
    Sessions,
    /// Separate records of several boots of the host, which draw anew what differs by chance from
    /// boot to boot: the boots are the units.
    Boots,
    /// Files or sessions of each variant, three or more, or runs of one session: single values in the order
    /// of time, judged beside a drift of the host.
    Unpaired {
        /// The order of the values.
        order: TakenIn,
        /// What one value is.
        unit: TakenUnit,
    },
    /// The variants were measured one after the other, or elsewhere: the drift of the host counts
    /// as a difference, so only a change far beyond any drift gets a verdict.
    Separate,
}

/// What one value of a variant is, without pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakenUnit {
    /// An imported file: the mean of its runs.
    File,
    /// A session: the mean of its runs.
    Session,
    /// A run.
    Run,
}

impl TakenUnit {
    /// The unit as a noun.
    pub fn noun(self) -> &'static str {
        match self {
            TakenUnit::File => "file",
            TakenUnit::Session => "session",
            TakenUnit::Run => "run",
        }
    }
}

/// The order in which values of several variants were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TakenIn {
    /// Values of the variants stand between each other.
    Turn,
    /// All values of one variant came before those of the other.
    Sequence,
    /// The times are not known: a verdict must hold for either order and in turn.
    UnknownOrder,
}

/// One cell: what its points have in common, and the comparison of each metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellComparison {
    /// What tells the cell from the others.
    #[serde(rename = "place")]
    pub key: CellKey,
    /// The primary metric first, then others in the order of the metric list.
    pub metrics: Vec<MetricComparison>,
    /// For each variant its runs in order of execution, for listings.
    pub passes: Vec<Vec<RunValues>>,
    /// For each variant the number of its runs that failed.
    pub failed: Vec<usize>,
}

/// What all points of a cell have in common, and what tells it from other cells.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellKey {
    /// Name of the workload; if variants replace it, their names joined by " / ".
    pub workload: String,
    /// The parameters that are the same for all variants.
    pub parameters: BTreeMap<String, String>,
    /// `processes` or `threads`; empty if variants differ in it.
    #[serde(rename = "as")]
    pub form: String,
    /// Number of CPUs; 0 if unknown.
    pub cpus: u32,
    /// Number of tasks; 0 if unknown.
    pub tasks: u32,
    /// How the CPUs were chosen, `cores`; empty if unknown.
    pub placement: String,
    /// Whether rates or latencies were recorded.
    pub pass: Pass,
    /// Directory of the runs; empty if variants differ in it.
    pub dir: String,
    /// Length of a run, "1 s", "10000 operations per task"; empty if variants differ in it.
    pub length: String,
}

/// One metric of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MetricComparison {
    /// Name of the metric.
    pub metric: String,
    /// Unit of the metric; `1` is a plain number.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// For each variant the values of its runs; absent if no run has the metric.
    pub sides: Vec<Option<Spread>>,
    /// Each variant but the first against the baseline.
    pub contrasts: Vec<Contrast>,
}

/// A variant against the baseline, in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Contrast {
    /// Number of pairs, of blocks or of sessions; without pairs, the number of units on the smaller
    /// side.
    pub n: usize,
    /// The scale of `change` and `interval`.
    pub scale: Scale,
    /// The estimated change.
    pub change: Option<f64>,
    /// Interval of the change at the comparison's confidence level.
    pub interval: Option<(f64, f64)>,
    /// The method behind the interval.
    pub method: Method,
    /// Probability of such a difference if nothing is different, adjusted for the number of
    /// variants (primary metric) or of metrics (all others).
    pub p: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether a change for the worse that matters is excluded at 98 %, for this cell by itself: a gate leaves it alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub harmless: bool,
    /// Two modes of the values, if both sides show them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<Modes>,
    /// How far this host drifts, if the variants were not interleaved and it has earlier records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<HostDrift>,
}

/// How far earlier records of one point differ although nothing is known to have changed: the
/// drift of a host from one session to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HostDrift {
    /// Number of earlier records.
    pub records: usize,
    /// Number of pairs of them.
    pub pairs: usize,
    /// Number of pairs that differ as much as the two sides do, or more.
    pub as_far: usize,
    /// Median of the absolute change within pairs, as a share.
    pub median: f64,
}

/// The scale of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// A share of the baseline's value.
    Relative,
    /// A difference in the metric's own unit: for percentages, and if a value is zero or
    /// negative.
    Absolute,
}

/// The method behind an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Exact signed-rank distribution over pairs.
    SignedRank,
    /// Exact signed-rank distribution over pairs, with looks after fixed numbers of pairs.
    SignedRankSequential,
    /// Student's t over pairs: normality is assumed.
    Student,
    /// Exact rank-sum distribution over two samples.
    RankSum,
    /// Welch's t over two samples: normality is assumed.
    Welch,
    /// Least squares beside a trend and a random walk of the host: normality is assumed.
    Drift,
    /// Too few values for any method.
    None,
}

/// The verdict about a change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Verdict {
    /// Changed for the better.
    Better {
        /// Whether the whole interval lies beyond the smallest effect.
        at_least: bool,
    },
    /// Changed for the worse.
    Worse {
        /// Whether the whole interval lies beyond the smallest effect.
        at_least: bool,
    },
    /// More, in a metric that is neither good nor bad.
    More {
        /// Whether the whole interval lies beyond the smallest effect.
        at_least: bool,
    },
    /// Less, in a metric that is neither good nor bad.
    Less {
        /// Whether the whole interval lies beyond the smallest effect.
        at_least: bool,
    },
    /// The change lies within the smallest effect, with confidence.
    Same,
    /// Neither a change nor equality is shown.
    CannotTell {
        /// About how many more units would decide, if they resemble those so far; absent if no
        /// number would help.
        more: Option<u32>,
        /// The reason, if it is not a lack of units.
        why: String,
    },
    /// The variants were not measured in turn, so the difference may be the host's drift.
    NotInterleaved,
    /// Too few units for any verdict.
    Unjudged {
        /// The number of units that a verdict needs.
        needs: u32,
        /// What takes that many.
        why: String,
    },
}

/// A finished run with all its metrics.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunValues {
    /// Number of the run in its record.
    pub run: u32,
    /// Number of the block, from 0.
    pub block: u32,
    /// Whether its block was left out of the comparison.
    pub discarded: bool,
    /// Values by metric name.
    #[schemars(with = "std::collections::BTreeMap<String, f64>")]
    pub metrics: Values<f64>,
}

/// The primary metric of all variants over the CPU counts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CurveComparison {
    /// Indexes into [`Comparison::cells`], by number of CPUs, ascending.
    pub cells: Vec<usize>,
    /// One band for each variant but the first.
    pub bands: Vec<Band>,
}

/// One variant against the baseline over all CPU counts of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Band {
    /// For each cell, the interval of the change; absent if there are too few units. All of them
    /// hold together at the comparison's confidence level.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// The number of CPUs from which on the band excludes "equal", always in one direction.
    pub parts_from: Option<u32>,
    /// Who is ahead, by ranges of CPU counts: first and last count, and whether the variant is
    /// better than the baseline there. `None`: no difference is shown.
    pub ahead: Vec<(u32, u32, Option<bool>)>,
}

/// How far pairs of runs of the same point in the same block differed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NoiseFloor {
    /// Number of pairs.
    pub pairs: usize,
    /// Median of the absolute change, as a share.
    pub median: f64,
    /// Largest absolute change, as a share.
    pub largest: f64,
    /// Number of pairs whose change exceeds the smallest effect.
    pub beyond: usize,
}

/// Blocks left out of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Discards {
    /// Number of blocks, summed over cells.
    pub blocks: usize,
    /// The blocks that were left out.
    pub discarded: Vec<DiscardedBlock>,
    /// For each variant, the number of blocks that were left out because of its runs.
    pub by_variant: Vec<usize>,
    /// Probability of such an imbalance between variants by chance (Fisher's exact test); below
    /// 0.05 no verdict stands.
    pub imbalance_p: Option<f64>,
}

/// One block of a cell that was left out.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiscardedBlock {
    /// Index into [`Comparison::cells`].
    pub cell: usize,
    /// Number of the block.
    pub block: u32,
    /// The run that the host disturbed.
    pub run: u32,
    /// What the host did: "the hypervisor took 3.1 % of the CPUs used".
    pub reason: String,
}

/// A level of nesting and its share of the variance.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VarianceShare {
    /// `node`, `boot`, `mount` or `run`.
    pub level: String,
    /// Number of units at this level.
    pub units: usize,
    /// Standard deviation at this level, as a share of the value.
    pub deviation: f64,
    /// Share of the whole variance.
    pub share: f64,
}

impl Verdict {
    pub fn is_change(&self) -> bool {
        use Verdict::{Better, Less, More, Worse};
        matches!(self, Better { .. } | Worse { .. } | More { .. } | Less { .. })
    }

    /// The verdict in a word. `timed`: whether the metric is a time or a rate, where better means
    /// faster.
    pub fn word(&self, timed: bool) -> &'static str {
        match (self, timed) {
            (Verdict::Better { .. }, true) => "faster",
            (Verdict::Better { .. }, false) => "better",
            (Verdict::Worse { .. }, true) => "slower",
            (Verdict::Worse { .. }, false) => "worse",
            (Verdict::More { .. }, _) => "more",
            (Verdict::Less { .. }, _) => "less",
            (Verdict::Same, _) => "same",
            (Verdict::CannotTell { .. }, _) => "cannot tell",
            (Verdict::NotInterleaved, _) => "not interleaved",
            (Verdict::Unjudged { .. }, _) => "no verdict",
        }
    }
}

impl MetricComparison {
    /// Whether the metric is a time or a rate, where better means faster.
    pub fn timed(&self) -> bool {
        matches!(self.unit.as_str(), "s" | "ms" | "us" | "ns" | "1/s")
    }
}
