//! `knee replay`: what public reports of five incidents say, against what is simulated of them.

mod tables;

use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use host::stderr::{print, print_line, talk};
use reports::Style;
use serde_json::{Value, json};
use studies::hosts::Origin;
use studies::replays::{
    self, Figure, GradedTarget, INCIDENTS, Incident, Interval, Replay, Reported,
};

/// What to replay.
#[derive(clap::Args)]
pub struct Arguments {
    /// Incidents, as I5 [default: all]
    names: Vec<String>,
    /// How many draws of all that is only known as a range, beside their middle
    #[arg(long, default_value_t = 20)]
    draws: u64,
    /// What chance depends on: the same seed gives the same tables on every computer
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Replays and prints.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(arguments.draws <= 10_000, "--draws {}: at most 10000", arguments.draws);
    let known = || INCIDENTS.iter().map(|incident| incident.name).collect::<Vec<_>>().join(", ");
    let find = |name: &String| {
        let is_it = |incident: &&&Incident| incident.name.eq_ignore_ascii_case(name);
        let found = INCIDENTS.iter().find(is_it).copied();
        found.with_context(|| format!("no incident is called {name:?}: {}", known()))
    };
    let wanted: Vec<_> = match arguments.names.is_empty() {
        true => INCIDENTS.to_vec(),
        false => arguments.names.iter().map(find).collect::<Result<_>>()?,
    };
    let mut all = Vec::new();
    for incident in wanted {
        talk(format_args!("replaying {}: {} …", incident.name, incident.title));
        let replay = replays::replay(incident, arguments.draws, arguments.seed)?;
        if !arguments.json {
            print(tables::replayed(&replay, arguments.draws, Style::for_stdout()) + "\n")?;
        }
        all.push(replay);
    }
    if arguments.json {
        let all: Vec<_> = all.iter().map(as_json).collect();
        let (draws, seed) = (arguments.draws, arguments.seed);
        let value =
            json!({ "obtained": "simulated", "draws": draws, "seed": seed, "replays": all });
        print_line(format_args!("{value:#}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(replay: &Replay) -> Value {
    let Replay { incident, inputs, provenance, fitted, rows, figure } = replay;
    let inputs = inputs.iter().map(|input| {
        let (origin, why) = match &input.number.origin {
            Origin::Found(source) => ("found", source),
            Origin::Measured(at, _) => ("measured", at),
            Origin::Assumed(why) => ("assumed", why),
        };
        json!({ "name": input.name, "value": input.number.text, "origin": origin, "why": why })
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
        "predicted": interval(&row.predicted),
        "grade": row.grade.name(),
        "open": row.is_open(),
        "usl": row.nulls.usl,
        "queueing": row.nulls.queueing,
    })
}

fn interval(interval: &Interval) -> Value {
    json!({ "middle": interval.middle, "low": interval.low, "high": interval.high })
}
