//! The program of a lock: its `main`, and its load.

mod check;
#[doc(hidden)]
pub mod load;

use std::process::ExitCode;

use algorithms::locks::LOCKS;
use algorithms::{Lock, manual};
use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};
use host::nearest;
use studies::checks::mutants::{LockSubject, judge_lock};
use studies::checks::with_own_lock;
use studies::simulations::{LockLoad, Variation, lock_point, own_lock_point};

use crate::{mutants, simulate};

/// Check, mutate and simulate one lock
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Search all interleavings of tasks that use the lock
    Check(check::Arguments),
    /// Mutate one memory access after the other, and report which mutants the search catches
    Mutants,
    /// Simulate the lock on a described host, beside locks that come with knee
    Simulate(SimulateArguments),
    /// Print the lock's manual page: the comment at the start of its file
    Describe,
}

#[derive(clap::Args)]
struct SimulateArguments {
    #[command(flatten)]
    conditions: simulate::SimulationArguments,
    /// Locks of knee to compare with
    #[arg(long, value_delimiter = ',', default_value = "ticket,mcs")]
    against: Vec<String>,
    /// ns for which the lock is held
    #[arg(long, default_value_t = 200, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    hold_ns: u64,
}

/// What one program is about: one lock.
struct Subject<'a> {
    /// The name of its file, without `.rs`.
    name: &'a str,
    /// The text of its file.
    source: &'a str,
}

/// The `main` of a lock's program: `name` is that of its file without `.rs`, `source` the file's text. The exit status
/// is 1 if a fault was found, a search was incomplete or a mutant survived, 2 if something else failed.
pub fn main<L: Lock>(name: &str, source: &str) -> ExitCode {
    let Arguments { verb } = Arguments::parse();
    crate::ended(name, act::<L>(&Subject { name, source }, &verb))
}

/// Does what [`main`] does with these words as its command line. Returns whether nothing is wrong.
pub fn run<L: Lock>(name: &str, source: &str, words: &[&str]) -> Result<bool> {
    let words = std::iter::once(name).chain(words.iter().copied());
    let Arguments { verb } = Arguments::try_parse_from(words)?;
    act::<L>(&Subject { name, source }, &verb)
}

fn act<L: Lock>(lock: &Subject, verb: &Verb) -> Result<bool> {
    crate::ensure_seen(lock.name, lock.source)?;
    match verb {
        Verb::Check(arguments) => check::run::<L>(lock, arguments),
        Verb::Mutants => {
            let judged = judge_lock(&LockSubject {
                sources: &[(format!("/{}.rs", lock.name), lock.source)],
                equivalent: L::EQUIVALENT,
                with_tasks: &|size, mutation, act| with_own_lock::<L>(size, mutation, act),
            })?;
            mutants::print(lock.name, "acquire", &judged)
        }
        Verb::Simulate(arguments) => simulate::<L>(lock, arguments),
        Verb::Describe => {
            println!("{}", manual(lock.source));
            Ok(true)
        }
    }
}

/// Lines that are written, and lines that are read, while the lock is held.
const LINES: usize = 2;

fn simulate<L: Lock>(lock: &Subject, arguments: &SimulateArguments) -> Result<bool> {
    let SimulateArguments { conditions, against, hold_ns } = arguments;
    for name in against {
        ensure!(
            LOCKS.iter().any(|listed| listed.name == name),
            "--against {name}: knee has no lock of this name{}",
            nearest(name, LOCKS.iter().map(|listed| listed.name))
        );
    }
    let load = LockLoad {
        work_ns: conditions.work_ns,
        variation: Variation::Exponential,
        hold_ns: *hold_ns,
        reads: 0,
        locks: 1,
        lines_written: LINES,
        lines_read: LINES,
        start_within_ns: conditions.work_ns + hold_ns,
    };
    let names = [lock.name].into_iter().chain(against.iter().map(String::as_str));
    let names: Vec<&str> = names.collect();
    let held = format!(", lock held for {hold_ns} ns");
    conditions.table(&names, &held, |column, conditions, cpus| match column {
        0 => own_lock_point::<L>(lock.name, load, conditions, cpus, cpus),
        _ => lock_point(names[column], load, conditions, cpus, cpus),
    })
}
