//! The runner: takes the points through their blocks, one run after the other, and keeps
//! what comes of each before the next one starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use records::{Growing, Job, PROTOCOL, Point, Run, Sample, Until, Warning};

use crate::leftovers::Journal;
use crate::places::local;
use crate::progress::Progress;
use crate::schedule::{self, Assignment};
use crate::{settings, signals};

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
    let metric = record.record.experiment.compare.metric.clone();
    let mut runs: Vec<Run> =
        record.read_runs()?.iter().map(|run| analysis::gist(run, &metric)).collect();
    for block in 0.. {
        let before: Vec<&Run> = runs.iter().filter(|run| run.block < block).collect();
        let planned = schedule::block(&record.record, &before, block);
        if planned.is_empty() {
            break;
        }
        let done: BTreeSet<Assignment> = runs.iter().map(assignment).collect();
        let left: Vec<Assignment> = planned.into_iter().filter(|a| !done.contains(a)).collect();
        progress.block(&record.record, block, &left);
        for assignment in left {
            if signals::received().is_some() {
                return Ok(End::Interrupted);
            }
            let Some((run, samples)) = execute(record, journal, progress, assignment)? else {
                return Ok(End::Interrupted);
            };
            record.append(&run, samples)?;
            finished(&run);
            progress.finished(&record.record.points[assignment.point], &run);
            runs.push(analysis::gist(&run, &metric));
        }
    }
    record.complete = true;
    Ok(End::Complete)
}

fn assignment(run: &Run) -> Assignment {
    Assignment { block: run.block, point: run.point as usize, placebo: run.placebo }
}

/// One run; nothing if a signal cut it off.
fn execute(
    record: &Growing,
    journal: &mut Journal,
    progress: &Progress,
    assignment: Assignment,
) -> Result<Option<(Run, Vec<Sample>)>> {
    let Assignment { block, point: index, placebo } = assignment;
    let point = &record.record.points[index];
    let variant = record.record.variants.iter().find(|variant| variant.name == point.variant);
    let started = jiff::Timestamp::now();
    progress.running(point);
    let directory = journal.directory(&point.dir, &record.record.id)?;
    let number = record.next_run();
    let job = job(point, directory.join(number.to_string()), record.record.experiment.stop_grace_s);
    let deadline = deadline(point, record.record.experiment.timeout_s, job.stop_grace_s);
    let mut warnings = Vec::new();
    for (name, value) in variant.iter().flat_map(|variant| &variant.sysctl) {
        let set = journal.set(&settings::path(name)?, &value.0)?;
        if set != value.0 {
            warnings.push(Warning::new(
                format!("{name} was to be '{}' and reads '{set}'", value.0),
                "ask for a value that the kernel takes as it is",
            ));
        }
    }
    let came = local::run(&job, variant, deadline).with_context(|| format!("run {number}"));
    journal.put_back()?;
    let came = came?;
    if came.interrupted {
        return Ok(None);
    }
    let reduced = analysis::reduce(point, &came.events, &came.death);
    let run = Run {
        run: number,
        point: index as u32,
        block,
        placebo,
        started,
        outcome: reduced.outcome,
        warnings: [warnings, reduced.warnings].concat(),
    };
    Ok(Some((run, reduced.samples)))
}

fn job(point: &Point, scratch: PathBuf, stop_grace_s: f64) -> Job {
    Job {
        protocol: PROTOCOL,
        workload: point.workload.clone(),
        semantics: point.semantics,
        parameters: point.parameters.clone(),
        form: point.form,
        tasks: point.tasks,
        cpus: point.cpu_list.clone(),
        until: point.until,
        pass: point.pass,
        scratch,
        stop_grace_s,
    }
}

/// How long a worker may take: the run itself, the grace at its end, and a while to set up,
/// verify and clean, longer with many tasks.
fn deadline(point: &Point, timeout_s: f64, stop_grace_s: f64) -> Duration {
    let run_s = match point.until {
        Until::Seconds(seconds) => seconds,
        Until::OperationsPerTask(_) | Until::End => 0.0,
    };
    let around_s = timeout_s + 0.01 * point.tasks as f64;
    Duration::from_secs_f64(run_s + stop_grace_s + around_s)
}

/// Directories of all points, each once.
pub fn directories(points: &[Point]) -> Vec<&Path> {
    let directories: BTreeSet<&Path> = points.iter().map(|p| p.dir.as_path()).collect();
    directories.into_iter().collect()
}
