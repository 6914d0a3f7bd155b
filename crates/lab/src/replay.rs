//! `knee simulate replay`: simulates published incidents and measurements, and compares with their reports.

pub mod page;
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use answers::{
    DrawnInterval, Incidents, ListedIncident, ReplayAnchor, ReplayFigure, ReplayInput,
    ReplayMovingInput, ReplaySide, ReplayTarget, ReplayedIncident, Replays,
};
use anyhow::{Context, Result, ensure};
use described_hosts::Origin;
use host::terminal::hint;
use host::{Limit, given_file, unknown_of};
use pages::{View, ViewFlags};
use setup::foreign::Foreign;
use setup::own_file;
use studies::replays::{
    Dares, Figure, GradedTarget, Incident, Input, Interval, MovingInput, Replay, Reported,
    SimulatedSide, add_moving_inputs, incidents, locks_in_c, publications, read_publication,
    replay_all,
};

use crate::c_files::{self, LockInC};

/// Simulate published measurements, and compare with them
///
/// Regressions of the kernel that were reported, and results of papers on locks, are predicted from their mechanisms and
/// graded against the published numbers. See `knee help replays`.
#[derive(clap::Args)]
pub struct ReplayArguments {
    /// Incidents and publications to replay, such as I5, a publication's file.toml, or a folder of them; none lists them
    names: Vec<String>,
    /// Replay all incidents and publications
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Random draws of the inputs that are known only as a range, in addition to a simulation
    /// with the middle values
    #[arg(long, default_value_t = 20)]
    draws: u64,
    /// Seed of all random choices: a seed gives the same tables on every computer
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also say which input moves each prediction most
    ///
    /// Each input and number of the host that is a range, alone, from its lowest to its highest value. Takes several
    /// times as long as the replay.
    #[arg(long)]
    decided: bool,
    #[command(flatten)]
    view: ViewFlags,
    /// Compile and run what files of others decide without asking (`knee help safety`)
    #[arg(long, hide_short_help = true)]
    yes: bool,
}

/// Replays the incidents and prints their tables.
pub fn run(arguments: &ReplayArguments) -> Result<ExitCode> {
    if arguments.names.is_empty() && !arguments.all {
        return list(arguments.view).map(|()| ExitCode::SUCCESS);
    }
    ensure!(arguments.draws <= 10_000, "--draws {}: must be at most 10000", arguments.draws);
    let incidents =
        if arguments.all { listed() } else { find_all(&named(&arguments.names)?, arguments.yes)? };
    let names: Vec<&str> = incidents.iter().map(|incident| incident.name.as_str()).collect();
    hint(format_args!("replaying {} …", names.join(", ")));
    let ReplayArguments { draws, seed, .. } = *arguments;
    let mut replays = replay_all(&incidents, draws, seed)?;
    if arguments.decided {
        hint("one input after the other …");
        add_moving_inputs(&mut replays, seed)?;
    }
    let value = || Replays {
        obtained: "simulated",
        draws,
        seed,
        replays: replays.iter().map(replayed).collect(),
    };
    arguments.view.print(|| Ok(value()), || Ok(page::pages(&replays, draws)))?;
    Ok(ExitCode::SUCCESS)
}

/// All incidents, then all publications.
fn listed() -> Vec<Arc<Incident>> {
    [incidents(), publications()].concat()
}

/// The names of all.
pub fn names() -> Vec<String> {
    listed().iter().map(|incident| incident.name.clone()).collect()
}

/// The names, with the files *.toml of a folder in its place.
fn named(names: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for name in names {
        let folder = Path::new(name);
        if !folder.is_dir() {
            all.push(name.clone());
            continue;
        }
        let entries = folder.read_dir().with_context(|| format!("reading {name}"))?;
        let mut files = Vec::new();
        for entry in entries {
            files.push(entry.with_context(|| format!("reading {name}"))?.path());
        }
        files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        ensure!(!files.is_empty(), "{name} has no publication: a file *.toml");
        files.sort();
        all.extend(files.iter().map(|file| file.display().to_string()));
    }
    Ok(all)
}

/// The incidents and publications of these names, or in these files. If others decided which locks in C are compiled
/// and run, asks unless `yes` was given.
pub fn find_all(names: &[String], yes: bool) -> Result<Vec<Arc<Incident>>> {
    let mut locks = Foreign::typed(Vec::new());
    let mut files = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".toml")) {
        let publication = read(name)?;
        let named = locks_in_c(Path::new(name), publication.look())?;
        if let [_, ..] = &named.files[..] {
            let flags = shlex::split(&named.flags).context("cflags has an open quote")?;
            let lock = |file| LockInC { file, flags: flags.clone() };
            let named = publication.clone().map(|_| named.files.into_iter().map(lock).collect());
            locks = locks.and(named).map(|(all, named): (_, Vec<LockInC>)| [all, named].concat());
        }
        files.insert(name, publication);
    }
    let locks = c_files::permitted(locks, yes)?;
    let compile = |file: &Path| {
        let same = locks.part(|locks| locks.iter().find(|lock| lock.file == file).cloned());
        let missing = || format!("{} was not among the locks of the file", file.display());
        c_files::published(&same.try_map(|lock| lock.with_context(missing))?)
    };
    let find = |name: &String| match files.get(name) {
        Some(text) => read_publication(Path::new(name), text.look(), &compile).map(Arc::new),
        None => find(name),
    };
    names.iter().map(find).collect()
}

