//! The smallest slowdown that matters, learned: what this runner can show, by runs of the base against itself.

use std::ops::ControlFlow;

use analysis::{Arm, CompareOptions, compare};
use anyhow::Result;
use host::job_control::RunningSince;
use records::Opened;

use super::answer::LearnedEffect;
use super::{ALPHA, Answered, Gating, could_see, spent_s};
use crate::Request;
use crate::measurement::{Repeats, Subject, experiment_of_cases};

/// The name of the base, the second time.
const AGAIN: &str = "again";

/// Blocks in which the base runs against itself, twice each case.
const BLOCKS: u32 = 8;

/// No smaller slowdown is looked for, however quiet the runner is.
const LEAST: f64 = 0.01;

/// This share of the cases shows what is learned; noisier ones may stay open.
const CASES: f64 = 0.8;

/// So many cases show what most show.
const SAMPLE: usize = 20;

/// Blocks of a case, and runs whose mean is a value, at most.
const MOST: (usize, u32) = (60, 16);

/// Runs of the base against itself end after this share of the budget, if at least two blocks are done.
const SHARE: f64 = 0.25;

impl Gating<'_> {
    /// Learns the smallest slowdown that matters, then measures.
    pub(super) fn learn_and_measure(
        &mut self,
        cases: &[String],
        budget_s: f64,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Answered> {
        let sample = spread_over(cases);
        let Some(record) = self.against_itself(&sample, budget_s)? else { return Ok(None) };
        let seconds = spent_s(&record);
        let left_s = (budget_s - seconds).max(0.0);
        let smallest_effect = self.learned(&record, cases.len().max(1), left_s)?;
        tell(&format!("a slowdown of {:.1} % can be told here", 100.0 * smallest_effect));
        self.request = self.request.clone().map(|one| Request { smallest_effect, ..one });
        let answered = self.measure(cases, left_s, tell)?;
        Ok(answered.map(|(mut answer, decided)| {
            let runs = record.runs.len();
            answer.learned = Some(LearnedEffect { runs, seconds });
            answer.runs += runs;
            answer.records.insert(0, record.record.id.clone());
            (answer, decided)
        }))
    }

    /// Runs the base against itself. `None` if a signal asked knee to end.
    fn against_itself(&self, cases: &[String], budget_s: f64) -> Result<Option<Opened>> {
        let base = self.subjects()?.swap_remove(0);
        let again = Subject { name: AGAIN.to_string(), ..base.clone() };
        let title = format!("gate {}, the base against itself", self.base.short());
        let (request, times) = (&self.request, Repeats::Times(BLOCKS));
        let experiment = experiment_of_cases(request, &[base, again], cases, times, &title)?;
        let since = RunningSince::now();
        self.finished_or_measured(experiment, |_, run| {
            let is_enough = run.block > 1 && since.elapsed().as_secs_f64() > SHARE * budget_s;
            if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    /// The smallest slowdown that runs of this many seconds tell in so many cases.
    fn learned(&self, record: &Opened, cases: usize, left_s: f64) -> Result<f64> {
        let arms = ["base", AGAIN].map(|name| Arm { name, record, variant: name });
        let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
        let cells = cases as f64;
        let run_s = spent_s(record) / record.runs.len().max(1) as f64;
        let within = affordable_round(left_s / run_s / 2.0 / cells);
        let level = ALPHA / 2.0 / cells;
        let metric = &self.request.metric;
        let seen = comparison.cells.iter().map(|cell| could_see(cell, metric, within, level));
        Ok(most_show(seen.collect()))
    }
}

/// Some of the cases from all over their list.
fn spread_over(cases: &[String]) -> Vec<String> {
    cases.iter().step_by(cases.len().div_ceil(SAMPLE).max(1)).cloned().collect()
}

/// How many blocks of a case, of how many runs each, that many pairs of runs make.
fn affordable_round(pairs: f64) -> (usize, u32) {
    let (blocks, runs) = MOST;
    let blocks = (pairs as usize).clamp(BLOCKS as usize, blocks);
    let runs = (pairs / blocks as f64).clamp(1.0, f64::from(runs));
    (blocks, runs as u32)
}

/// The smallest slowdown that most cases show, to a tenth of a percent above. Cases that show nothing are the noisiest.
fn most_show(seen: Vec<Option<f64>>) -> f64 {
    let mut seen: Vec<f64> = seen.into_iter().map(|seen| seen.unwrap_or(f64::INFINITY)).collect();
    seen.sort_by(f64::total_cmp);
    let at = (CASES * seen.len() as f64).ceil() as usize;
    let shown = seen.get(at.saturating_sub(1)).copied().filter(|shown| shown.is_finite());
    // Beyond doubled time, noise is no reason to let a case pass.
    let shown = shown.unwrap_or(1.0).clamp(LEAST, 1.0);
    (1000.0 * shown - 1e-6).ceil() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::{affordable_round, most_show, spread_over};

    #[test]
    fn most_cases_show_what_is_learned() {
        let check = |seen: &[f64], expected: f64| {
            let seen = seen.iter().map(|seen| seen.is_finite().then_some(*seen)).collect();
            assert!((most_show(seen) - expected).abs() < 1e-9, "{expected}");
        };
        check(&[0.02, 0.0111, 0.03, 0.04, 0.5], 0.04);
        check(&[0.0123], 0.013);
        check(&[0.002, 0.003], 0.01);
        check(&[0.02, f64::INFINITY], 1.0);
        check(&[], 1.0);
    }

    #[test]
    fn a_few_of_many_cases_show_it() {
        let sample = |n: usize| {
            let cases: Vec<String> = (0..n).map(|case| case.to_string()).collect();
            spread_over(&cases)
        };
        assert_eq!([0, 1, 20, 300].map(|n| sample(n).len()), [0, 1, 20, 20]);
        assert_eq!(sample(300)[19], "285");
        assert_eq!(sample(21).len(), 11);
    }

    #[test]
    fn the_budget_makes_blocks_first_and_then_means() {
        assert_eq!(affordable_round(3.0), (8, 1));
        assert_eq!(affordable_round(30.9), (30, 1));
        assert_eq!(affordable_round(250.0), (60, 4));
        assert_eq!(affordable_round(f64::INFINITY), (60, 16));
    }
}
