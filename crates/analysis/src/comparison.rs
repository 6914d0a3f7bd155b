//! What a comparison of variants says: the type that `compare` makes and every report of a
//! comparison shows. Numbers are unrounded; ratios are changes against the baseline, 0.05 for
//! 5 % more.

use records::{Better, Pass};
use serde::Serialize;

use crate::Spread;

/// Several variants, the first of them the baseline, over all cells that they share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared, the baseline first.
    pub variants: Vec<Compared>,
    /// How the runs were laid out, which bounds what can be said.
    pub design: Design,
    /// The metric that decides.
    pub primary: String,
    /// Metrics that were asked for beside it.
    pub shown: Vec<String>,
    /// The smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// What the intervals promise, 0.95.
    pub confidence: f64,
    /// The points that all variants share, in the order of the experiment.
    pub cells: Vec<CellComparison>,
    /// Cells that differ only in their CPUs, together; only curves of at least two cells.
    pub curves: Vec<CurveComparison>,
    /// How far equal things differed.
    pub noise_floor: Option<NoiseFloor>,
    /// Blocks that were left out, and why.
    pub discards: Discards,
    /// Where the variance of the primary metric comes from, where units were nested.
    pub variance: Vec<VarianceShare>,
    /// What bounds these verdicts, a sentence each.
    pub doubts: Vec<String>,
}

/// One variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// What it does differently: "mode=try, sysctl vm.x=1". Empty for a baseline that is as
    /// the load says.
    pub about: String,
    /// The record its runs are in.
    pub record: String,
    /// Host and kernel they ran on, as far as known: "lab1, 6.18.2".
    pub host: String,
}

/// How the runs were laid out.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "layout", rename_all = "snake_case")]
pub enum Design {
    /// Each block has one run of every variant, in random order: pairs within blocks.
    Blocks {
        /// Blocks went on until decided: the intervals allow for looking after each stage.
        sequential: bool,
    },
    /// The variants were measured one after the other, or elsewhere: what else changed
    /// meanwhile counts as a difference.
    Separate,
}

/// One cell: what the points of it have in common, and what is said about each metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellComparison {
    /// Where it is.
    pub place: Place,
    /// The primary metric first, then others in the order of the metric list.
    pub metrics: Vec<MetricComparison>,
    /// The runs of each variant, pass by pass, for listings; as many as variants.
    pub passes: Vec<Vec<RunValues>>,
    /// Runs that failed, for each variant.
    pub failed: Vec<usize>,
}

/// What tells a cell from the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Place {
    /// Name of the workload; of several, where variants replace it, joined by " / ".
    pub workload: String,
    /// All parameters that are the same for all variants.
    pub parameters: std::collections::BTreeMap<String, String>,
    /// `processes` or `threads`; empty if variants differ in it.
    #[serde(rename = "as")]
    pub form: String,
    /// CPUs; 0 if not known.
    pub cpus: u32,
    /// Tasks; 0 if not known.
    pub tasks: u32,
    /// How the CPUs were chosen, `cores`; empty if not known.
    pub placement: String,
    /// What was recorded.
    pub pass: Pass,
    /// Directory and length of a run, where they are the same for all variants.
    pub dir: String,
    /// "1 s", "10000 operations per task".
    pub length: String,
}

/// One metric of a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetricComparison {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// Its values in each variant, units of replication; absent where no run has it.
    pub sides: Vec<Option<Spread>>,
    /// Each variant but the first against the baseline.
    pub contrasts: Vec<Contrast>,
}

/// A variant against the baseline, in one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Contrast {
    /// Pairs; for separate runs, the units of the smaller side.
    pub n: usize,
    /// How `change` is to be read.
    pub scale: Scale,
    /// The estimate, on `scale`.
    pub change: Option<f64>,
    /// Its interval at the comparison's confidence, on `scale`.
    pub interval: Option<(f64, f64)>,
    /// What the interval rests on.
    pub method: Method,
    /// Probability of such a difference between equal things, adjusted for the number of
    /// variants (primary metric) or of metrics (all others).
    pub p: Option<f64>,
    /// What is said.
    pub verdict: Verdict,
}

/// The scale of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// Share of the baseline's value.
    Relative,
    /// Difference in the metric's own unit: for percentages, and where a value is zero or
    /// negative.
    Absolute,
}

