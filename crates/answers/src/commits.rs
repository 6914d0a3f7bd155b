//! What moved a metric: `knee bisect`, a series of patches, and a screening of options.

use analysis::Comparison;
use bisection::{Answer, Build, Effect, Ends, Forecast, Foresight};
use schemars::JsonSchema;
use serde::Serialize;

/// The answer of a bisection.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Bisected<C: JsonSchema> {
    /// Id of the bisection.
    pub bisection: String,
    /// Name of the metric that is judged.
    pub metric: String,
    /// What the search came to. Changes are numbers of commits in `commits`.
    pub answer: Answer,
    /// Ids of the commits that the answer names.
    pub named: Vec<String>,
    /// The difference between both ends; null before both were measured.
    pub ends: Option<Ends>,
    /// Number of runs of the search.
    pub runs: u32,
    /// Number of runs of comparisons with parents.
    pub comparison_runs: u32,
    /// What the bisection was forecast to take once its ends differed; null before.
    pub forecast: Option<Foresight>,
    /// The most runs that the search may take; null before its ends differed.
    pub runs_most: Option<u32>,
    /// Number of builds.
    pub builds: usize,
    /// Seconds that builds took.
    pub build_seconds: f64,
    /// Seconds that runs of the search took.
    pub run_seconds: f64,
    /// Seconds that comparisons took.
    pub comparison_seconds: f64,
    /// Seconds waited for a quiet host.
    pub waited_seconds: f64,
    /// The commits that may have moved the metric, with a probability above 0.000001.
    pub posterior: Vec<Suspect>,
    /// The runs of each build; null before anything was measured.
    pub tested: Option<Vec<Build>>,
    /// Commits that could not be tested.
    pub skipped: Vec<SkippedCommit>,
    /// Comparisons of what the answer names with its parent, and what follows from them.
    pub confirmed: Vec<C>,
    /// Ids of all commits of the range, the good end first.
    pub commits: Vec<String>,
    /// The bisection of what a merge brought that was found. Absent unless that was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside_merge: Option<Box<InsideMerge<C>>>,
}

/// The bisection of what a merge brought; null if it was interrupted before it had an answer.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct InsideMerge<C: JsonSchema>(pub Option<Bisected<C>>);

/// A commit that may have moved the metric.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Suspect {
    /// Number of the commit in the range.
    pub change: usize,
    /// Id of the commit.
    pub commit: String,
    /// Probability that it moved the metric, from all runs.
    pub probability: f64,
}

/// A commit that could not be tested.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SkippedCommit {
    /// Id of the commit.
    pub commit: String,
    /// Why it could not be tested.
    pub why: String,
}

/// A check of what a bisection names. Its kind follows from the fields that it has.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "a bisection has a few")]
pub enum BisectionCheck<V, E, L> {
    /// A comparison of two builds.
    Comparison {
        /// What was compared.
        what: String,
        /// Id of the record that has the runs.
        record: String,
        /// Whether the builds differ as the ends do.
        confirmed: V,
        /// The comparison.
        comparison: Comparison,
    },
    /// The change is a part of what is between the ends.
    OneOfSeveral {
        /// "one of several".
        what: &'static str,
        /// How much of the difference between the ends the change explains.
        explained: E,
    },
    /// The change in other layouts of the same code.
    Layouts {
        /// "layouts".
        what: &'static str,
        /// What other layouts say.
        layouts: L,
    },
    /// Other layouts were not measured.
    NoLayouts {
        /// "layouts".
        what: &'static str,
        /// Why not.
        why_not: String,
    },
}

/// What a bisection would take, before anything is built.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BisectionPlan {
    /// Number of candidates.
    pub commits: usize,
    /// Id of the good end.
    pub good: String,
    /// Id of the bad end.
    pub bad: String,
    /// Runs and builds on average by the size of the change, as fitted to simulated bisections.
    pub forecasts: Vec<Forecast>,
}

/// What each patch of a series did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Series {
    /// Id of the record that has the runs.
    pub record: String,
    /// Name of the metric.
    pub metric: String,
    /// The patches in their order.
    pub patches: Vec<SeriesPatch>,
}

/// What one patch did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SeriesPatch {
    /// Id of the commit.
    pub commit: String,
    /// First line of its message.
    pub subject: String,
    /// Whether its build loads the same code and data as the one before it.
    pub equal_build: bool,
    /// The change against the commit before it that was measured; null if it was not judged.
    pub own: Option<SeriesChange>,
    /// The change against the base; null if it was not judged.
    pub from_base: Option<SeriesChange>,
    /// Why it was not measured; null if it was.
    pub not_measured: Option<String>,
}

/// A change between two commits of a series.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SeriesChange {
    /// The change as a share: 0.01 is 1 % more; null with too few blocks.
    pub change: Option<f64>,
    /// Both ends of its interval as shares, at 95 % for all patches together; null with too few blocks.
    pub interval: Option<[f64; 2]>,
    /// Number of blocks that have both commits.
    pub blocks: usize,
    /// The verdict.
    pub is: SeriesVerdict,
}

/// The verdict about a change of a series.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesVerdict {
    /// The metric changed.
    Changed,
    /// The change is surely below the smallest that matters.
    Same,
    /// More blocks are needed to tell.
    CannotTell,
    /// There are too few blocks for an interval.
    TooFew,
}

/// Which of several options move a metric.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Screening<'a> {
    /// Id of the record that has the runs.
    pub record: &'a str,
    /// The options, in the order of the effects.
    pub options: &'a [ScreenedOption],
    /// The effects at each workload and number of CPUs.
    pub cells: &'a [ScreenedCell],
}

/// An option with two values.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ScreenedOption {
    /// What was varied.
    pub key: String,
    /// The first and the second value.
    pub values: [String; 2],
}

/// The effects in one cell.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ScreenedCell {
    /// The workload and the number of CPUs.
    #[serde(rename = "cell")]
    pub title: String,
    /// Name of the metric.
    #[serde(skip)]
    pub metric: String,
    /// Number of runs that count.
    #[serde(skip)]
    pub runs: usize,
    /// The effect of each option; null if too few runs finished.
    pub effects: Option<Vec<Effect>>,
}
