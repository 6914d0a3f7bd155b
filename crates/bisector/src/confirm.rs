//! Before a commit is blamed: an independent comparison with its parent, and of the tip with and without it. These
//! runs took no part in the search, which chose the commit because its runs looked worst.

use analysis::{ALPHA, Arm, CompareOptions, Comparison, Contrast, Discards, Verdict, compare};
use anyhow::{Context, Result};
use bisection::{Answer, COMPARED_MAX};
use host::job_control::RunningSince;
use records::{Opened, Record, Run};
use runner::End;
use schemars::JsonSchema;
use serde::Serialize;
use store::Store;

use crate::build::Built;
use crate::log::{Event, StepRuns};
use crate::measurement::{
    Blocks, Measurement, Repeats, Subject, Values, experiment, measure_while, values,
};
use crate::patience::Watch;
use crate::range::Source;
use crate::session::{Progress, Session};

/// A change leaves more where the rest is this number of standard errors from nothing, and this share of the whole.
const LEFT_ERRORS: f64 = 3.0;
const LEFT_LEAST: f64 = 0.2;

/// A comparison of two builds.
pub struct Confirmation {
    /// What was compared.
    pub what: String,
    pub record: Opened,
    pub comparison: Comparison,
    pub confirmed: Confirmed,
}

/// The time of a comparison.
pub(crate) struct Took {
    pub seconds: f64,
    /// Waited for a quiet host, beside.
    pub waited_s: f64,
}

impl Confirmed {
    fn word(self) -> &'static str {
        match self {
            Confirmed::Yes => "confirmed",
            Confirmed::No => "not confirmed",
            Confirmed::CannotTell => "not decided",
            Confirmed::Disturbed => "disturbed by the host",
        }
    }
}

/// A change beside the difference of the ends, as logarithms with standard errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Explained {
    /// What the change makes, as a logarithm.
    pub change: f64,
    /// Standard error of `change`.
    pub error: f64,
    /// What is between the ends, as a logarithm.
    pub ends: f64,
    /// Standard error of `ends`.
    pub ends_error: f64,
}

impl Explained {
    /// Whether more than the change is between the ends: what it leaves is surely not nothing, and no small part.
    pub fn leaves_more(&self) -> bool {
        let left = self.ends - self.change;
        let error = self.error.hypot(self.ends_error);
        left.abs() > LEFT_ERRORS * error && left.abs() > LEFT_LEAST * self.ends.abs()
    }
}

/// What a comparison says about a blamed change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confirmed {
    /// They differ, in the direction of the ends.
    Yes,
    /// They are the same, or differ in the other direction.
    No,
    /// As many blocks as are allowed do not decide.
    CannotTell,
    /// The host disturbed one side more than the other, or left too few blocks undisturbed.
    Disturbed,
}

