//! Replays: what public reports say about an incident, against what the mechanism does in
//! virtual time on the host that was reported.
//!
//!     inputs (found, assumed as ranges) ──draw──> fit one of them to the anchor ──> predict
//!                                          └─ again for each draw: middle, lowest, highest
//!
//! At most one number an incident is fitted, to an observation that is none of its targets or
//! is marked as fitted among them. Designs are never chosen by the numbers. What is predicted
//! is graded against what was reported, and stays in the table where it is wrong.

mod create_files;
mod file_locks;
mod log_commit;
pub mod null_models;
mod page_faults;
mod repair;

use std::collections::BTreeMap;

use analysis::in_parallel;
use anyhow::{Context, Result, ensure};
use engines::simulated::{Host, NS, Options, Outcome, Preemption, ROWS, Row};
use records::Placement;

use crate::hosts::{self, Described, Draw, Number, Origin};
use crate::simulations::mechanisms::{Operated, Ran, once, part_of};

/// All incidents, in the order of their numbers.
pub const INCIDENTS: &[&Incident] = &[
    &create_files::INCIDENT,
    &log_commit::INCIDENT,
    &repair::INCIDENT,
    &page_faults::INCIDENT,
    &file_locks::INCIDENT,
];

/// An incident and how it is replayed.
pub struct Incident {
    /// I1 to I5.
    pub name: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// The mails that report it: subject and date.
    pub sources: &'static [&'static str],
    /// The described hosts that stand for those of the report.
    pub hosts: &'static [&'static str],
    /// What is put in beside the hosts.
    pub inputs: fn() -> Vec<Input>,
    /// What is fitted, and to what, if anything is.
    pub fitted: Option<Fitted>,
    /// What was reported, and is to be predicted.
    pub targets: &'static [Target],
    /// For each target, what models say that know nothing of the mechanism.
    pub nulls: fn() -> Vec<Nulls>,
    /// The fitted number, and a value for each target, for one draw of all inputs.
    pub predict: fn(&Drawn) -> Result<Predicted>,
    /// What else the replay shows, at the middle of all inputs.
    pub figure: Option<Figures>,
    /// What the model lacks, and what follows for the rows.
    pub lacks: &'static [&'static str],
}

/// A table from a draw and what was fitted for it.
type Figures = fn(&Drawn, Option<f64>) -> Result<Figure>;

/// A number that is put in.
pub struct Input {
    /// What it is.
    pub name: &'static str,
    /// Its value, and where that comes from.
    pub number: Number,
}

/// The number that is fitted, and to what.
pub struct Fitted {
    /// What it is.
    pub name: &'static str,
    /// The observation.
    pub to: &'static str,
}

/// Something that was reported.
pub struct Target {
    /// In a few words.
    pub what: &'static str,
    /// What the report says of it.
    pub reported: Reported,
    /// What it is for.
    pub standing: Standing,
}

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reported {
    /// So many times as much.
    Ratio(f64),
    /// A share of the time.
    Share(f64),
    /// Less than before, without a number.
    Less,
    /// More than before, without a number.
    More,
}

/// What a target is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is to be predicted.
    Claimed,
    /// It is what the one number is fitted to.
    Anchor,
    /// The model is known to say otherwise.
    Open,
}

/// What null models predict, where they can say anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nulls {
    /// The universal scalability law.
    pub usl: Option<f64>,
    /// A closed queueing model of one server.
    pub queueing: Option<f64>,
}

/// What comes of one draw.
pub struct Predicted {
    /// The number that was fitted.
    pub fitted: Option<f64>,
    /// One for each target.
    pub values: Vec<f64>,
}

/// A small table beside.
pub struct Figure {
    /// What it shows.
    pub title: &'static str,
    /// Heads, the first of what varies.
    pub columns: Vec<&'static str>,
    /// A value for each column.
    pub rows: Vec<Vec<f64>>,
}

/// A replayed incident.
pub struct Replay {
    /// Which one.
    pub incident: &'static Incident,
    /// What was put in beside the hosts.
    pub inputs: Vec<Input>,
    /// Where all numbers come from.
    pub provenance: Provenance,
    /// Of the fitted number.
    pub fitted: Option<Interval>,
    /// One for each target.
    pub rows: Vec<Graded>,
    /// What it shows beside.
    pub figure: Option<Figure>,
}

