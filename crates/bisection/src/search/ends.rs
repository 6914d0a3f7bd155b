//! The ends of a search: whether they differ, before anything between them is tested, and whether that was luck.

use super::{Next, Search, Settings};
use crate::answer::{Answer, Ends, NotReproduced};
use crate::evidence::Pair;
use crate::posterior::Posterior;

/// Pairs of runs of the ends before their difference is judged.
const PAIRS_FIRST: u32 = 4;
/// Standard errors beyond which a change that is not sure yet is worth the most runs.
const NEARLY: f64 = 2.5;
/// The ends count as equal when their difference is below a line over the share of `ends_runs_max` that was run: it
/// begins at this share and rises by this number of standard errors for each further `ends_runs_max` (a triangular
/// test). A change that would show 4.7 standard errors at `ends_runs_max` is lost so once in thousands.
const HOPE_START: f64 = 0.4;
const HOPE_SLOPE: f64 = 2.0;
/// Standard errors below which a difference that was shown counts as lost: it was luck, or needs more runs of the ends.
const LOST: f64 = 1.5;
/// Standard errors that the sides must differ by, by all runs, before anything is blamed.
const SURE: f64 = 3.5;

impl Search {
    /// The ends until they are apart; `None` when they are.
    pub(super) fn verify(&self) -> Option<Next> {
        let done = self.builds()[0].runs.min(self.builds()[1].runs);
        if done < PAIRS_FIRST {
            return Some(self.pairs_of_ends(PAIRS_FIRST - done));
        }
        let ends = self.ends()?;
        let Settings { ends_errors, smallest, .. } = self.settings;
        let critical = with_few_runs(ends_errors, f64::from(ends.freedom)) * ends.error;
        if ends.difference.abs() > critical && ends.difference != 0.0 {
            return None;
        }
        let surely = with_few_runs(SURE, f64::from(ends.freedom)) * ends.error;
        if ends.difference.abs() + surely < smallest {
            let why = NotReproduced::Same;
            return Some(Next::Answer(Answer::NotReproduced { ends: Some(ends), why }));
        }
        let share = f64::from(self.runs()) / f64::from(self.settings.ends_runs_max.max(1));
        let hope = HOPE_SLOPE * (share - HOPE_START);
        let is_hopeless = ends.difference.abs() < hope * ends.error;
        let most = if is_hopeless { self.runs() } else { 2 * self.settings.ends_runs_max };
        let most = most.min(self.settings.runs_max.unwrap_or(u32::MAX));
        Some(self.more_of_ends(&ends, most, NotReproduced::NotShown))
    }

    /// Runs of both ends in turn.
    fn pairs_of_ends(&self, pairs: u32) -> Next {
        let [good, bad] = [0, 1].map(|end| self.builds()[end].commit);
        Next::Measure(vec![(good, pairs), (bad, pairs)])
    }

    /// More runs of the ends, or the answer that as many as allowed show no difference.
    fn more_of_ends(&self, ends: &Ends, most: u32, why: NotReproduced) -> Next {
        if self.runs() >= most {
            return Next::Answer(Answer::NotReproduced { ends: Some(*ends), why });
        }
        let left = most - self.runs();
        self.pairs_of_ends((ends.runs / 16).clamp(1, left.div_ceil(2)))
    }

    /// The most runs without a change that is sure: the more standard errors show, the longer it may still become sure.
    fn unsure_runs_most(&self, errors: f64) -> u32 {
        let times = match errors {
            errors if errors < LOST => 1,
            errors if errors < NEARLY => 3,
            _ => 5,
        };
        times * self.settings.ends_runs_max
    }

    /// Whether all runs together show a change.
    pub(super) fn is_sure(&self, posterior: &Posterior) -> bool {
        let (_, freedom) = self.evidence.variance();
        posterior.errors() > with_few_runs(SURE, f64::from(freedom))
    }

    /// What to do about a difference that may have been luck: nothing while it may still show.
    pub(super) fn doubted(&self, posterior: &Posterior, is_named: bool) -> Option<Next> {
        let ends = self.ends()?;
        // Two builds may differ by their layouts alone. That is no luck, so the search goes on.
        let of_ends = (ends.difference.abs() / ends.error).min(NEARLY - 0.1);
        let errors = posterior.errors().max(of_ends);
        let most = self.unsure_runs_most(errors);
        let is_lost = errors < LOST || self.runs() >= most;
        (is_lost || is_named).then(|| match self.more_of_ends(&ends, most, NotReproduced::Lost) {
            Next::Measure(wanted) => self.within_budget(posterior, wanted),
            answer => answer,
        })
    }

    /// The difference of the ends; `None` without two runs of each.
    pub fn ends(&self) -> Option<Ends> {
        let pairs: Vec<Pair> = self.evidence.pairs().collect();
        let weight: f64 = pairs.iter().map(Pair::weight).sum();
        let runs: u32 = pairs.iter().flat_map(|pair| pair.ends).map(|end| end.runs).sum();
        if runs < 4 {
            return None;
        }
        let (variance, freedom) = self.evidence.variance();
        let difference =
            pairs.iter().map(|pair| pair.weight() * pair.difference()).sum::<f64>() / weight;
        let error = (variance / weight).sqrt();
        Some(Ends { difference, error, deviation: variance.sqrt(), runs, freedom })
    }
}

/// The quantile of Student's t that is as rare as `errors` of a normal distribution: Cornish and Fisher's
/// expansion.
fn with_few_runs(errors: f64, freedom: f64) -> f64 {
    let square = errors * errors;
    let first = (square + 1.0) / (4.0 * freedom);
    let second = (5.0 * square * square + 16.0 * square + 3.0) / (96.0 * freedom * freedom);
    errors * (1.0 + first + second)
}
