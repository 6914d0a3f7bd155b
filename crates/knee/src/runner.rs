//! The runner: takes the points through their blocks, one run after the other, and keeps
//! what comes of each before the next one starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use records::{Growing, Job, PROTOCOL, Point, Run, Until};

use crate::leftovers::Journal;
use crate::places::local;
use crate::plan;
use crate::progress::Progress;
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
    let done: BTreeSet<(u32, u32)> =
        record.read_runs()?.iter().map(|run| (run.block, run.point)).collect();
    let planned = remaining(record, &done);
    progress.begin(planned.iter().map(|(_, index)| &record.record.points[*index]));
    for (block, index) in planned {
        if signals::received().is_some() {
            return Ok(End::Interrupted);
        }
        let point = record.record.points[index].clone();
        let started = jiff::Timestamp::now();
        progress.running(&point);
        let directory = journal.directory(&point.dir, &record.record.id)?;
        let number = record.next_run();
        let scratch = directory.join(number.to_string());
        let job = job(&point, scratch, record.record.experiment.stop_grace_s);
        let deadline = deadline(&point, record.record.experiment.timeout_s, job.stop_grace_s);
        let came = local::run(&job, deadline).with_context(|| format!("run {number}"))?;
        if came.interrupted {
            return Ok(End::Interrupted);
        }
        let reduced = analysis::reduce(&point, &came.events, &came.death);
        let run = Run {
            run: number,
            point: index as u32,
            block,
            placebo: false,
            started,
            outcome: reduced.outcome,
            warnings: reduced.warnings,
        };
        record.append(&run, reduced.samples)?;
        finished(&run);
        progress.finished(&point, &run);
    }
    Ok(End::Complete)
}

/// Blocks and points not executed yet, in the order of execution.
fn remaining(record: &Growing, done: &BTreeSet<(u32, u32)>) -> Vec<(u32, usize)> {
    let record = &record.record;
    let block = |block| {
        let order = plan::order(record.seed, block, record.points.len());
        order.into_iter().map(move |point| (block, point))
    };
    let all = (0..record.experiment.blocks).flat_map(block);
    all.filter(|(block, point)| !done.contains(&(*block, *point as u32))).collect()
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
