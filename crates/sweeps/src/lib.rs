//! Sweeps: verbs that compute independent pieces. Here the pieces are computed side by side; with `--on`, by other
//! hosts, as chunks of a fleet. What is printed is the same.

// `println!` and `eprintln!` panic on a closed pipe: `host::terminal` has the replacements.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

pub mod elsewhere;
pub mod flags;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use clap::parser::ValueSource;
use clap::{ArgAction, Command};
use fleet::{Contents, Folder, Plan, PlannedSweep, cut_sweep};
use host::{in_parallel, signals};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::Store;

use crate::elsewhere::Fleet;
use crate::flags::{HOSTS_HEADING, SweepFlags, with_options_of_all};

/// Independent pieces whose results together are what a verb prints.
pub trait Sweep {
    /// What is computed for a piece. As JSON it is the same on every host.
    type Piece: Serialize + DeserializeOwned + Send;

    /// Number of pieces.
    fn pieces(&self) -> usize;

    /// Computes one piece.
    fn compute(&self, piece: usize) -> Result<Self::Piece>;

    /// Prints what all pieces together show. They come in order.
    fn show(&self, pieces: Vec<Self::Piece>) -> Result<ExitCode>;

    /// Whether a piece uses all CPUs by itself, so that pieces are computed one after the other.
    fn fills_host(&self) -> bool {
        false
    }
}

/// Computes all pieces on this host and prints what they show.
pub fn here<S: Sweep + Sync>(sweep: &S) -> Result<ExitCode> {
    let pieces = each(sweep.fills_host(), sweep.pieces(), |piece| sweep.compute(piece));
    sweep.show(pieces.into_iter().collect::<Result<_>>()?)
}

/// The results of `work` for each number below `parts`: one after the other, or side by side.
fn each<T: Send>(
    one_by_one: bool,
    parts: usize,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    if one_by_one { (0..parts).map(work).collect() } else { in_parallel(parts, work) }
}

/// A sweep of any verb, whose results are texts.
pub trait AnySweep: Sync {
    fn pieces(&self) -> usize;
    fn text(&self, piece: usize) -> Result<String>;
    fn show_texts(&self, texts: &[String]) -> Result<ExitCode>;
    fn is_one_by_one(&self) -> bool;
}

impl<S: Sweep + Sync> AnySweep for S {
    fn pieces(&self) -> usize {
        Sweep::pieces(self)
    }

    fn text(&self, piece: usize) -> Result<String> {
        let text = serde_json::to_string(&self.compute(piece)?)?;
        // An infinite number has no form in JSON.
        serde_json::from_str::<S::Piece>(&text).with_context(|| {
            format!("piece {piece} has a result that cannot be kept: leave --on out")
        })?;
        Ok(text)
    }

    fn show_texts(&self, texts: &[String]) -> Result<ExitCode> {
        let read = |(piece, text): (usize, &String)| {
            serde_json::from_str(text)
                .with_context(|| format!("reading the result of piece {piece}"))
        };
        self.show(texts.iter().enumerate().map(read).collect::<Result<_>>()?)
    }

    fn is_one_by_one(&self) -> bool {
        self.fills_host()
    }
}

/// Computes pieces until a signal comes. `keep` gets the text of each and how many are done, one at a
/// time. Returns whether a signal ended it.
pub fn compute(
    sweep: &dyn AnySweep,
    pieces: &[u32],
    keep: impl FnMut(u32, &str, u64) -> Result<()> + Send,
) -> Result<bool> {
    let keep = Mutex::new((keep, 0));
    let computed = each(sweep.is_one_by_one(), pieces.len(), |index| {
        if signals::received().is_some() {
            return Ok(true);
        }
        let text = sweep.text(pieces[index] as usize)?;
        let mut locked = keep.lock().unwrap_or_else(PoisonError::into_inner);
        let (keep, done) = &mut *locked;
        *done += 1;
        keep(pieces[index], &text, *done).map(|()| false)
    });
    let interrupted = computed.into_iter().collect::<Result<Vec<bool>>>()?;
    Ok(interrupted.contains(&true))
}

