//! Two neighbours of a line compared in runs of their own: first as the compiler lays them out, and once the evidence is worth
//! it, in other layouts of the same code.

use std::ops::ControlFlow;

use anyhow::Result;
use bisection::watch::{COMPARED_LAYOUTS, LAYOUTS_A_STEP, STEP_PAIRS};
use records::{Opened, Record, Run};
use runner::End;

use super::events::{ComparedGap, LineEvent, PairOfRuns};
use super::line::Wanted;
use super::values::{experiment_of, logs};
use super::{Adding, subject};
use crate::build::{Build, Built};
use crate::layouts::relink;
use crate::measurement::{Measurement, Repeats, Subject, measure_while};
use crate::range::Commit;

/// Both builds of a comparison, as they can be run.
struct Neighbours {
    commits: [Commit; 2],
    builds: [Build; 2],
    plain: [Subject; 2],
    /// An older one and a newer one for each other layout, once they are built.
    layouts: Option<Vec<Subject>>,
    /// Steps in which no pair counted.
    empty_steps: u32,
}

/// A comparison ends after so many steps without a pair that counts: its runs fail, or the host is never quiet.
const EMPTY_STEPS_MAX: u32 = 5;

/// What to run next.
struct Step<'a> {
    subjects: &'a [Subject],
    /// The layout of each pair of subjects.
    layouts: Vec<u32>,
    blocks: u32,
    title: String,
}

/// Other layouts are builds from nothing; those of a comparison may take this long.
const LAYOUTS_MAX_S: f64 = 3600.0;

/// Why there are no other layouts of two builds that took so many seconds, if they would take too long.
fn too_long(both_s: f64) -> Option<String> {
    let all_s = both_s * f64::from(COMPARED_LAYOUTS);
    let why = || format!("their builds would take {:.0} minutes, more than an hour", all_s / 60.0);
    (all_s > LAYOUTS_MAX_S).then(why)
}

