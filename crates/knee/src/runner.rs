//! The runner: takes the points through their blocks, one run after the other, and keeps
//! what comes of each before the next one starts.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use analysis::Reduced;
use anyhow::{Context, Result};
use records::{
    Command, FileSystem, Growing, Job, Mounted, Native, Outcome, PROTOCOL, Point, Record, Run,
    Until, Warning, Work,
};

use crate::commands::Moment;
use crate::file_systems::{FileSystems, Images, Watch};
use crate::leftovers::Journal;
use crate::looks::{self, Executed, Step};
use crate::places::local;
use crate::progress::Progress;
use crate::schedule::{self, Assignment};
use crate::{commands, settings, signals};

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
    let mut images = Images::default();
    images.make(journal, &mut record.record)?;
    let mut stage = Stage { journal, file_systems, images };
    let end = blocks(record, &mut stage, progress, &mut finished)?;
    let Stage { journal, mut file_systems, .. } = stage;
    let warnings = file_systems.end(journal)?;
    record.record.warnings.extend(warnings);
    record.complete = end == End::Complete;
    Ok(end)
}

/// What runs are set up with.
struct Stage<'a> {
    journal: &'a mut Journal,
    file_systems: FileSystems,
    images: Images,
}

/// Block by block, until nothing is left to do.
fn blocks(
    record: &mut Growing,
    stage: &mut Stage,
    progress: &mut Progress,
    finished: &mut impl FnMut(&Run),
) -> Result<End> {
    let mut runs: Vec<Run> =
        record.read_runs()?.iter().map(|run| gist(&record.record, run)).collect();
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
            runs.push(gist(&record.record, &run));
        }
    }
    Ok(End::Complete)
}

/// What of a run decides about later blocks.
fn gist(record: &Record, run: &Run) -> Run {
    let point = record.points.get(run.point as usize);
    let decides = point.map_or(record.experiment.compare.metric.clone(), |p| record.deciding(p));
    analysis::gist(run, &decides)
}

fn assignment(run: &Run) -> Assignment {
    Assignment { block: run.block, point: run.point as usize, placebo: run.placebo }
}

/// One run; nothing if a signal cut it off.
fn execute(
    record: &Growing,
    stage: &mut Stage,
    progress: &Progress,
    (assignment, look): Step,
) -> Result<Option<Executed>> {
    let Assignment { block, point: index, placebo } = assignment;
    let point = &record.record.points[index];
    let variant = record.record.variants.iter().find(|variant| variant.name == point.variant);
    let started = jiff::Timestamp::now();
    progress.running(point);
    let Stage { journal, file_systems, images } = stage;
    let directory = journal.directory(&point.dir, &record.record.id)?;
    let number = record.next_run();
    let moment = Moment { block, run: number, seed: record.record.seed };
    let deadline = deadline(&record.record, point);
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
        let _copy = match images.copy(&record.record, point, directory)? {
            Ok(copy) => copy,
            Err(why) => return Ok(Some(Reduced::failed(format!("{why:#}")))),
        };
        let job = job(&record.record, point, directory.join(number.to_string()), moment)?;
        let job = Job { watch: look.map(|kind| looks::watch(&record.record, kind)), ..job };
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
        outcome: decided(&record.record, point, reduced.outcome, &reduced.warnings),
        warnings: [warnings, reduced.warnings].concat(),
    };
    let Reduced { samples, windows, blind, .. } = reduced;
    Ok(Some(Executed { run, samples, windows, blind }))
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

fn job(record: &Record, point: &Point, scratch: PathBuf, moment: Moment) -> Result<Job> {
    let work = match commands::of_point(record, point)? {
        Some(command) => Work::Command(commands::errand(command, point, &scratch, moment)?),
        None => Work::Workload(Native {
            name: point.workload.clone(),
            semantics: point.semantics,
            parameters: point.parameters.clone(),
        }),
    };
    Ok(Job {
        protocol: PROTOCOL,
        work,
        form: point.form,
        tasks: point.tasks,
        cpus: point.cpu_list.clone(),
        until: point.until,
        pass: point.pass,
        watch: None,
        scratch,
        keep: false,
        stop_grace_s: record.experiment.stop_grace_s,
    })
}

/// A run without the number that decides about it is none: a run of a command may lack it.
fn decided(record: &Record, point: &Point, outcome: Outcome, doubts: &[Warning]) -> Outcome {
    let wanted = record.deciding(point);
    let Outcome::Finished { metrics, counters, .. } = &outcome else { return outcome };
    let has = metrics.contains_key(&wanted) || counters.contains_key(&wanted);
    if point.command.is_none() || has {
        return outcome;
    }
    let why = doubts.iter().find(|doubt| doubt.text.ends_with(&format!("so {wanted} is missing")));
    let reason = match why {
        Some(doubt) => doubt.text.clone(),
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
