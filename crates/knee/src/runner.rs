//! The runner: takes the points through their blocks, one run after the other, and keeps
//! what comes of each before the next one starts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use analysis::Reduced;
use anyhow::Result;
use records::{Command, Growing, Outcome, Point, Record, Run, Until, Warning};

use crate::commands::Moment;
use crate::leftovers::Journal;
use crate::looks::{self, Executed, Step};
use crate::places::guest::{self, Guests};
use crate::places::local::Local;
use crate::places::{Came, Place, Wanted};
use crate::progress::Progress;
use crate::schedule::{self, Assignment};
use crate::signals;

/// How the runner came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every planned run was executed.
    Complete,
    /// A signal asked us to end.
    Interrupted,
}

/// Executes the runs that the record lacks. `finished` is told of each run once it is durable.
pub fn run(
    record: &mut Growing,
    journal: &mut Journal,
    progress: &mut Progress,
    mut finished: impl FnMut(&Run),
) -> Result<End> {
    let mut stage = Stage::new(journal, record)?;
    let end = blocks(record, &mut stage, progress, &mut finished);
    let warnings = stage.end(record)?;
    record.record.warnings.extend(warnings);
    let end = end?;
    record.complete = end == End::Complete;
    Ok(end)
}

/// The places that the runs of a record need.
struct Stage<'a> {
    journal: &'a mut Journal,
    local: Local,
    guests: Option<Guests>,
}