impl Adding<'_> {
    /// Compares what the line suggests, until it suggests nothing more. `None` if a signal asked knee to end.
    pub(super) fn compare_suspects(&mut self) -> Result<Option<()>> {
        while let Some(wanted) = self.state.next() {
            let Wanted { before, after, suspect, series, .. } = &wanted;
            let what = match &self.state.series[..] {
                [_] => "it".to_string(),
                many => many[*series].name.clone(),
            };
            (self.tell)(&format!(
                "{after:.12} may change {what} by {:+.1} %: it is compared with {before:.12}",
                100.0 * suspect.step.exp_m1(),
            ));
            let Some(gap) = self.compare(&wanted)? else { return Ok(None) };
            let (failed, after) = (gap.failed.clone(), wanted.after);
            self.append(LineEvent::Compared(Box::new(gap)))?;
            let last = self.state.compared.len() - 1;
            let is_changed =
                self.state.verdict(last).is_some_and(|verdict| verdict.change.is_some());
            let said = match (failed, is_changed) {
                (Some(why), _) => format!("not compared: {why}"),
                (None, true) => "confirmed".to_string(),
                (None, false) => "not confirmed: the host, or chance".to_string(),
            };
            (self.tell)(&format!("{after:.12}: {said}"));
        }
        Ok(Some(()))
    }

    fn compare(&mut self, wanted: &Wanted) -> Result<Option<ComparedGap>> {
        let mut gap = ComparedGap {
            series: self.state.series[wanted.series].name.clone(),
            before: wanted.before.clone(),
            after: wanted.after.clone(),
            at: jiff::Timestamp::now(),
            step: wanted.suspect.step,
            probability: wanted.suspect.probability,
            followed: wanted.followed,
            at_once: self.newest_session == Some(wanted.after.clone()),
            pairs: Vec::new(),
            records: Vec::new(),
            no_layouts: None,
            failed: None,
        };
        let mut neighbours = match self.neighbours(&mut gap)? {
            Some(Some(neighbours)) => neighbours,
            Some(None) => return Ok(Some(gap)),
            None => return Ok(None),
        };
        loop {
            let Some(so_far) = self.state.so_far(wanted.series, &gap) else {
                gap.failed = Some("its points have no values".to_string());
                return Ok(Some(gap));
            };
            if so_far.stop || gap.failed.is_some() {
                return Ok(Some(gap));
            }
            let has_layouts =
                gap.no_layouts.is_none() && (neighbours.layouts.is_some() || so_far.worth_layouts);
            if has_layouts
                && neighbours.layouts.is_none()
                && !self.relink(&mut neighbours, &mut gap)?
            {
                return Ok(None);
            }
            if self.pairs(&mut gap, &mut neighbours)?.is_none() {
                return Ok(None);
            }
        }
    }

    /// Both builds. The inner `None` if one of them cannot be run any more, the outer one if a signal asked knee to end.
    fn neighbours(&mut self, gap: &mut ComparedGap) -> Result<Option<Option<Neighbours>>> {
        let mut builds: Vec<Build> = Vec::new();
        for id in [gap.before.clone(), gap.after.clone()] {
            match self.build_point(&id)? {
                Built::Done(build) => builds.push(build),
                Built::Interrupted => return Ok(None),
                Built::Failed(why) => {
                    gap.failed = Some(format!("{id:.12}: {why}"));
                    return Ok(Some(None));
                }
            }
        }
        let Ok(builds) = <[Build; 2]>::try_from(builds) else { unreachable!("two were built") };
        let commits = [&gap.before, &gap.after].map(|id| named(id));
        if self.request.build.is_none() {
            gap.no_layouts = Some("nothing is built".to_string());
        } else if !self.workshop.has_linked(&commits[1]) {
            gap.no_layouts = Some("the build links no program".to_string());
        } else {
            gap.no_layouts = too_long(builds.iter().map(|build| build.seconds).sum());
        }
        let plain = [subject("before", &builds[0]), subject("after", &builds[1])];
        Ok(Some(Some(Neighbours { commits, builds, plain, layouts: None, empty_steps: 0 })))
    }

    /// Builds other layouts of both. Whether no signal asked knee to end.
    fn relink(&mut self, neighbours: &mut Neighbours, gap: &mut ComparedGap) -> Result<bool> {
        (self.tell)(
            "building other layouts of both, since the difference may be of the layout alone",
        );
        let keys = neighbours.builds.each_ref().map(|build| Some(build.key.clone()));
        let [older, newer] = &neighbours.commits;
        let layouts = COMPARED_LAYOUTS;
        match relink(&self.workshop, [older, newer], keys, layouts, LAYOUTS_MAX_S)? {
            Ok(Some(subjects)) => neighbours.layouts = Some(subjects),
            Ok(None) => return Ok(false),
            Err(why) => gap.no_layouts = Some(why),
        }
        Ok(true)
    }

    /// Runs the next pairs. `None` if a signal asked knee to end.
    fn pairs(&mut self, gap: &mut ComparedGap, neighbours: &mut Neighbours) -> Result<Option<()>> {
        // A second comparison of a gap is no continuation of the first.
        let is_same = |one: &&ComparedGap| one.before == gap.before && one.after == gap.after;
        let time = self.state.compared.iter().filter(is_same).count() + 1;
        let of_gap = format!("watch {:.12}..{:.12} {time}", gap.before, gap.after);
        let step = next_step(gap, neighbours, &of_gap);
        let series = &self.state.series;
        let case =
            series.iter().find(|one| one.name == gap.series).and_then(|one| one.case.clone());
        let own: Vec<_> = series.iter().filter(|one| one.case == case).cloned().collect();
        let cases: Vec<String> = case.into_iter().collect();
        let repeats = Repeats::Times(analysis::blocks_at_most(step.blocks));
        let experiment = experiment_of(self, step.subjects, &cases, repeats, &step.title)?;
        let pairs_of = |record: &Record, runs: &[Run]| {
            let counts = |run: &Run| {
                let point = record.points.get(run.point as usize);
                point.is_some_and(|point| analysis::disturbance(record, point, run).is_none())
            };
            in_pairs(record, runs, &own, &step, &counts)
        };
        // Disturbed blocks do not count, so there are more than are wanted.
        let wanted = step.layouts.len() * if step.layouts == [0] { STEP_PAIRS as usize } else { 1 };
        let mut seen: Vec<Run> = Vec::new();
        let after = |record: &Record, run: &Run| {
            seen.push(run.clone());
            let is_block = seen.len().is_multiple_of(step.subjects.len());
            let is_done = is_block && pairs_of(record, &seen).len() >= wanted;
            if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let Measurement { end, record } = measure_while(experiment, self.store, true, after)?;
        let (End::Complete, Some(record)) = (end, record) else { return Ok(None) };
        let Opened { record, runs, .. } = record;
        let pairs = pairs_of(&record, &runs);
        gap.records.push(record.id);
        neighbours.empty_steps += u32::from(pairs.is_empty());
        if neighbours.empty_steps == EMPTY_STEPS_MAX {
            gap.failed =
                Some("no pair of runs counts: they fail, or the host disturbs them".to_string());
        }
        gap.pairs.extend(pairs);
        Ok(Some(()))
    }
}