/// What an interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Exact signed-rank distribution over pairs.
    SignedRank,
    /// The same, with looks after stages.
    SignedRankSequential,
    /// Student's t over pairs: normality is assumed.
    Student,
    /// Exact rank-sum distribution over two samples.
    RankSum,
    /// Welch's t over two samples: normality is assumed.
    Welch,
    /// Too little to say anything.
    None,
}

/// What is said about a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Verdict {
    /// Changed for the better. `at_least`: by the smallest effect or more.
    Better {
        /// Whether the interval lies beyond the smallest effect.
        at_least: bool,
    },
    /// Changed for the worse.
    Worse {
        /// As above.
        at_least: bool,
    },
    /// More, in a metric that is neither good nor bad.
    More {
        /// As above.
        at_least: bool,
    },
    /// Less, in such a metric.
    Less {
        /// As above.
        at_least: bool,
    },
    /// Within the smallest effect, with confidence.
    Same,
    /// Neither is shown.
    CannotTell {
        /// About so many more units would tell, if things go on like this; absent where no
        /// number would help.
        more: Option<u32>,
        /// Why, where it is not for want of units.
        why: String,
    },
    /// Not enough for any verdict.
    Unjudged {
        /// Units needed for one.
        needs: u32,
        /// Why.
        why: String,
    },
}

/// The finished runs of one variant in a cell, in order of execution.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunValues {
    /// Number of the run in its record.
    pub run: u32,
    /// Its block.
    pub block: u32,
    /// Whether it was left out of the comparison.
    pub discarded: bool,
    /// All its metrics.
    pub metrics: std::collections::BTreeMap<String, f64>,
}

/// Two variants, or more, as the CPUs grow: the primary metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveComparison {
    /// Indexes into `cells`, by CPUs, ascending.
    pub cells: Vec<usize>,
    /// One for each variant but the first.
    pub bands: Vec<Band>,
}

/// One variant against the baseline over all CPU counts of a curve.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Band {
    /// For each cell: interval of the change such that all hold together at the comparison's
    /// confidence; absent where there are too few units.
    pub intervals: Vec<Option<(f64, f64)>>,
    /// The fewest CPUs from which on the band excludes "equal" in one direction.
    pub parts_from: Option<u32>,
    /// Where which is ahead: (first CPUs, last CPUs, better by the band, or `None` for no
    /// difference shown).
    pub ahead: Vec<(u32, u32, Option<bool>)>,
}

/// How far equal things differed: pairs of runs of one point in one block.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// How many pairs.
    pub pairs: usize,
    /// Median of the absolute change, as a share.
    pub median: f64,
    /// The largest.
    pub largest: f64,
    /// Pairs whose change exceeds the smallest effect.
    pub beyond: usize,
}

/// Blocks left out of the comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Discards {
    /// Blocks of cells, all told.
    pub blocks: usize,
    /// Those that were left out.
    pub discarded: Vec<Discard>,
    /// Runs that gave the reason, for each variant.
    pub by_variant: Vec<usize>,
    /// Probability of such an imbalance by chance (Fisher's exact test); below 0.05 no
    /// verdict stands.
    pub imbalance_p: Option<f64>,
}

/// One block of a cell that was left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Discard {
    /// Index into `cells`.
    pub cell: usize,
    /// The block.
    pub block: u32,
    /// The run that gave the reason, and the reason: "steal 3.1 % of the CPUs used".
    pub run: u32,
    /// See above.
    pub reason: String,
}

/// A level of nesting and its share of the variance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VarianceShare {
    /// `boot`, `mount` or `run`.
    pub level: String,
    /// Units of it.
    pub units: usize,
    /// Standard deviation at this level, as a share of the value.
    pub deviation: f64,
    /// Share of the whole variance.
    pub share: f64,
}

impl Verdict {
    /// Whether it says that something changed.
    pub fn is_change(&self) -> bool {
        use Verdict::{Better, Less, More, Worse};
        matches!(self, Better { .. } | Worse { .. } | More { .. } | Less { .. })
    }

    /// The word for it. `timed`: whether the metric is a time or a rate, where better is
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
            (Verdict::Unjudged { .. }, _) => "no verdict",
        }
    }
}

impl MetricComparison {
    /// Whether better means faster.
    pub fn timed(&self) -> bool {
        matches!(self.unit.as_str(), "s" | "ms" | "us" | "ns" | "1/s")
    }
}