impl Session {
    /// Compares a change that an answer blames with its first parent. `None` if it cannot be compared or a signal asked
    /// knee to end.
    pub fn compare_with_parent(
        &mut self,
        answer: &Answer,
        change: usize,
        store: &Store,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<Confirmation>> {
        let parent = self.parent(change);
        for commit in [parent, change] {
            if self.build_for_comparison(commit, tell)? != Some(true) {
                return Ok(None);
            }
        }
        let subjects = [self.subject(parent), self.subject(change)];
        let [old, new] = [&subjects[0].name, &subjects[1].name];
        let what = match self.request.source {
            Source::Git { .. } => format!("{new} against its parent {old}"),
            Source::Steps { .. } => format!("{new} against {old} before it"),
        };
        let is_higher = answer.raises(change).unwrap_or_else(|| self.is_higher());
        self.compare(&what, &subjects, is_higher, store, tell)
    }

    /// Takes the runs of a comparison with the parent as evidence: the search goes on with them.
    pub fn take_comparison(&mut self, change: usize, confirmation: &Confirmation) -> Result<()> {
        let parent = self.parent(change);
        let mut runs = Vec::new();
        for commit in [parent, change] {
            let name = self.subject(commit).name;
            let (record, metric) = (&confirmation.record, &self.request.metric);
            if let Values::Logs(logs) = values(record, &name, metric, Blocks::Undisturbed)? {
                runs.push(StepRuns { commit, layout: 0, logs });
            }
        }
        let id = confirmation.record.record.id.clone();
        self.take_further(id, runs)
    }

    /// How much of the difference of the ends a comparison explains; `None` where that is not known.
    pub fn explained(&self, confirmation: &Confirmation) -> Option<Explained> {
        let ends = self.search()?.ends()?;
        let contrast = confirmation.contrast()?;
        let (change, (low, high)) = (contrast.change?, contrast.interval?);
        let [change, low, high] = [change, low, high].map(f64::ln_1p);
        Some(Explained {
            change,
            error: (high - low) / 4.0,
            ends: ends.difference,
            ends_error: ends.error,
        })
    }

    pub(crate) fn parent(&self, change: usize) -> usize {
        self.range.commits[change].parents.first().copied().unwrap_or(0)
    }

    /// Compares the bad end with itself without a change that an answer blames. The inner error says why it cannot be
    /// taken back there.
    pub fn compare_without(
        &mut self,
        answer: &Answer,
        change: usize,
        store: &Store,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Result<Option<Confirmation>, String>> {
        let last = self.range.changes();
        let parent = self.parent(change);
        let commits = &self.range.commits;
        let built =
            self.workshop().build_without(&commits[last], &commits[change], &commits[parent]);
        let folder = match built? {
            Built::Done(build) => build.folder,
            Built::Failed(why) => return Ok(Err(why)),
            Built::Interrupted => return Ok(Ok(None)),
        };
        let tip = self.subject(last);
        let name = format!("{}-without", tip.name);
        let without = Subject::new(name, &folder);
        let what = format!("{} without {}", tip.name, commits[change].short());
        // Taking the change back goes the other way.
        let is_higher = answer.raises(change).unwrap_or_else(|| self.is_higher());
        self.compare(&what, &[tip, without], !is_higher, store, tell).map(Ok)
    }

    /// Whether the metric is higher at the bad end.
    fn is_higher(&self) -> bool {
        let ends = self.search().and_then(bisection::Search::ends);
        ends.is_some_and(|ends| ends.difference > 0.0)
    }

    /// Compares two builds until that is decided. A comparison that the host disturbed is made again, as long as knee may
    /// wait for a quiet moment.
    fn compare(
        &mut self,
        what: &str,
        subjects: &[Subject],
        is_higher: bool,
        store: &Store,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<Confirmation>> {
        for times in 1.. {
            let compared = self.compare_once(what, subjects, is_higher, store, tell)?;
            let Some(confirmation) = compared else { return Ok(None) };
            let is_last = times == COMPARED_MAX || self.patience_s() == 0.0;
            if confirmation.confirmed != Confirmed::Disturbed || is_last {
                return Ok(Some(confirmation));
            }
            let discards = &confirmation.comparison.discards;
            tell(&Progress::Disturbed {
                left_out: discards.discarded.len(),
                blocks: discards.blocks,
            });
        }
        Ok(None)
    }

    fn compare_once(
        &mut self,
        what: &str,
        subjects: &[Subject],
        is_higher: bool,
        store: &Store,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<Confirmation>> {
        let name = format!("bisect {}: {what}", self.bisection.id);
        let experiment =
            experiment(self.workshop().permitted()?, subjects, Repeats::UntilDecided, &name)?;
        let since = RunningSince::now();
        let mut watch = Watch::new(self.patience_s(), subjects.len());
        let after = |record: &Record, run: &Run| {
            watch.after(record, run, &mut |wait| tell(&Progress::Waiting(wait)))
        };
        let Measurement { end, record } = measure_while(experiment, store, true, after)?;
        if end == End::Interrupted {
            return Ok(None);
        }
        let record = record.context("no run of the comparison was kept")?;
        let names = subjects.iter().map(|subject| subject.name.as_str());
        let arms: Vec<Arm> =
            names.map(|name| Arm { name, record: &record, variant: name }).collect();
        let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
        let confirmed = confirmed(&comparison, is_higher, record.record.experiment.blocks());
        let waited_s = watch.waited_s();
        let seconds = since.elapsed().as_secs_f64() - waited_s;
        self.note_comparison(&record, what, confirmed.word(), Took { seconds, waited_s })?;
        Ok(Some(Confirmation { what: what.to_string(), record, comparison, confirmed }))
    }

    /// Logs what a comparison said, its runs and its time.
    pub(crate) fn note_comparison(
        &mut self,
        record: &Opened,
        what: &str,
        said: &str,
        Took { seconds, waited_s }: Took,
    ) -> Result<()> {
        let event = Event::Confirmed {
            what: what.to_string(),
            record: Some(record.record.id.clone()),
            text: format!("{what}: {said}"),
            runs: record.runs.len() as u32,
            seconds,
            waited_s,
        };
        self.append(&event)?;
        self.take_comparison_event(event);
        Ok(())
    }
}

impl Confirmation {
    fn contrast(&self) -> Option<&Contrast> {
        contrast(&self.comparison)
    }
}

/// The contrast of the two builds by the metric that decides.
fn contrast(comparison: &Comparison) -> Option<&Contrast> {
    let metric = comparison.cells.first()?.metrics.first()?;
    metric.contrasts.first()
}

/// What a comparison says that wanted this number of undisturbed blocks at most.
fn confirmed(comparison: &Comparison, is_higher: bool, wanted: u32) -> Confirmed {
    let Some(contrast) = contrast(comparison) else { return Confirmed::CannotTell };
    match (&contrast.verdict, contrast.change) {
        (
            Verdict::Better { .. }
            | Verdict::Worse { .. }
            | Verdict::More { .. }
            | Verdict::Less { .. },
            Some(change),
        ) if (change > 0.0) == is_higher => Confirmed::Yes,
        (Verdict::CannotTell { .. } | Verdict::NotInterleaved | Verdict::Unjudged { .. }, _) => {
            undecided(&comparison.discards, wanted)
        }
        _ => Confirmed::No,
    }
}

/// Why a comparison gave no verdict.
fn undecided(discards: &Discards, wanted: u32) -> Confirmed {
    let counted = discards.blocks - discards.discarded.len();
    let is_short = !discards.discarded.is_empty() && counted < wanted as usize;
    let is_uneven = discards.imbalance_p.is_some_and(|p| p < ALPHA);
    if is_short || is_uneven { Confirmed::Disturbed } else { Confirmed::CannotTell }
}

#[cfg(test)]
mod tests {
    use analysis::{DiscardedBlock, Discards};

    use super::{Confirmed, Explained, undecided};

    #[test]
    fn a_comparison_without_enough_undisturbed_blocks_is_no_evidence() {
        let discards = |blocks: usize, left_out: u32, imbalance_p| {
            let reason = "the hypervisor took 5.0 % of the CPUs used";
            let block =
                |block| DiscardedBlock { cell: 0, block, run: block, reason: reason.into() };
            let discarded = (0..left_out).map(block).collect();
            Discards { blocks, discarded, imbalance_p, ..Discards::default() }
        };
        let check = |discards, expected| assert_eq!(undecided(&discards, 60), expected);
        check(discards(60, 0, None), Confirmed::CannotTell);
        check(discards(70, 10, Some(0.7)), Confirmed::CannotTell);
        check(discards(80, 21, Some(0.7)), Confirmed::Disturbed);
        check(discards(70, 10, Some(0.01)), Confirmed::Disturbed);
    }

    #[test]
    fn a_change_that_explains_half_leaves_more() {
        let explained = |change, error| Explained { change, error, ends: 0.1, ends_error: 0.005 };
        assert!(explained(0.05, 0.005).leaves_more());
        // As much as can be told, or so little that it hardly matters.
        assert!(!explained(0.05, 0.02).leaves_more() && !explained(0.095, 0.0001).leaves_more());
        // Changes that cancel in part: the ends show less than the change.
        assert!(explained(0.2, 0.005).leaves_more());
    }
}