/// The pairs to run after those of a comparison.
fn next_step<'a>(gap: &ComparedGap, neighbours: &'a Neighbours, of_gap: &str) -> Step<'a> {
    let number = gap.records.len() + 1;
    let Some(layouts) = &neighbours.layouts else {
        let title = format!("{of_gap} pairs {number}");
        return Step {
            subjects: &neighbours.plain,
            layouts: vec![0],
            blocks: 2 * STEP_PAIRS,
            title,
        };
    };
    // The layouts take turns.
    let most = (layouts.len() / 2).max(1);
    let done = gap.pairs.iter().filter(|pair| pair.layout > 0).count();
    let first = done / LAYOUTS_A_STEP as usize * LAYOUTS_A_STEP as usize % most;
    let last = (first + LAYOUTS_A_STEP as usize).min(most);
    Step {
        subjects: &layouts[2 * first..2 * last],
        layouts: (first..last).map(|at| at as u32 + 1).collect(),
        blocks: 2,
        title: format!("{of_gap} layouts {number}"),
    }
}

fn named(id: &str) -> Commit {
    let id = id.to_string();
    Commit { id, subject: String::new(), date: String::new(), parents: Vec::new() }
}

/// The pairs of runs in a block that count, in the order of blocks and layouts.
fn in_pairs(
    record: &Record,
    runs: &[Run],
    series: &[super::Series],
    step: &Step,
    counts: &dyn Fn(&Run) -> bool,
) -> Vec<PairOfRuns> {
    let blocks = runs.iter().map(|run| run.block + 1).max().unwrap_or(0);
    let mut pairs: Vec<PairOfRuns> = Vec::new();
    for block in 0..blocks {
        let new = step
            .layouts
            .iter()
            .map(|layout| PairOfRuns { layout: *layout, ..PairOfRuns::default() });
        let first = pairs.len();
        pairs.extend(new);
        for one in series {
            for (at, both) in step.subjects.chunks_exact(2).enumerate() {
                let of_block: Vec<Run> =
                    runs.iter().filter(|run| run.block == block).cloned().collect();
                let log = |subject: &Subject| {
                    logs(record, &of_block, one, &subject.name, counts).get(&block).copied()
                };
                if let (Some(older), Some(newer)) = (log(&both[0]), log(&both[1])) {
                    pairs[first + at].values.insert(one.name.clone(), (older, newer));
                }
            }
        }
    }
    pairs.retain(|pair| !pair.values.is_empty());
    pairs
}
