//! What a gate says, as a value.

use records::Better;
use schemars::JsonSchema;
use serde::Serialize;

use super::exact::CountedCase;

/// What a gate says.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GateAnswer {
    /// Commit of the base: where head left what it is merged into.
    pub base: String,
    /// Commit of the head.
    pub head: String,
    /// The metric that decides.
    pub metric: String,
    /// Unit of the metric; `1` is a plain number.
    pub unit: String,
    /// Direction in which the metric is better.
    pub better: Better,
    /// Smallest change that matters, as a share.
    pub smallest_effect: f64,
    /// How it was learned; absent if it was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learned: Option<LearnedEffect>,
    /// Probability that any case is called changed if nothing is.
    pub alpha: f64,
    /// Why nothing was judged; absent if something was.
    pub nothing: Option<Nothing>,
    /// The cases that both have, in their order.
    pub cases: Vec<GatedCase>,
    /// The counts of these cases, where nothing was timed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counted: Vec<CountedCase>,
    /// Cases that only the base has.
    pub only_base: Vec<String>,
    /// Cases that only the head has.
    pub only_head: Vec<String>,
    /// The smallest change for the worse that would have been found in each case in four of five gates, as a share; absent if
    /// too few blocks tell.
    pub could_see: Option<f64>,
    /// Whether the runs ended because the budget was spent.
    pub out_of_budget: bool,
    /// The budget in seconds that holds a look at all cases; absent if this one held it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needs_s: Option<f64>,
    /// Runs, those in other layouts too.
    pub runs: usize,
    /// Blocks that were left out because the host disturbed them.
    pub disturbed: u32,
    /// Seconds that all took, builds too.
    pub seconds: f64,
    /// The records of the runs.
    pub records: Vec<String>,
}

impl GateAnswer {
    /// Whether a case changed, for the worse or the better.
    pub(super) fn has_change(&self) -> bool {
        let changed =
            |case: &GatedCase| matches!(case.is, GateVerdict::Worse | GateVerdict::Better);
        self.cases.iter().any(changed)
    }

    /// Cases that further blocks may show to be worse, with how much worse they seem, as a logarithm: they cannot be told, or
    /// they are worse by less than what matters as it seems, and by more as it may be.
    pub(super) fn open_cases(&self) -> Vec<(String, f64)> {
        let margin = self.smallest_effect.ln_1p();
        let worse_by = |change: f64| match self.better {
            Better::Lower => change.ln_1p(),
            Better::Higher => -change.ln_1p(),
            Better::Neither => change.ln_1p().abs(),
        };
        let is_open = |case: &&GatedCase| match case.is {
            GateVerdict::CannotTell => true,
            GateVerdict::Slightly => {
                case.interval.is_some_and(|(low, high)| worse_by(low).max(worse_by(high)) >= margin)
            }
            _ => false,
        };
        let open = self.cases.iter().filter(is_open);
        open.map(|case| (case.case.clone(), worse_by(case.change.unwrap_or(0.0)))).collect()
    }

    /// Takes what further blocks say about some of the cases.
    pub(super) fn take_further(&mut self, further: GateAnswer) {
        for new in further.cases {
            let Some(known) = self.cases.iter_mut().find(|case| case.case == new.case) else {
                continue;
            };
            // What is known to be slightly worse stays so, unless it is worse than that.
            let says_less = match new.is {
                GateVerdict::CannotTell => {
                    known.is != GateVerdict::CannotTell || new.blocks <= known.blocks
                }
                GateVerdict::Harmless => known.is == GateVerdict::Slightly,
                _ => false,
            };
            if says_less {
                known.could_see = match (known.could_see, new.could_see) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            } else {
                *known = new;
            }
        }
        let seen = self.cases.iter().map(|case| case.could_see);
        self.could_see = seen.reduce(|a, b| Some(a?.max(b?))).flatten();
        self.runs += further.runs;
        self.disturbed += further.disturbed;
        self.records.extend(further.records);
        self.out_of_budget |= further.out_of_budget;
        self.out_of_budget &= self.cases.iter().any(|case| case.is == GateVerdict::CannotTell);
    }
}

/// The smallest change that matters, learned from the base against itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LearnedEffect {
    /// Runs of the base against itself.
    pub runs: usize,
    /// Seconds that these took.
    pub seconds: f64,
}

/// Why a gate judged nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum Nothing {
    /// The base has all commits of the head.
    NoChange,
    /// Both builds load equal code and data.
    SameCode,
    /// A side was not built.
    NotBuilt {
        /// `base` or `head`.
        side: GateSide,
        /// What its build said.
        said: String,
    },
    /// The cases of a side could not be listed.
    NotListed {
        /// `base` or `head`.
        side: GateSide,
        /// What the program that lists them said.
        said: String,
    },
    /// Both sides have no case in common.
    NoCase,
}

/// A side of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateSide {
    /// Before the change.
    Base,
    /// With the change.
    Head,
}

impl GateSide {
    /// The side in a word.
    pub fn word(self) -> &'static str {
        match self {
            GateSide::Base => "base",
            GateSide::Head => "head",
        }
    }
}

/// One case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct GatedCase {
    /// Its name; empty if the command is the only one.
    pub case: String,
    /// The verdict.
    pub is: GateVerdict,
    /// Change of the metric, as a share.
    pub change: Option<f64>,
    /// Interval of the change, which allows for all cases and looks.
    pub interval: Option<(f64, f64)>,
    /// Blocks that counted.
    pub blocks: usize,
    /// Runs that failed.
    pub failed: usize,
    /// The smallest change for the worse that would have been found in it in four of five gates, as a share; absent if too few
    /// blocks tell.
    pub could_see: Option<f64>,
    /// The change in other layouts, as shares; empty if they were not tried.
    pub layouts: Vec<f64>,
    /// Counts that changed with it, the largest change first: what the kernel did for both sides, as page faults.
    pub beside: Vec<CountChange>,
    /// What limits the verdict, or why there is none.
    pub why: String,
}

/// A count that changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountChange {
    /// Name of the metric.
    pub metric: String,
    /// Change, as a share.
    pub change: f64,
}

/// The verdict about a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateVerdict {
    /// Changed for the worse, by the smallest effect or more.
    Worse,
    /// Changed for the better.
    Better,
    /// Changed, in a metric that is neither good nor bad.
    Changed,
    /// Changed for the worse, by less than the smallest effect.
    Slightly,
    /// Changed for the worse or the better as the compiler laid the builds out, which other layouts of the same code do not bear
    /// out.
    LayoutOnly,
    /// A change for the worse of the smallest effect is excluded at 98 %, for this case by itself.
    Harmless,
    /// Neither is shown.
    CannotTell,
    /// Runs of one side or both fail.
    Failed,
}
