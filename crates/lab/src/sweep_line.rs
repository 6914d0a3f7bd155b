//! The sweep that a command line describes: the verbs that can be sweeps.

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use fleet::PlannedSweep;

use crate::{replay, selfcheck, simulate};
use sweeps::{AnySweep, words};

/// A command line without options of all commands.
#[derive(Parser)]
#[command(name = "knee")]
struct Line {
    #[command(subcommand)]
    verb: SweepVerb,
}

#[derive(Subcommand)]
enum SweepVerb {
    Simulate(Box<simulate::Arguments>),
    Replay(replay::Arguments),
    Selfcheck(selfcheck::Arguments),
}

/// The sweep of a command line that begins with its verb.
pub fn parse(words: &[String]) -> Result<Box<dyn AnySweep>> {
    let line = ["knee".to_string()].into_iter().chain(words.iter().cloned());
    let line = Line::try_parse_from(line)
        .with_context(|| format!("reading {:?} as a sweep", words.join(" ")))?;
    // Before anything is read or compiled: the words may be a stranger's.
    let only_here = match &line.verb {
        SweepVerb::Simulate(arguments) => simulate::only_here(arguments),
        SweepVerb::Replay(arguments) => replay::only_here(arguments),
        SweepVerb::Selfcheck(arguments) => selfcheck::only_here(arguments),
    };
    if let Some(why) = only_here {
        bail!("{why}: other hosts cannot compute it");
    }
    Ok(match line.verb {
        SweepVerb::Simulate(arguments) => Box::new(simulate::sweep(*arguments, false)?),
        SweepVerb::Replay(arguments) => Box::new(replay::sweep(arguments, false)?),
        SweepVerb::Selfcheck(arguments) => Box::new(selfcheck::sweep(arguments)?),
    })
}

/// The sweep of a plan. Refuses words of which another knee makes other pieces.
pub fn planned(sweep: &PlannedSweep) -> Result<Box<dyn AnySweep>> {
    let parsed = parse(&sweep.words)?;
    ensure!(
        parsed.pieces() == sweep.pieces as usize,
        "it makes {} pieces of {:?}, the plan has {}: use the knee that planned it",
        parsed.pieces(),
        sweep.words.join(" "),
        sweep.pieces
    );
    Ok(parsed)
}

/// The words that say what is computed, of a command line that begins with its verb.
pub fn canonical(line: &[String]) -> Result<Vec<String>> {
    let verb = line.first().map(String::as_str).unwrap_or_default();
    let whole = [&["knee".to_string()], line].concat();
    match verb {
        "simulate" => words::<simulate::Arguments>("simulate", whole),
        "replay" => words::<replay::Arguments>("replay", whole),
        "selfcheck" => words::<selfcheck::Arguments>("selfcheck", whole),
        _ => bail!("{verb:?} is no sweep: those are simulate, replay and selfcheck"),
    }
}
