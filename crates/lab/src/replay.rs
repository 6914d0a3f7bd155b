//! `knee simulate replay`: simulates published incidents and measurements, and compares with their reports.

pub mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use described_hosts::Origin;
use host::terminal::{hint, print, print_line};
use host::{Limit, given_file, unknown_of};
use serde_json::{Value, json};
use setup::foreign::Foreign;
use setup::own_file;
use studies::replays::{
    Figure, GradedTarget, INCIDENTS, Incident, Interval, Replay, Reported, SimulatedSide,
    locks_in_c, publications, read_publication, replay_all,
};
use text::Style;
use text::prose::wrapped;
use text::stdout_width;

use crate::c_files::{self, LockInC};

/// What to replay.
#[derive(clap::Args)]
pub struct ReplayArguments {
    /// Incidents and publications to replay, such as I5, or a publication's file.toml; none lists them
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
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Compile and run what files of others decide without asking (see docs/safety.md)
    #[arg(long, hide_short_help = true)]
    yes: bool,
}

/// Replays the incidents and prints their tables.
pub fn run(arguments: &ReplayArguments) -> Result<ExitCode> {
    if arguments.names.is_empty() && !arguments.all {
        return list(arguments.json).map(|()| ExitCode::SUCCESS);
    }
    ensure!(arguments.draws <= 10_000, "--draws {}: must be at most 10000", arguments.draws);
    let incidents: Vec<_> =
        if arguments.all { listed().collect() } else { find_all(&arguments.names, arguments.yes)? };
    let names: Vec<_> = incidents.iter().map(|incident| incident.name).collect();
    hint(format_args!("replaying {} …", names.join(", ")));
    show(&replay_all(&incidents, arguments.draws, arguments.seed)?, arguments)
}

fn show(replays: &[Replay], arguments: &ReplayArguments) -> Result<ExitCode> {
    for replay in replays.iter().filter(|_| !arguments.json) {
        print(tables::replayed(replay, arguments.draws, Style::for_stdout()) + "\n")?;
    }
    if replays.len() > 1 && !arguments.json {
        print(tables::summary(replays, Style::for_stdout()))?;
    }
    if arguments.json {
        let replays: Vec<_> = replays.iter().map(as_json).collect();
        let (draws, seed) = (arguments.draws, arguments.seed);
        let value =
            json!({ "obtained": "simulated", "draws": draws, "seed": seed, "replays": replays });
        print_line(format_args!("{value:#}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All incidents, then all publications.
fn listed() -> impl Iterator<Item = &'static Incident> {
    INCIDENTS.iter().copied().chain(publications())
}

/// The incidents and publications of these names, or in these files. If others decided which locks in C are compiled
/// and run, asks unless `yes` was given.
pub fn find_all(names: &[String], yes: bool) -> Result<Vec<&'static Incident>> {
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
        Some(text) => read_publication(Path::new(name), text.look(), &compile),
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
fn find(name: &str) -> Result<&'static Incident> {
    let incident = listed().find(|incident| incident.name.eq_ignore_ascii_case(name));
    incident.with_context(|| {
        let known: Vec<&str> = listed().map(|incident| incident.name).collect();
        unknown_of("incident or publication", name, &known) + ", and files *.toml"
    })
}

/// Prints which incidents and publications there are.
fn list(as_json: bool) -> Result<()> {
    if as_json {
        let incident =
            |incident: &'static Incident| json!({ "name": incident.name, "title": incident.title });
        let list: Value = listed().map(incident).collect();
        return print_line(format_args!("{list:#}"));
    }
    let width = stdout_width();
    let lines = listed().map(|incident| {
        wrapped(&format!("{}  {}", incident.name, incident.title), width, incident.name.len() + 2)
    });
    print(lines.collect::<String>())?;
    hint(
        "replay one: knee simulate replay I5; all, in a minute of CPU time: knee simulate replay --all",
    );
    Ok(())
}

fn as_json(replay: &Replay) -> Value {
    let Replay { incident, inputs, provenance, fitted, rows, figure } = replay;
    let inputs = inputs.iter().map(|input| {
        let (origin, why) = match &input.number.origin {
            Origin::Found(source) => ("found", source),
            Origin::Measured(at, _) => ("measured", at),
            Origin::Assumed(why) => ("assumed", why),
        };
        json!({ "name": input.name, "value": input.number.text, "origin": origin, "why": why,
            "chosen_late": input.chosen_late })
    });
    json!({
        "incident": incident.name,
        "title": incident.title,
        "sources": incident.sources,
        "hosts": incident.hosts,
        "found": provenance.found,
        "measured": provenance.measured,
        "assumed": provenance.assumed,
        "fitted": u32::from(fitted.is_some()),
        "inputs": inputs.collect::<Vec<_>>(),
        "anchor": incident.fitted.as_ref().zip(fitted.as_ref()).map(|(anchor, value)| {
            json!({ "fitted": anchor.name, "to": anchor.to, "value": interval(value) })
        }),
        "targets": rows.iter().map(row).collect::<Vec<_>>(),
        "figure": figure.as_ref().map(|Figure { title, columns, rows }| {
            json!({ "title": title, "columns": columns, "rows": rows })
        }),
        "lacks": incident.limitations,
    })
}

fn row(row: &GradedTarget) -> Value {
    let (reported, direction) = match row.target.reported {
        Reported::Ratio(value) | Reported::Share(value) => (Some(value), None),
        Reported::Less => (None, Some("less")),
        Reported::More => (None, Some("more")),
    };
    json!({
        "what": row.target.what,
        "reported": reported,
        "reported_direction": direction,
        "reported_ns_per_operation": row.target.reported_ns,
        "predicted": interval(&row.predicted),
        "sides": row.sides.map(|sides| sides.map(side)),
        "in_a_test": row.target.in_a_test,
        "grade": row.grade.name(),
        "open": row.is_open(),
        "usl": row.nulls.usl,
        "queueing": row.nulls.queueing,
    })
}

fn side(side: SimulatedSide) -> Value {
    json!({ "ns_per_operation": side.ns, "sleeps_per_operation": side.sleeps })
}

fn interval(interval: &Interval) -> Value {
    json!({ "middle": interval.middle, "low": interval.low, "high": interval.high })
}
