//! What a session knows: the events of its log, taken in as they happen or as they are read again.

use anyhow::{Result, bail, ensure};
use bisection::{Costs, Search};

use super::Session;
use crate::build::Build;
use crate::log::{Event, Limits, StepRuns};
use crate::reads::UNREAD;

impl Session {
    /// Takes in an event of the log, as when it was written.
    pub(super) fn replay(&mut self, event: Event) -> Result<()> {
        // What to do next was asked after each step, and the search remembers what it decided then.
        let is_of_step =
            matches!(event, Event::Built { .. } | Event::Skipped { .. } | Event::Step { .. });
        if let Some(search) = self.search.as_mut().filter(|_| is_of_step && !self.is_within_step) {
            search.next_step();
            self.is_within_step = true;
        }
        match event {
            Event::Built { commit, key, seconds } => {
                self.check_number(commit)?;
                self.take_build(commit, key, seconds);
            }
            Event::Skipped { commit, why } => {
                self.check_number(commit)?;
                self.take_skip(commit, why);
            }
            Event::Candidates { unread, .. } => self.take_candidates(&unread)?,
            Event::Step { runs, seconds, disturbed, is_of_comparison, .. } => {
                for step in &runs {
                    self.check_number(step.commit)?;
                }
                if is_of_comparison {
                    self.take_compared(&runs);
                } else {
                    self.take_step(&runs, seconds, disturbed);
                }
                self.is_within_step = false;
            }
            Event::Begun { .. } => bail!("the log of {} begins twice", self.bisection.id),
            Event::Foreseen { forecast } => self.forecast = Some(forecast),
            event @ Event::Confirmed { .. } => self.take_comparison_event(event),
            Event::Limited(limits) => self.take_limits(limits),
            Event::Answered { .. } => (),
        }
        Ok(())
    }

    pub(super) fn check_number(&self, commit: usize) -> Result<()> {
        let id = &self.bisection.id;
        ensure!(commit < self.range.commits.len(), "the log of {id} names a commit of no range");
        Ok(())
    }

    pub(super) fn take_build(&mut self, commit: usize, key: String, seconds: f64) {
        let folder = self.workshop.place(&self.range.commits[commit]);
        self.build_seconds.push(seconds);
        if let Some(search) = &mut self.search {
            search.built(commit, &key);
        }
        self.built.insert(commit, Build { folder, key, seconds });
    }

    pub(super) fn take_skip(&mut self, commit: usize, why: String) {
        if let Some(search) = &mut self.search {
            search.skip(commit);
        }
        self.unbuildable.insert(commit, why);
    }

    pub(super) fn take_candidates(&mut self, unread: &[usize]) -> Result<()> {
        let mut weights = vec![1.0; self.range.commits.len()];
        for commit in unread {
            self.check_number(*commit)?;
            weights[*commit] = UNREAD;
        }
        let settings = self.request.settings.clone();
        let mut search = Search::new(self.range.graph(), weights, settings);
        for (commit, build) in &self.built {
            search.built(*commit, &build.key);
        }
        self.range.skipped.iter().for_each(|commit| search.skip(*commit));
        self.search = Some(search);
        Ok(())
    }

    pub(super) fn take_step(&mut self, runs: &[StepRuns], seconds: f64, disturbed: u32) {
        if let Some(search) = &mut self.search {
            search.begin_step();
        }
        self.take_runs(runs);
        if runs.len() > 1 {
            self.blocks += runs.iter().map(|step| step.logs.len()).max().unwrap_or(0) as u32;
            self.disturbed += disturbed;
        }
        self.step_runs += runs.iter().map(|step| step.logs.len()).sum::<usize>();
        self.step_seconds += seconds;
        let build = typical(&self.build_seconds);
        let run = self.step_seconds / self.step_runs.max(1) as f64;
        let spent = self.seconds_spent();
        let Some(search) = &mut self.search else { return };
        search.set_costs(Costs { run: run.max(1e-3), build });
        if self.request.budget_s.is_some_and(|budget| spent >= budget) {
            search.set_runs_max(Some(search.runs()));
        }
    }

    /// Runs as evidence for the search, of a step that has begun.
    fn take_runs(&mut self, runs: &[StepRuns]) {
        let Some(search) = &mut self.search else { return };
        for step in runs {
            step.logs.iter().for_each(|log| search.measured_in(step.layout, step.commit, *log));
        }
        self.done.push(runs.to_vec());
        self.steps += 1;
    }

    /// Runs of a comparison: they are beyond what the search may take.
    fn take_compared(&mut self, runs: &[StepRuns]) {
        let number = runs.iter().map(|step| step.logs.len()).sum::<usize>() as u32;
        if let Some(search) = &mut self.search {
            search.begin_comparison(number);
        }
        self.evidence_of_comparisons += number;
        self.take_runs(runs);
    }

    /// What a comparison said and took.
    pub(crate) fn take_comparison_event(&mut self, event: Event) {
        if let Event::Confirmed { text, runs, seconds, waited_s, .. } = event {
            self.compared.push(text);
            self.compared_runs += runs;
            self.compared_seconds += seconds;
            self.waited_s += waited_s;
        }
    }

    /// Limits that replace earlier ones.
    pub(super) fn take_limits(&mut self, limits: Limits) {
        let Limits { budget_s, wait_s, runs_max } = limits;
        let request = &mut self.request;
        request.budget_s = budget_s.or(request.budget_s);
        request.wait_s = wait_s.or(request.wait_s);
        request.settings.runs_max = runs_max.or(request.settings.runs_max);
        let runs_max = request.settings.runs_max.map(|runs| runs + self.evidence_of_comparisons);
        if let Some(search) = &mut self.search {
            search.set_runs_max(runs_max);
        }
    }

    /// Seconds of builds, steps and comparisons so far.
    pub fn seconds_spent(&self) -> f64 {
        self.build_seconds.iter().sum::<f64>() + self.step_seconds + self.compared_seconds
    }

    /// Takes in runs that the search did not ask for, and logs them.
    pub(crate) fn take_further(&mut self, record: String, runs: Vec<StepRuns>) -> Result<()> {
        let (record, is_of_comparison) = (Some(record), true);
        let (seconds, disturbed) = (0.0, 0);
        let event =
            Event::Step { record, runs: runs.clone(), seconds, disturbed, is_of_comparison };
        self.log.append(&event)?;
        self.take_compared(&runs);
        Ok(())
    }
}

/// What one more build takes: the lower median, since the first may compile what later ones find compiled.
fn typical(seconds: &[f64]) -> f64 {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}
