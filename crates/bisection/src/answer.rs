//! What a search comes to.

use schemars::JsonSchema;
use serde::Serialize;

use crate::series::Bracket;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// The ends do not differ, as far as was measured.
    NotReproduced {
        /// The difference between the ends; null if they are one build.
        ends: Option<Ends>,
        /// Why they count as equal.
        why: NotReproduced,
    },
    /// One change.
    Named {
        /// Number of the change in the range.
        change: usize,
        /// Probability that it is the culprit, from all runs.
        probability: f64,
    },
    /// The culprit is among these with the wanted probability; most probable first.
    Set {
        /// Numbers of the changes in the range, with the probability of each.
        changes: Vec<(usize, f64)>,
        /// Why one could not be named.
        why: Unresolved,
    },
    /// More than one change, each between two tested commits.
    Several {
        /// Where the changes are.
        brackets: Vec<Bracket>,
    },
}

impl Answer {
    /// The changes that the answer names.
    pub fn blamed(&self) -> Vec<usize> {
        match self {
            Answer::Named { change, .. } => vec![*change],
            Answer::Several { brackets } => {
                let is_one = |bracket: &&Bracket| bracket.steps == 1;
                brackets.iter().filter(is_one).map(|bracket| bracket.with).collect()
            }
            Answer::Set { .. } | Answer::NotReproduced { .. } => Vec::new(),
        }
    }

    /// The size of a change, of which other layouts must show half: what the comparison with its parent showed. For a change
    /// that is alone, no more than the ends differ by, since the layout of its build may have made it look larger.
    pub fn expected(&self, compared: f64, ends: f64) -> f64 {
        let is_alone = matches!(self, Answer::Named { .. });
        if is_alone && ends.abs() < compared.abs() { ends } else { compared }
    }

    /// Whether one of several changes raises the metric. `None` for a change that is alone: the ends tell.
    pub fn raises(&self, change: usize) -> Option<bool> {
        let Answer::Several { brackets } = self else { return None };
        let own = brackets.iter().find(|bracket| bracket.with == change)?;
        Some(own.size > 0.0)
    }
}

/// Why the ends count as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotReproduced {
    /// Both ends are one build.
    EqualBuilds,
    /// The difference is surely below the smallest that matters.
    Same,
    /// No difference was shown by the most runs allowed.
    NotShown,
    /// The ends differed at first, by luck: with the runs of the search they do not.
    Lost,
}

/// Why one change could not be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unresolved {
    /// The commits between cannot be built or run.
    Untestable,
    /// More runs would tell too little: builds differ by more than the change does.
    Futile,
    /// The time or the runs that the user allows are used up.
    Budget,
    /// As many runs were made as the longest searches take at this distance of the ends.
    Bound,
    /// There is more than one change, within what one merge brought.
    SeveralOnBranches,
}

/// The difference between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ends {
    /// Bad minus good, as a logarithm, with its standard error.
    pub difference: f64,
    /// Standard error of the difference, as a logarithm.
    pub error: f64,
    /// Standard deviation of a run.
    pub deviation: f64,
    /// Runs of both.
    pub runs: u32,
    /// Degrees of freedom of the standard error.
    pub freedom: u32,
}