/// How many numbers were put in, by where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// In a source that is named.
    pub found: usize,
    /// On a host, by knee.
    pub measured: usize,
    /// Guessed, for a reason that is told.
    pub assumed: usize,
}

/// The value of the middle of all inputs, and the lowest and highest of all draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Of the middle of all inputs.
    pub middle: f64,
    /// Of all draws.
    pub low: f64,
    /// Of all draws.
    pub high: f64,
}

/// A target and what became of it.
pub struct Graded {
    /// What was reported.
    pub target: &'static Target,
    /// What came of the model.
    pub predicted: Interval,
    /// What comes of models that know nothing of the mechanism.
    pub nulls: Nulls,
    /// How near that is.
    pub grade: Grade,
}

/// How well a target is predicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Within 1.5 times, and the interval has it.
    Quantitative,
    /// Within 3 times, and the direction is right.
    Order,
    /// The direction is right.
    Direction,
    /// Farther off, or in the other direction.
    NotPredicted,
    /// It is what was fitted to.
    Fitted,
}

impl Graded {
    /// Whether the model is known to say otherwise.
    pub fn is_open(&self) -> bool {
        self.target.standing == Standing::Open
    }
}

impl Grade {
    /// What it is called in a table.
    pub fn name(self) -> &'static str {
        match self {
            Grade::Quantitative => "quantitative",
            Grade::Order => "ratio order",
            Grade::Direction => "direction",
            Grade::NotPredicted => "not predicted",
            Grade::Fitted => "(fitted)",
        }
    }
}

/// All inputs of an incident, each with a value.
pub struct Drawn {
    draw: Draw,
    seed: u64,
    hosts: Vec<Described>,
    inputs: BTreeMap<&'static str, f64>,
}

