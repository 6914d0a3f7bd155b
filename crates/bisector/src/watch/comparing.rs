//! Two neighbours of a line compared in runs of their own: first as the compiler lays them out, and if these runs do not
//! exclude what the line suggests, in other layouts of the same code, which alone decide then.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use anyhow::Result;
use bisection::watch::{COMPARED_LAYOUTS, PAIRS_MAX, PLAIN_PAIRS, Suspect, compared};
use records::{Record, Run};
use runner::End;

use super::line::{ComparedGap, LineEvent};
use super::{Adding, subject};
use crate::build::{Build, Built};
use crate::layouts::relink;
use crate::measurement::{Measurement, Repeats, Subject, experiment, measure_while};
use crate::range::Commit;

impl Adding<'_> {
    /// Compares what the line suggests, until it suggests nothing more. `None` if a signal asked knee to end.
    pub(super) fn compare_suspects(&mut self) -> Result<Option<()>> {
        while let Some((before, after, followed, suspect)) = self.state.next() {
            (self.tell)(&format!(
                "{after:.12} may change it by {:+.1} % (probability {:.0} %): it is compared with {before:.12}",
                100.0 * suspect.step.exp_m1(),
                100.0 * suspect.probability
            ));
            let Some(gap) = self.compare(&before, &after, suspect)? else { return Ok(None) };
            let gap = ComparedGap { followed, ..gap };
            let judged = self.state.judged(&gap);
            let said = match (&gap.failed, judged.is_changed) {
                (Some(why), _) => format!("not compared: {why}"),
                (None, true) => "confirmed".to_string(),
                (None, false) => "not confirmed: the host, or chance".to_string(),
            };
            (self.tell)(&format!("{after:.12}: {said}"));
            self.append(LineEvent::Compared(Box::new(gap)))?;
        }
        Ok(Some(()))
    }

    fn compare(
        &mut self,
        before: &str,
        after: &str,
        suspect: Suspect,
    ) -> Result<Option<ComparedGap>> {
        let mut gap = ComparedGap {
            before: before.to_string(),
            after: after.to_string(),
            at: jiff::Timestamp::now(),
            step: suspect.step,
            probability: suspect.probability,
            followed: 0,
            differences: Vec::new(),
            plain: 0,
            records: Vec::new(),
            no_layouts: None,
            failed: None,
        };
        let mut builds: Vec<Build> = Vec::new();
        for id in [before, after] {
            match self.build_point(id)? {
                Built::Done(build) => builds.push(build),
                Built::Interrupted => return Ok(None),
                Built::Failed(why) => {
                    gap.failed = Some(format!("{id:.12}: {why}"));
                    return Ok(Some(gap));
                }
            }
        }
        let commits = [before, after].map(|id| self.named(id));
        if self.request.build.is_none() {
            gap.no_layouts = Some("nothing is built".to_string());
        } else if !self.workshop.has_linked(&commits[1]) {
            gap.no_layouts = Some("the build links no program".to_string());
        }
        let plain = [subject("before", &builds[0]), subject("after", &builds[1])];
        if gap.no_layouts.is_none() {
            if self.pairs(&mut gap, &plain, PLAIN_PAIRS, "first")?.is_none() {
                return Ok(None);
            }
            if gap.failed.is_some()
                || compared(&gap.differences, gap.step, self.state.smallest).stop
            {
                return Ok(Some(gap));
            }
            (self.tell)(
                "building other layouts of both, since the difference may be of the layout alone",
            );
            let keys = [0, 1].map(|side: usize| Some(builds[side].key.clone()));
            let (pair, layouts) = ([&commits[0], &commits[1]], COMPARED_LAYOUTS);
            match relink(&self.workshop, pair, keys, layouts)? {
                Ok(Some(subjects)) => {
                    let blocks = PAIRS_MAX.div_ceil(COMPARED_LAYOUTS);
                    return Ok(self.pairs(&mut gap, &subjects, blocks, "layouts")?.map(|()| gap));
                }
                Ok(None) => return Ok(None),
                Err(why) => gap.no_layouts = Some(why),
            }
        }
        gap.differences.clear();
        Ok(self.pairs(&mut gap, &plain, PAIRS_MAX, "all")?.map(|()| gap))
    }

    fn named(&self, id: &str) -> Commit {
        let id = id.to_string();
        Commit { id, subject: String::new(), date: String::new(), parents: Vec::new() }
    }

    /// Runs pairs of subjects, each an earlier build and a later one, in blocks until they are decided. `None` if a signal
    /// asked knee to end.
    fn pairs(
        &mut self,
        gap: &mut ComparedGap,
        subjects: &[Subject],
        blocks: u32,
        part: &str,
    ) -> Result<Option<()>> {
        let is_plain = subjects.len() == 2;
        // A second comparison of a gap is no continuation of the first.
        let is_same = |one: &&ComparedGap| one.before == gap.before && one.after == gap.after;
        let time = self.state.compared.iter().filter(is_same).count() + 1;
        let title = format!("watch {:.12}..{:.12} {part} {time}", gap.before, gap.after);
        let repeats = Repeats::Times(analysis::blocks_at_most(blocks));
        let experiment = experiment(&self.request, subjects, repeats, &title)?;
        let (step, smallest) = (gap.step, self.state.smallest);
        let mut seen: Vec<Run> = Vec::new();
        let most = blocks as usize * subjects.len() / 2;
        let after = |record: &Record, run: &Run| {
            seen.push(run.clone());
            if !seen.len().is_multiple_of(subjects.len()) {
                return ControlFlow::Continue(());
            }
            let differences = in_pairs(record, &seen, subjects, &self.request.metric);
            let is_done = differences.len() >= most || compared(&differences, step, smallest).stop;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let Measurement { end, record } = measure_while(experiment, self.store, true, after)?;
        let (End::Complete, Some(record)) = (end, record) else { return Ok(None) };
        let differences = in_pairs(&record.record, &record.runs, subjects, &self.request.metric);
        gap.records.push(record.record.id);
        if differences.is_empty() {
            gap.failed =
                Some("no pair of runs counts: they fail, or the host disturbs them".to_string());
        }
        if is_plain {
            gap.plain = differences.len();
            gap.differences = differences;
        } else {
            gap.differences.extend(differences);
        }
        Ok(Some(()))
    }
}

/// Later less earlier for each pair of runs in a block, in the order of blocks and pairs. Runs that the host disturbed do not
/// count.
fn in_pairs(record: &Record, runs: &[Run], subjects: &[Subject], metric: &str) -> Vec<f64> {
    let mut logs: BTreeMap<(u32, &str), f64> = BTreeMap::new();
    for run in runs.iter().filter(|run| !run.placebo) {
        let Some(point) = record.points.get(run.point as usize) else { continue };
        if analysis::disturbance(record, point, run).is_some() {
            continue;
        }
        let Some(value) = run.value(metric).filter(|value| *value > 0.0) else { continue };
        logs.insert((run.block, &point.variant), value.ln());
    }
    let blocks = runs.iter().map(|run| run.block + 1).max().unwrap_or(0);
    let pair = |block: u32, pair: &[Subject]| {
        let log = |subject: &Subject| logs.get(&(block, subject.name.as_str())).copied();
        Some(log(&pair[1])? - log(&pair[0])?)
    };
    let of_block = |block| subjects.chunks_exact(2).filter_map(move |one| pair(block, one));
    (0..blocks).flat_map(of_block).collect()
}