impl<'a> Stage<'a> {
    /// Tries them all, so that what cannot be done is refused before anything is measured.
    fn new(journal: &'a mut Journal, record: &mut Growing) -> Result<Stage<'a>> {
        let local = Local::new(journal, &mut record.record)?;
        let boots = record.read_boots()?.len() as u32;
        let guests = match guest::wanted(&record.record).is_empty() {
            true => None,
            false => Some(Guests::new(&mut record.record, boots)?),
        };
        let mut stage = Stage { journal, local, guests };
        stage.note_boots(record)?;
        Ok(stage)
    }

    fn run(&mut self, wanted: &Wanted) -> Result<Option<Came>> {
        let in_guest = wanted.record.guest(&wanted.point.variant).is_some();
        match self.guests.as_mut().filter(|_| in_guest) {
            Some(guests) => guests.run(self.journal, wanted),
            None => self.local.run(self.journal, wanted),
        }
    }

    /// Keeps what became known of boots.
    fn note_boots(&mut self, record: &mut Growing) -> Result<()> {
        let boots = self.guests.iter_mut().flat_map(|guests| guests.boots());
        boots.into_iter().try_for_each(|boot| record.append_boot(&boot))
    }

    fn end(mut self, record: &mut Growing) -> Result<Vec<Warning>> {
        let mut warnings = self.local.end(self.journal)?;
        if let Some(guests) = &mut self.guests {
            warnings.extend(guests.end(self.journal)?);
        }
        self.note_boots(record)?;
        Ok(warnings)
    }
}

/// Block by block, until nothing is left to do.
fn blocks(
    record: &mut Growing,
    stage: &mut Stage,
    progress: &mut Progress,
    finished: &mut impl FnMut(&Run),
) -> Result<End> {
    let mut runs: Vec<Run> =
        record.read_runs()?.iter().map(|run| deciding_part(&record.record, run)).collect();
    let mut looked: BTreeSet<Step> = record.read_looks()?.iter().map(looks::step).collect();
    for block in 0.. {
        let before: Vec<&Run> = runs.iter().filter(|run| run.block < block).collect();
        let planned = schedule::block(&record.record, &before, block);
        if planned.is_empty() {
            break;
        }
        let done: BTreeSet<Step> = runs.iter().map(|run| (assignment(run), None)).collect();
        let steps = |assignment| {
            let steps = schedule::steps(&record.record, assignment).into_iter();
            steps.map(move |look| (assignment, look))
        };
        let left = planned.into_iter().flat_map(steps);
        let left: Vec<Step> =
            left.filter(|step| !done.contains(step) && !looked.contains(step)).collect();
        let to_run: Vec<Assignment> = left.iter().map(|(assignment, _)| *assignment).collect();
        progress.block(&record.record, block, &to_run);
        for step in left {
            if signals::received().is_some() {
                return Ok(End::Interrupted);
            }
            let Some(executed) = execute(record, stage, progress, step)? else {
                return Ok(End::Interrupted);
            };
            let point = step.0.point;
            if let Some(kind) = step.1 {
                let number = looked.len() as u32;
                record.append_look(&executed.look(kind, number))?;
                looked.insert(step);
                progress.looked();
                continue;
            }
            let (run, samples) = (executed.run, executed.samples);
            record.append(&run, samples)?;
            finished(&run);
            progress.finished(&record.record.points[point], &run);
            runs.push(deciding_part(&record.record, &run));
        }
    }
    Ok(End::Complete)
}

/// What of a run decides about later blocks.
fn deciding_part(record: &Record, run: &Run) -> Run {
    let point = record.points.get(run.point as usize);
    let decides = point.map_or(record.experiment.compare.metric.clone(), |p| record.deciding(p));
    analysis::deciding_part(run, &decides)
}

fn assignment(run: &Run) -> Assignment {
    let Run { block, placebo, repeat, .. } = *run;
    Assignment { block, point: run.point as usize, placebo, repeat }
}

/// One run; nothing if a signal cut it off.
fn execute(
    record: &mut Growing,
    stage: &mut Stage,
    progress: &Progress,
    (assignment, look): Step,
) -> Result<Option<Executed>> {
    let Assignment { block, point: index, placebo, repeat } = assignment;
    let number = record.next_run();
    let point = &record.record.points[index];
    let started = jiff::Timestamp::now();
    progress.running(point);
    let wanted = Wanted {
        record: &record.record,
        point,
        moment: Moment { block, run: number, seed: record.record.seed },
        placebo,
        look,
        deadline: deadline(&record.record, point),
    };
    let came = stage.run(&wanted);
    stage.note_boots(record)?;
    let Some(came) = came? else { return Ok(None) };
    let point = &record.record.points[index];
    let reduced = analysis::reduce(point, &came.events, &came.death);
    let reduced = came.spoilt.into_iter().fold(reduced, Reduced::invalidated);
    let run = Run {
        run: number,
        point: index as u32,
        block,
        placebo,
        repeat,
        started,
        file_system: came.file_system,
        boot: came.boot,
        outcome: decided(&record.record, point, reduced.outcome, &reduced.missing),
        warnings: [came.warnings, reduced.warnings].concat(),
    };
    let Reduced { samples, windows, unavailable_probes: blind, .. } = reduced;
    Ok(Some(Executed { run, samples, windows, blind }))
}

/// A run without the metric that decides is a failed one. A run of a command may lack it; `missing`
/// then says why.
fn decided(
    record: &Record,
    point: &Point,
    outcome: Outcome,
    missing: &BTreeMap<String, String>,
) -> Outcome {
    let wanted = record.deciding(point);
    let Outcome::Finished { metrics, counters, .. } = &outcome else { return outcome };
    let has = metrics.contains_key(&wanted) || counters.contains_key(&wanted);
    if point.command.is_none() || has {
        return outcome;
    }
    let reason = match missing.get(&wanted) {
        Some(why) => why.clone(),
        None => format!("the run has no {wanted}, the metric that decides (--metric)"),
    };
    Outcome::Failed { reason }
}

/// How long a worker may take: the run itself, the grace at its end, and a while to set up,
/// verify and clean, longer with many tasks.
fn deadline(record: &Record, point: &Point) -> Duration {
    let (timeout_s, stop_grace_s) = (record.experiment.timeout_s, record.experiment.stop_grace_s);
    let run_s = match point.until {
        Until::Seconds(seconds) => seconds,
        Until::OperationsPerTask(_) => 0.0,
        // The worker itself sees to it that each of its programs ends in time.
        Until::End => record.commands.get(&point.workload).map_or(0.0, programs_s),
    };
    let around_s = timeout_s + 0.01 * point.tasks as f64;
    Duration::from_secs_f64(run_s + stop_grace_s + around_s)
}

/// How long all programs of one run of a command may take together.
fn programs_s(command: &Command) -> f64 {
    command.timeout_s * (1 + command.prepare.len() + command.cleanup.len()) as f64
}

/// Directories of all points, each once.
pub fn directories(points: &[Point]) -> Vec<&Path> {
    let directories: BTreeSet<&Path> = points.iter().map(|p| p.dir.as_path()).collect();
    directories.into_iter().collect()
}
