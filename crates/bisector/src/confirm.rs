//! Before a commit is blamed: an independent comparison with its parent, and of the tip with and without it. These
//! runs took no part in the search, which chose the commit because its runs looked worst.

use analysis::{Arm, CompareOptions, Comparison, Verdict, compare};
use anyhow::{Context, Result};
use records::Opened;
use runner::End;
use serde::Serialize;
use store::Store;

use crate::log::Event;
use crate::measurement::{Measurement, Repeats, Subject, experiment, measure};
use crate::session::{Progress, Session};
use crate::workshop::Built;

/// A comparison of two builds.
pub struct Confirmation {
    /// What was compared.
    pub what: String,
    pub record: Opened,
    pub comparison: Comparison,
    pub confirmed: Confirmed,
}

/// What a comparison says about a blamed change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Confirmed {
    /// They differ, in the direction of the ends.
    Yes,
    /// They are the same, or differ in the other direction.
    No,
    CannotTell,
}

impl Session {
    /// Compares a commit with its first parent. `None` if it cannot be compared or a signal asked knee to end.
    pub fn compare_with_parent(
        &mut self,
        change: usize,
        store: &Store,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<Confirmation>> {
        let parent = self.range.commits[change].parents.first().copied().unwrap_or(0);
        for commit in [parent, change] {
            if self.build_for_comparison(commit, tell)? != Some(true) {
                return Ok(None);
            }
        }
        let subjects = [self.subject(parent), self.subject(change)];
        let [old, new] = [&subjects[0].name, &subjects[1].name];
        let what = format!("{new} against its parent {old}");
        self.compare(&what, &subjects, self.is_higher(), store)
    }

    /// Compares the bad end with itself without a change. The inner error says why it cannot be taken back there.
    pub fn compare_without(
        &mut self,
        change: usize,
        store: &Store,
    ) -> Result<Result<Option<Confirmation>, String>> {
        let last = self.range.changes();
        let parent = self.range.commits[change].parents.first().copied().unwrap_or(0);
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
        let without = Subject { name, folder, step: None };
        let what = format!("{} without {}", tip.name, commits[change].short());
        // Taking the change back goes the other way.
        self.compare(&what, &[tip, without], !self.is_higher(), store).map(Ok)
    }

    /// Whether the metric is higher at the bad end.
    fn is_higher(&self) -> bool {
        let ends = self.search().and_then(bisection::Search::ends);
        ends.is_some_and(|ends| ends.difference > 0.0)
    }

    fn compare(
        &mut self,
        what: &str,
        subjects: &[Subject],
        is_higher: bool,
        store: &Store,
    ) -> Result<Option<Confirmation>> {
        let name = format!("bisect {}: {what}", self.bisection.id);
        let experiment = experiment(&self.request, subjects, Repeats::UntilDecided, &name)?;
        let Measurement { end, record } = measure(experiment, store, true)?;
        if end == End::Interrupted {
            return Ok(None);
        }
        let record = record.context("no run of the comparison was kept")?;
        let names = subjects.iter().map(|subject| subject.name.as_str());
        let arms: Vec<Arm> =
            names.map(|name| Arm { name, record: &record, variant: name }).collect();
        let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
        let confirmed = confirmed(&comparison, is_higher);
        let text = format!("{what}: {confirmed:?}");
        let id = Some(record.record.id.clone());
        self.append(&Event::Confirmed { what: what.to_string(), record: id, text })?;
        Ok(Some(Confirmation { what: what.to_string(), record, comparison, confirmed }))
    }
}

fn confirmed(comparison: &Comparison, is_higher: bool) -> Confirmed {
    let metric = comparison.cells.first().and_then(|cell| cell.metrics.first());
    let Some(contrast) = metric.and_then(|metric| metric.contrasts.first()) else {
        return Confirmed::CannotTell;
    };
    match (&contrast.verdict, contrast.change) {
        (
            Verdict::Better { .. }
            | Verdict::Worse { .. }
            | Verdict::More { .. }
            | Verdict::Less { .. },
            Some(change),
        ) if (change > 0.0) == is_higher => Confirmed::Yes,
        (Verdict::CannotTell { .. } | Verdict::NotInterleaved | Verdict::Unjudged { .. }, _) => {
            Confirmed::CannotTell
        }
        _ => Confirmed::No,
    }
}
