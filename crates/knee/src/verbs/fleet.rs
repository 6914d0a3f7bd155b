//! `knee fleet`: cuts an experiment into chunks for many hosts, shows how far they are, collects them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use analysis::PointHistory;
use anyhow::{Context, Result, bail, ensure};
use fleet::{ChunkState, Folder, Plan, cut};
use host::terminal::{hint, print_line};
use host::{counted, random};
use records::{Experiment, Many, Record, Scalar, Until, check_label};
use runner::{history, new_record};
use serde_json::json;
use store::Store;

use super::run::{self, Request};
use crate::experiment_file;

/// What to do with a fleet.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: FleetAction,
}

#[derive(clap::Subcommand)]
enum FleetAction {
    Plan(Box<PlanArguments>),
    /// Show how many chunks are done, from the files alone
    Status {
        /// Directory of the fleet
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Collect(CollectArguments),
}

/// Cut an experiment into chunks of whole blocks, which hosts that share a directory measure:
///
///     knee fleet plan exp.toml /shared/exp            # the last word is the new directory
///     knee chunk /shared/exp                          # on each host: chunk after chunk
///     sbatch --array=0-59 --exclusive --requeue --wrap 'knee chunk /shared/exp $SLURM_ARRAY_TASK_ID'
///     knee fleet status /shared/exp
///     knee fleet collect /shared/exp
///
/// Every variant of a block runs on the same host, so no difference between hosts enters a comparison.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[group(skip)]
struct PlanArguments {
    /// Length of a chunk, such as 90s, 10m or 1h
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, help_heading = FLEET)]
    chunk: Duration,
    /// How long a host may show no run before another takes its chunk over
    ///
    /// By default ten times the longest run, at least 2m. Too short a lease costs time, never runs.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = FLEET)]
    lease: Option<Duration>,
    #[command(flatten)]
    run: run::Arguments,
}

const FLEET: &str = "Fleet";

