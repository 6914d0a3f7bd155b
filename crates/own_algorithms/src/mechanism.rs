//! The program of a mechanism: its `main`, and its load.

mod check;
#[doc(hidden)]
pub mod load;

use std::process::ExitCode;

use algorithms::manual;
use algorithms::mechanisms::{ListedMechanism, Mechanism};
use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use host::unknown_of;
use studies::checks::mutants::{MechanismSubject, judge_mechanism_subject};
use studies::checks::with_own_mechanism;
use studies::simulations::mechanisms::{MechanismLoad, own_mechanism_point};

use crate::{mutants, simulate};

/// Check, mutate and simulate one mechanism in all its designs
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Search all interleavings of tasks that operate
    Check(check::Arguments),
    /// Mutate one memory access after the other, and report which mutants the search catches
    Mutants,
    /// Simulate the designs on a described host
    Simulate(SimulateArguments),
    /// Print the mechanism's manual page: the comment at the start of its file
    Describe,
}

#[derive(clap::Args)]
struct SimulateArguments {
    #[command(flatten)]
    conditions: simulate::SimulationArguments,
    /// Designs to simulate [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    design: Vec<String>,
    /// Give a setting or choice of the mechanism another value than its default
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
}

/// The `main` of a mechanism's program: `source` is the text of its file `NAME.rs`. The exit status is 1 if a fault was
/// found, a search was incomplete or a mutant survived, 2 if something else failed.
pub fn main<X: Mechanism>(source: &'static str) -> ExitCode {
    let Arguments { verb } = Arguments::parse();
    crate::ended(X::NAME, act::<X>(source, &verb))
}

/// Does what [`main`] does with these words as its command line. Returns whether nothing is wrong.
pub fn run<X: Mechanism>(source: &'static str, words: &[&str]) -> Result<bool> {
    let words = std::iter::once(X::NAME).chain(words.iter().copied());
    let Arguments { verb } = Arguments::try_parse_from(words)?;
    act::<X>(source, &verb)
}

fn act<X: Mechanism>(source: &'static str, verb: &Verb) -> Result<bool> {
    crate::ensure_seen(X::NAME, source)?;
    let mechanism = ListedMechanism::new::<X>(source);
    match verb {
        Verb::Check(arguments) => check::run::<X>(&mechanism, arguments),
        Verb::Mutants => {
            let judged = judge_mechanism_subject(&MechanismSubject {
                mechanism: &mechanism,
                with_tasks: &|design, scenario, mutation, act| {
                    with_own_mechanism::<X>(&mechanism, design, scenario, mutation, act)
                },
            })?;
            mutants::print(X::NAME, "operation", &judged)
        }
        Verb::Simulate(arguments) => simulate::<X>(mechanism, arguments),
        Verb::Describe => {
            println!("{}", manual(source));
            Ok(true)
        }
    }
}

/// The designs of these names, or all if none is named.
fn designs(mechanism: &ListedMechanism, names: &[String]) -> Result<Vec<&'static str>> {
    let all = mechanism.designs();
    for name in names {
        if !all.contains(&name.as_str()) {
            bail!("{}", unknown_of("design", name, &all));
        }
    }
    let is_named = |design: &&str| names.is_empty() || names.iter().any(|name| name == design);
    Ok(all.into_iter().filter(is_named).collect())
}

/// `name=value`.
fn setting(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("write NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

fn simulate<X: Mechanism>(
    mechanism: ListedMechanism,
    arguments: &SimulateArguments,
) -> Result<bool> {
    let SimulateArguments { conditions, design, set } = arguments;
    let designs = designs(&mechanism, design)?;
    // A load refers to its mechanism for as long as the program runs.
    let mechanism: &'static ListedMechanism = Box::leak(Box::new(mechanism));
    let load = |design| MechanismLoad {
        mechanism,
        design,
        over: String::new(),
        given: set.clone(),
        work_ns: conditions.work_ns,
    };
    let loads: Vec<MechanismLoad> = designs.into_iter().map(load).collect();
    let names: Vec<String> = loads.iter().map(MechanismLoad::name).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    conditions.table(&names, "", |column, conditions, cpus| {
        own_mechanism_point::<X>(&loads[column], conditions, cpus, cpus)
    })
}