/// Replays an incident, with so many draws beside the middle of all inputs.
pub fn replay(incident: &'static Incident, draws: u64, seed: u64) -> Result<Replay> {
    let inputs = (incident.inputs)();
    let hosts: Vec<_> =
        incident.hosts.iter().map(|name| hosts::find(name)).collect::<Result<_>>()?;
    let drawn = |index: usize| {
        let seed = seed ^ index as u64;
        let draw = if index == 0 { Draw::Middle } else { Draw::Any(seed) };
        let value = |input: &Input| (input.name, input.number.draw(draw, input.name));
        let inputs = inputs.iter().map(value).collect();
        Drawn { draw, seed, hosts: hosts.clone(), inputs }
    };
    let all = in_parallel(1 + draws as usize, |index| (incident.predict)(&drawn(index)));
    let all: Vec<Predicted> =
        all.into_iter().collect::<Result<_>>().with_context(|| incident.name)?;
    let interval = |value: &dyn Fn(&Predicted) -> f64| Interval::of(all.iter().map(value));
    let row = |(index, (target, nulls)): (usize, (&'static Target, Nulls))| {
        let predicted = interval(&|one| one.values[index]);
        Graded { target, predicted, nulls, grade: grade(target, predicted) }
    };
    let nulls = (incident.nulls)();
    ensure!(nulls.len() == incident.targets.len(), "null models for each target");
    let rows = incident.targets.iter().zip(nulls).enumerate().map(row).collect();
    let fitted = all[0].fitted.map(|_| interval(&|one| one.fitted.unwrap_or(f64::NAN)));
    let figure = incident.figure.map(|figure| figure(&drawn(0), all[0].fitted)).transpose()?;
    let provenance = Provenance::of(&inputs, &hosts);
    Ok(Replay { incident, inputs, provenance, fitted, rows, figure })
}

impl Input {
    /// A number of the report, or of what it cites.
    pub fn found(name: &'static str, value: f64, source: &str) -> Input {
        let origin = Origin::Found(source.to_string());
        Input { name, number: Number::between(value, value, origin, value.to_string()) }
    }

    /// A number that nobody knows, with a reason for its range.
    pub fn assumed(name: &'static str, low: f64, high: f64, unit: &str, why: &str) -> Input {
        let origin = Origin::Assumed(why.to_string());
        let text = format!("{low}..{high} {unit}").trim_end().to_string();
        Input { name, number: Number::between(low, high, origin, text) }
    }
}

impl Provenance {
    fn of(inputs: &[Input], hosts: &[Described]) -> Provenance {
        let mut all = Provenance::default();
        let of_hosts = hosts.iter().flat_map(|host| host.numbers().values());
        for number in of_hosts.chain(inputs.iter().map(|input| &input.number)) {
            match number.origin {
                Origin::Found(_) => all.found += 1,
                Origin::Measured(..) => all.measured += 1,
                Origin::Assumed(_) => all.assumed += 1,
            }
        }
        all
    }
}

impl Interval {
    /// The first of the values, and the lowest and the highest.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Interval {
        Interval {
            middle: values.clone().next().unwrap_or(f64::NAN),
            low: values.clone().fold(f64::INFINITY, f64::min),
            high: values.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl Drawn {
    /// The value of an input.
    fn get(&self, name: &str) -> f64 {
        *self.inputs.get(name).unwrap_or_else(|| panic!("no input {name} is declared"))
    }

    /// The same in whole numbers.
    fn whole(&self, name: &str) -> u64 {
        self.get(name).round() as u64
    }

    /// So many CPUs of a host of the incident.
    fn cpus(&self, host: &str, placement: Placement, cpus: usize) -> Host {
        let host = self.described(host);
        let order = host.topology().ordered(placement);
        let places: Vec<usize> = order[..cpus].iter().map(|cpu| cpu.cpu as usize).collect();
        part_of(host.host(self.draw), &places)
    }

    fn described(&self, name: &str) -> &Described {
        let found = self.hosts.iter().find(|host| host.name == name);
        found.unwrap_or_else(|| panic!("{name} is no host of the incident"))
    }

    /// Simulates a mechanism for so long.
    fn run(&self, operated: &Operated, host: &Host, tasks: usize, length_us: u64) -> Result<Ran> {
        let length = length_us * 1000 * NS;
        let options = Options {
            seed: self.seed,
            warm_up: length / 10,
            length,
            preemption: Preemption::BetweenOperations,
            // As whoever reports a program's time does not pin it.
            pinned: false,
            trace: None,
        };
        once(operated, host, tasks, &options)
    }
}

/// The share of these rows in the time that tasks run.
fn share(outcome: &Outcome, of: &[Row]) -> f64 {
    let time = |is: &dyn Fn(Row) -> bool| {
        let rows = ROWS.iter().zip(outcome.rows).filter(|(row, _)| is(**row));
        rows.map(|(_, time)| time as f64).sum::<f64>()
    };
    time(&|row| of.contains(&row)) / time(&Row::runs)
}

/// How often a range is halved to fit a number: to one in a thousand of a range of 1 to 100.
const HALVINGS: u32 = 12;

/// The number between two at which something reaches a goal that it passes but once: halved by
/// ratio, for no more is known of it than that it is positive. One of the ends where it is
/// beyond them.
fn fitted(range: [f64; 2], goal: f64, mut value: impl FnMut(f64) -> Result<f64>) -> Result<f64> {
    let [mut low, mut high] = range;
    let rises = value(high)? > value(low)?;
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        match (value(middle)? < goal) == rises {
            true => low = middle,
            false => high = middle,
        }
    }
    Ok((low * high).sqrt())
}

/// Ratios that differ from 1 by less say that nothing has changed: by so much runs of the reports
/// differ by themselves.
const SAME: f64 = 1.05;

fn grade(target: &Target, predicted: Interval) -> Grade {
    let Interval { middle, low, high } = predicted;
    let within = |reported: f64, times: f64| {
        middle > 0.0 && (middle / reported).max(reported / middle) <= times
    };
    let direction = |ratio: f64| match ratio {
        ratio if ratio > SAME => 1,
        ratio if ratio < 1.0 / SAME => -1,
        _ => 0,
    };
    let graded = |reported: f64, right: bool| match right {
        true if within(reported, 1.5) && (low..=high).contains(&reported) => Grade::Quantitative,
        true if within(reported, 3.0) => Grade::Order,
        true => Grade::Direction,
        false => Grade::NotPredicted,
    };
    let is = |expected: i32| match direction(middle) == expected {
        true => Grade::Direction,
        false => Grade::NotPredicted,
    };
    match (target.standing, target.reported) {
        (Standing::Anchor, _) => Grade::Fitted,
        (_, Reported::Ratio(reported)) => {
            // No two that differ by so little are told apart.
            let alike = within(reported, SAME);
            graded(reported, alike || direction(middle) == direction(reported))
        }
        // A share is never in the wrong direction, only far too small or large.
        (_, Reported::Share(reported)) => graded(reported, within(reported, 3.0)),
        (_, Reported::Less) => is(-1),
        (_, Reported::More) => is(1),
    }
}

#[cfg(test)]
mod tests;