/// Join the runs of all chunks into one record for each kind of host (processor, topology, kernel).
#[derive(clap::Args)]
struct CollectArguments {
    /// Directory of the fleet
    directory: PathBuf,
    /// Collect what is done, although chunks are missing
    #[arg(long)]
    partial: bool,
    /// Label of the records
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Plans, shows or collects a fleet.
pub fn run(arguments: Arguments, store: &Store) -> Result<ExitCode> {
    match arguments.action {
        FleetAction::Plan(arguments) => make_plan(*arguments, store),
        FleetAction::Status { directory, json } => status(&directory, json),
        FleetAction::Collect(arguments) => collect(&arguments, store),
    }
}

/// A length of time: a number with s, m or h.
fn duration(text: &str) -> Result<Duration> {
    let (number, factor) = match text.char_indices().next_back() {
        Some((end, 's')) => (&text[..end], 1.0),
        Some((end, 'm')) => (&text[..end], 60.0),
        Some((end, 'h')) => (&text[..end], 3600.0),
        _ => (text, f64::NAN),
    };
    let seconds = number.parse::<f64>().unwrap_or(f64::NAN) * factor;
    ensure!(
        (0.01..=1e7).contains(&seconds),
        "must be a number with s, m or h, such as 90s, 10m or 1h"
    );
    Ok(Duration::from_secs_f64(seconds))
}

fn make_plan(mut arguments: PlanArguments, store: &Store) -> Result<ExitCode> {
    if let Some(flag) = arguments.run.only_of_run().or(arguments.run.only_of_measuring()) {
        bail!("{flag} is a flag of knee run: leave it out");
    }
    let enough = arguments.run.what.len() > usize::from(arguments.run.commands.is_empty());
    let directory = arguments.run.what.pop().filter(|_| enough);
    let directory = directory.context(
        "no directory: knee fleet plan EXPERIMENT DIR, where DIR is new and all hosts share it",
    )?;
    let directory = std::path::absolute(PathBuf::from(directory))?;
    let Request { experiment, stranger } = run::request(&arguments.run)?;
    if let Some(stranger) = stranger.filter(|_| !arguments.run.is_yes()) {
        experiment_file::ask(&arguments.run.what.concat(), &stranger, &experiment)?;
    }
    let experiment =
        Experiment { seed: Some(experiment.seed.unwrap_or_else(random)), ..experiment };
    check_can_be_cut(&experiment)?;
    let record = new_record(experiment.clone())?;
    let past = history::past_runs(&record, store)?;
    let (block_s, longest_s) = block_s(&record, &past);
    let chunks = cut(experiment.blocks(), block_s, arguments.chunk.as_secs_f64());
    let plan = Plan {
        format: fleet::FORMAT,
        knee: env!("CARGO_PKG_VERSION").to_string(),
        architecture: std::env::consts::ARCH.to_string(),
        kernel: record.host.kernel_release.clone().unwrap_or_default(),
        lease_s: arguments.lease.map_or((10.0 * longest_s).max(120.0), |lease| lease.as_secs_f64()),
        points: record.points,
        experiment,
        chunks,
    };
    Folder::create(&directory, &plan)?;
    let (chunk, place) = (plan.chunks[0], directory.display());
    print_line(format_args!(
        "{} of {}, about {:.0} s each, in {place}",
        counted(plan.chunks.len(), "chunk"),
        counted(chunk.blocks as usize, "block"),
        chunk.estimated_s,
    ))?;
    hint(format_args!("on each host: knee chunk {place}"));
    hint(format_args!("then: knee fleet collect {place}"));
    Ok(ExitCode::SUCCESS)
}

/// Refuses what chunks cannot decide alone.
fn check_can_be_cut(experiment: &Experiment) -> Result<()> {
    ensure!(
        experiment.adaptive.is_none(),
        "an adaptive search decides after each block, but chunks are measured at the same time: name --cpus"
    );
    ensure!(
        !experiment.compare.until_decided,
        "until_decided decides after each block, but chunks are measured at the same time: leave it out and \
         give --blocks"
    );
    ensure!(
        experiment.loads.iter().all(|load| load.own.is_none()),
        "a load that is compiled lies on this host alone: build it as a program that all hosts have, and \
         name it with --command"
    );
    let named =
        |counts: &Many<Scalar>| counts.0.iter().all(|c| !c.0.contains("all") && c.0 != "cores");
    let axes = experiment.loads.iter().map(|load| &load.axes).chain([&experiment.axes]);
    let all_named = axes.filter_map(|axes| axes.cpus.as_ref()).all(named);
    ensure!(
        all_named,
        "CPU counts such as 'all' differ between hosts: name counts that every host has, such as --cpus 1,2,4"
    );
    Ok(())
}

/// How long a block and the longest run take, in seconds: by earlier records of this host, else by the
/// length of the runs and half a second around each.
fn block_s(record: &Record, past: &[Option<PointHistory>]) -> (f64, f64) {
    let assumed = |until: Until| match until {
        Until::Seconds(seconds) => seconds + 0.5,
        Until::OperationsPerTask(_) | Until::End => 1.5,
    };
    let run_s = |(point, past): (&records::Point, &Option<PointHistory>)| {
        past.as_ref().map_or(assumed(point.until), |past| past.run_s)
    };
    let runs: Vec<f64> = record.points.iter().zip(past).map(run_s).collect();
    let profiles = record.experiment.explain.as_ref().map_or(0, |e| e.profiles.len());
    (runs.iter().sum::<f64>() * (1 + profiles) as f64, runs.iter().copied().fold(0.0, f64::max))
}

fn status(directory: &std::path::Path, json: bool) -> Result<ExitCode> {
    let (folder, plan) = Folder::open(directory)?;
    let survey = folder.survey(plan.chunks.len())?;
    let [done, claimed, free] = survey.counts();
    let left = survey.0.iter().zip(&plan.chunks).filter(|(state, _)| **state != ChunkState::Done);
    let left_s = left.map(|(_, chunk)| chunk.estimated_s).fold(0.0, |sum, s| sum + s);
    if json {
        let value = json!({
            "chunks": plan.chunks.len(), "done": done, "claimed": claimed, "free": free,
            "work_left_s": left_s,
        });
        print_line(format_args!("{value:#}"))?;
        return Ok(ExitCode::SUCCESS);
    }
    print_line(format_args!(
        "{done} of {} done, {claimed} claimed, {free} free; about {left_s:.0} s of one host's work left \
         (estimated when planned)",
        counted(plan.chunks.len(), "chunk"),
    ))?;
    let claims = survey.0.iter().enumerate().filter_map(|(chunk, state)| match state {
        ChunkState::Claimed { claim } => Some((chunk, *claim)),
        _ => None,
    });
    for (chunk, claim) in claims.take(CLAIMS_SHOWN) {
        let host = folder.read_claim(chunk, claim)?.owner.host;
        let runs = folder.read_beat(chunk, claim).unwrap_or(0);
        let before = if claim > 1 { format!(", claim {claim}") } else { String::new() };
        print_line(format_args!(
            "chunk {chunk}: {host}, {}{before}",
            counted(runs as usize, "run")
        ))?;
    }
    if claimed > CLAIMS_SHOWN {
        print_line(format_args!("and {} more claimed", claimed - CLAIMS_SHOWN))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Claims that are listed one by one.
const CLAIMS_SHOWN: usize = 20;

fn collect(arguments: &CollectArguments, store: &Store) -> Result<ExitCode> {
    let label = arguments.label.clone().unwrap_or_default();
    arguments.label.iter().try_for_each(|label| check_label(label))?;
    let (folder, plan) = Folder::open(&arguments.directory)?;
    let collected = fleet::collect(&folder, &plan, store, &label, arguments.partial)?;
    for one in &collected {
        let nodes: Vec<&str> = one.nodes.iter().map(String::as_str).collect();
        if arguments.json {
            let value = json!({
                "record": one.id, "folder": one.folder, "nodes": nodes, "blocks": one.blocks, "runs": one.runs,
            });
            print_line(value)?;
            continue;
        }
        print_line(format_args!(
            "{}: {} in {} of {}: {}",
            one.id,
            counted(one.runs as usize, "run"),
            counted(one.blocks, "block"),
            counted(nodes.len(), "node"),
            nodes.join(", ")
        ))?;
    }
    if collected.len() > 1 {
        hint(
            "hosts of several kinds: each kind has a record of its own, with a verdict of its own",
        );
    }
    for one in &collected {
        hint(format_args!("knee compare {}", one.id));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_has_a_unit() {
        assert_eq!(duration("90s").unwrap(), Duration::from_secs(90));
        assert_eq!(duration("0.5h").unwrap(), Duration::from_secs(1800));
        for wrong in ["", "10", "s", "-1s", "nanm", "1d", "é", "1e99h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