/// A lease for pieces, of which nobody knows how long they take. Where it is too short, a piece is computed twice,
/// with the same result.
const LEASE_S: f64 = 600.0;

/// The plan of a fleet for a sweep that this command line computes.
pub fn plan(sweep: &dyn AnySweep, words: Vec<String>, lease_s: Option<f64>) -> Result<Plan> {
    let pieces = u32::try_from(sweep.pieces()).context("counting the pieces of a sweep")?;
    ensure!(pieces > 0, "nothing is to be computed");
    Ok(Plan {
        format: fleet::FORMAT,
        knee: env!("CARGO_PKG_VERSION").to_string(),
        command: host::command_line(),
        architecture: std::env::consts::ARCH.to_string(),
        kernel: String::new(),
        contents: Contents::Sweep(PlannedSweep { words, pieces }),
        lease_s: lease_s.unwrap_or(LEASE_S),
        chunks: cut_sweep(pieces),
    })
}

/// Computes a sweep where the flags say, which were checked: here, or on other hosts.
pub fn run<S: Sweep + Sync, A: clap::Args>(
    verb: &'static str,
    sweep: &S,
    flags: &SweepFlags,
    store: impl FnOnce() -> Result<Store>,
) -> Result<ExitCode> {
    let Some(target) = flags.target() else { return here(sweep) };
    let words = words::<A>(verb, host::command_line())?;
    let plan = || plan(sweep, words, flags.lease_s());
    let store = store()?;
    let place = elsewhere::place(&target, &store)?;
    let fleet = elsewhere::open_or_create(&target, &place, plan, |there, new| {
        there.contents == new.contents
    })?;
    let done = |fleet: &Fleet| {
        let shown = show(sweep, &fleet.folder, &fleet.plan)?;
        fleet.forget();
        Ok(shown)
    };
    elsewhere::run(&target, &fleet, &done)
}

/// Prints what the pieces in a fleet's directory show.
pub fn show(sweep: &dyn AnySweep, folder: &Folder, plan: &Plan) -> Result<ExitCode> {
    let texts = fleet::collect_pieces(folder, plan)?;
    let there = || format!("the results in {}", folder.root().display());
    sweep.show_texts(&texts).with_context(there)
}

/// The words of a command line that say what is computed: its verb, and the arguments of the verb without those
/// about other hosts and about output, and without its answer to a question.
pub fn words<A: clap::Args>(verb: &'static str, line: Vec<String>) -> Result<Vec<String>> {
    let command =
        with_options_of_all(Command::new("knee")).subcommand(A::augment_args(Command::new(verb)));
    let arguments = command.find_subcommand(verb).context("a verb of knee")?.clone();
    let matches = command.try_get_matches_from(line)?;
    let (_, given) = matches.subcommand().context("a command line with a verb")?;
    let mut words = vec![verb.to_string()];
    for argument in arguments.get_arguments() {
        let id = argument.get_id().as_str();
        let is_given = given.value_source(id) == Some(ValueSource::CommandLine);
        if !is_given || id == "yes" || argument.get_help_heading() == Some(HOSTS_HEADING) {
            continue;
        }
        let is_switch = matches!(argument.get_action(), ArgAction::SetTrue);
        if let Some(flag) = argument.get_long().filter(|_| is_switch) {
            words.push(format!("--{flag}"));
            continue;
        }
        for value in given.get_raw(id).into_iter().flatten() {
            let value = value.to_str().context("an argument is not UTF-8")?;
            words.push(match argument.get_long() {
                Some(flag) => format!("--{flag}={value}"),
                None => value.to_string(),
            });
        }
    }
    Ok(words)
}

/// Why only this host can do something about a file.
pub fn why_a_file(name: &str) -> String {
    format!("{name} is a file of this host, and only what comes with knee is the same everywhere")
}