/// The text of a publication's file.
fn read(name: &str) -> Result<Foreign<String>> {
    let limit = Limit { bytes: 1 << 20, what: "a publication" };
    let read = given_file::read_judged(Path::new(name), limit, own_file::why_not_own);
    let (text, why) = read.with_context(|| format!("reading {name}"))?;
    Ok(Foreign::typed(text).decided_by(name, why))
}

/// The incident or publication of this name.
fn find(name: &str) -> Result<Arc<Incident>> {
    let listed = listed();
    let incident = listed.iter().find(|incident| incident.name.eq_ignore_ascii_case(name));
    incident.cloned().with_context(|| {
        let known: Vec<&str> = listed.iter().map(|incident| incident.name.as_str()).collect();
        unknown_of("incident or publication", name, &known) + ", and files *.toml"
    })
}

/// Prints which incidents and publications there are.
fn list(view: ViewFlags) -> Result<()> {
    let listed = listed();
    let incident = |incident: &Arc<Incident>| ListedIncident {
        name: incident.name.clone(),
        title: incident.title.clone(),
    };
    view.print(
        || Ok(Incidents(listed.iter().map(incident).collect())),
        || Ok(page::list(&listed)),
    )?;
    if view.view() == View::Terminal {
        hint(
            "replay one: knee simulate replay I5; all, in a minute of CPU time: knee simulate replay --all",
        );
    }
    Ok(())
}

fn replayed(replay: &Replay) -> ReplayedIncident {
    let Replay { incident, inputs, provenance, fitted, rows, figure } = replay;
    let anchor = incident.fitted.as_ref().zip(fitted.as_ref());
    ReplayedIncident {
        incident: incident.name.clone(),
        title: incident.title.clone(),
        sources: incident.sources.clone(),
        hosts: incident.hosts.clone(),
        found: provenance.found,
        measured: provenance.measured,
        assumed: provenance.assumed,
        fitted: u32::from(fitted.is_some()),
        inputs: inputs.iter().map(input_of_replay).collect(),
        anchor: anchor.map(|(anchor, value)| ReplayAnchor {
            fitted: anchor.name.to_string(),
            to: anchor.to.to_string(),
            value: drawn(value),
        }),
        targets: rows.iter().map(target).collect(),
        figure: figure.as_ref().map(|Figure { title, columns, rows }| ReplayFigure {
            title: title.clone(),
            columns: columns.clone(),
            rows: rows.clone(),
        }),
        lacks: incident.limitations.clone(),
    }
}

fn input_of_replay(input: &Input) -> ReplayInput {
    let (origin, why) = match &input.number.origin {
        Origin::Found(source) => ("found", source),
        Origin::Measured(at, _) => ("measured", at),
        Origin::Assumed(why) => ("assumed", why),
    };
    ReplayInput {
        name: input.name.to_string(),
        value: input.number.text.clone(),
        origin,
        why: why.clone(),
        chosen_late: input.chosen_late,
    }
}

fn target(row: &GradedTarget) -> ReplayTarget {
    let (reported, direction) = match row.target.reported {
        Reported::Ratio(value) | Reported::Share(value) => (Some(value), None),
        Reported::Less => (None, Some("less")),
        Reported::More => (None, Some("more")),
    };
    ReplayTarget {
        what: row.target.what.to_string(),
        reported,
        reported_direction: direction,
        reported_ns_per_operation: row.target.reported_ns,
        predicted: drawn(&row.predicted),
        sides: row.sides.map(|sides| sides.map(side)),
        in_a_test: row.target.in_a_test,
        grade: row.grade.name().to_string(),
        class: row.class.name(),
        with_model_error: row.widened.as_ref().map(drawn),
        direction: row.dares.map(Dares::name),
        moved_by: row.moved_by.iter().map(moving_input).collect(),
        open: row.is_open(),
        usl: row.nulls.usl,
        queueing: row.nulls.queueing,
    }
}

fn moving_input(input: &MovingInput) -> ReplayMovingInput {
    let MovingInput { name, at_low, at_high } = input;
    ReplayMovingInput { name: name.clone(), at_lowest: *at_low, at_highest: *at_high }
}

fn side(side: SimulatedSide) -> ReplaySide {
    ReplaySide { ns_per_operation: side.ns, sleeps_per_operation: side.sleeps }
}

fn drawn(interval: &Interval) -> DrawnInterval {
    DrawnInterval { middle: interval.middle, low: interval.low, high: interval.high }
}
