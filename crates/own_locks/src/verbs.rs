//! The command line of a lock's own program.

use std::process::ExitCode;

use algorithms::{Lock, manual};
use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{Subject, check, mutants, simulate};

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
    Simulate(simulate::Arguments),
    /// Print the lock's manual page: the comment at the start of its file
    Describe,
}

/// The `main` of a lock's program: `name` is that of its file without `.rs`, `source` the file's text. The exit status
/// is 1 if a fault was found, a search was incomplete or a mutant survived, 2 if something else failed.
pub fn main<L: Lock>(name: &str, source: &str) -> ExitCode {
    let arguments = Arguments::parse();
    match run::<L>(&Subject { name, source }, &arguments.verb) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether nothing is wrong.
fn run<L: Lock>(lock: &Subject, verb: &Verb) -> Result<bool> {
    match verb {
        Verb::Check(arguments) => check::run::<L>(lock, arguments),
        Verb::Mutants => mutants::run::<L>(lock),
        Verb::Simulate(arguments) => simulate::run::<L>(lock, arguments),
        Verb::Describe => {
            println!("{}", manual(lock.source));
            Ok(true)
        }
    }
}
