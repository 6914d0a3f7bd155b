//! One line for each step of a bisection.

use std::f64::consts::LN_2;

use bisection::{Posterior, Search};
use host::counted;

use crate::range::Range;

/// How far a search is.
#[derive(Clone, Debug)]
pub struct Left {
    /// Changes that the culprit is among with the wanted probability.
    pub changes: usize,
    /// The most probable change and its probability.
    pub likely: (usize, f64),
    /// Runs of the search that are still to come, on average; `None` if it has its answer.
    pub runs: Option<f64>,
}

impl Left {
    pub fn new(search: &Search, posterior: &Posterior, has_answer: bool) -> Option<Left> {
        let mut changes = search.probabilities(posterior);
        changes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let likely = *changes.first()?;
        let (mut sum, mut size) = (0.0, 0);
        while size < changes.len() && sum < search.settings().confidence {
            sum += changes[size].1;
            size += 1;
        }
        let entropy: f64 = changes.iter().filter(|(_, p)| *p > 0.0).map(|(_, p)| -p * p.ln()).sum();
        // As in the forecast: a run tells an eighth of the squared distance, and 20 is for the confidence.
        let distance = posterior.distance().clamp(1e-3, 2.5);
        let open = (entropy + 20_f64.ln() * entropy.min(1.0)).max(0.0);
        let by_noise = 8.0 * open / distance.powi(2);
        // Each halving takes the fewest runs of a step.
        let by_halving = (entropy / LN_2).ceil() * f64::from(search.settings().runs_min);
        let runs = (!has_answer).then_some(by_noise.max(by_halving));
        Some(Left { changes: size, likely, runs })
    }

    /// `97 left, most likely 8d1c0a91b2c3 12 %, about 40 more runs`
    pub fn text(&self, range: &Range) -> String {
        let (change, p) = self.likely;
        let commit = range.commits[change].short();
        let runs = self.runs.map(|runs| counted(runs.round().max(1.0) as usize, "run"));
        let more = runs.map(|runs| format!(", about {runs} more")).unwrap_or_default();
        format!("{} left, most likely {commit} {:.0} %{more}", self.changes, 100.0 * p)
    }
}
