//! The runner: takes the points through their blocks, one run after the other, and keeps
//! what comes of each before the next one starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::Reduced;
use anyhow::{Context, Result};
use records::{FileSystem, Growing, Job, Mounted, PROTOCOL, Point, Run, Sample, Until, Warning};

use crate::file_systems::{FileSystems, Watch};
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
    let mut file_systems = FileSystems::new(&record.record)?;
    file_systems.rehearse(journal, &mut record.record)?;
    let end = blocks(record, journal, &mut file_systems, progress, &mut finished)?;
    let warnings = file_systems.end(journal)?;
    record.record.warnings.extend(warnings);
    record.complete = end == End::Complete;
    Ok(end)
}

/// Block by block, until nothing is left to do.
fn blocks(
    record: &mut Growing,
    journal: &mut Journal,
    file_systems: &mut FileSystems,
    progress: &mut Progress,
    finished: &mut impl FnMut(&Run),
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
            let Some((run, samples)) =
                execute(record, journal, file_systems, progress, assignment)?
            else {
                return Ok(End::Interrupted);
            };
            record.append(&run, samples)?;
            finished(&run);
            progress.finished(&record.record.points[assignment.point], &run);
            runs.push(analysis::gist(&run, &metric));
        }
    }
    Ok(End::Complete)
}

fn assignment(run: &Run) -> Assignment {
    Assignment { block: run.block, point: run.point as usize, placebo: run.placebo }
}

/// One run; nothing if a signal cut it off.
fn execute(
    record: &Growing,
    journal: &mut Journal,
    file_systems: &mut FileSystems,
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
    let experiment = &record.record.experiment;
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
    let wanted = variant.and_then(|variant| variant.file_system.as_ref());
    let came = provided(journal, file_systems, &directory, wanted, |directory| {
        let job = job(point, directory.join(number.to_string()), experiment.stop_grace_s);
        let deadline = deadline(point, experiment.timeout_s, job.stop_grace_s);
        let done = local::run(&job, variant, deadline).with_context(|| format!("run {number}"))?;
        let reduced = || analysis::reduce(point, &done.events, &done.death);
        Ok((!done.interrupted).then(reduced))
    });
    journal.put_back()?;
    let Some((file_system, reduced)) = came? else { return Ok(None) };
    let run = Run {
        run: number,
        point: index as u32,
        block,
        placebo,
        started,
        file_system,
        outcome: reduced.outcome,
        warnings: [warnings, reduced.warnings].concat(),
    };
    Ok(Some((run, reduced.samples)))
}

/// What comes of a run in this directory, or in the file system that is made for it below.
fn provided(
    journal: &mut Journal,
    file_systems: &mut FileSystems,
    directory: &Path,
    wanted: Option<&FileSystem>,
    run: impl FnOnce(&Path) -> Result<Option<Reduced>>,
) -> Result<Option<(Option<Mounted>, Reduced)>> {
    let Some(wanted) = wanted else {
        return Ok(run(directory)?.map(|reduced| (None, reduced)));
    };
    let made = match file_systems.provide(journal, directory, wanted)? {
        Ok(made) => made,
        Err(why) => return Ok(Some((None, Reduced::failed(format!("{why:#}"))))),
    };
    let watch = FileSystems::watch(&made);
    let reduced = run(&made.root);
    let measured = matches!(reduced, Ok(Some(_)));
    // Even the root of a file system that has shut itself down cannot be opened.
    let unwritten = watch.map_or_else(|why| Some(format!("{why:#}")), Watch::error);
    let complaint = file_systems.take_back(journal, &made, measured)?;
    let complaints = [unwritten, complaint].into_iter().flatten();
    let reduced = reduced?.map(|reduced| complaints.fold(reduced, Reduced::spoilt));
    Ok(reduced.map(|reduced| (Some(made.mounted), reduced)))
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
