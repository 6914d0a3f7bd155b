//! knee finds where Linux code stops scaling with CPUs, says what stops it, and says
//! whether a change moved it. This is the binary: one verb a file under `verbs/`.

// Macros that panic when nobody listens: `talk` has what to use instead.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod experiment_file;
mod flags;
mod verbs;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use store::Store;

/// Finds where Linux code stops scaling with CPUs.
///
/// Results go to standard output, talk and progress to standard error.
///
/// Exit status: 0 done; 1 some runs failed (the record says which and why), or a check found
/// something wrong; 2 it could not
/// be done at all; 130 interrupted, with the finished runs kept.
#[derive(Parser)]
#[command(name = "knee", version, max_term_width = 100)]
struct Cli {
    /// Folder of the records [env: KNEE_RECORDS] [default: ~/.local/share/knee/records]
    #[arg(long, global = true, value_name = "DIR")]
    records: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List records, workloads, algorithms, hosts, experiments, commands, metrics
    List(verbs::list::Arguments),
    /// Explain a workload, an algorithm, an experiment, a command, a metric
    Describe(verbs::describe::Arguments),
    /// Say what this host allows and what would disturb a measurement
    Doctor(verbs::doctor::Arguments),
    /// Measure how workloads scale with CPUs
    Run(Box<verbs::run::Arguments>),
    /// Say what differs between variants or records, and how sure that is
    Compare(verbs::compare::Arguments),
    /// Say where the time of an operation goes, and what makes the difference between two
    Explain(Box<verbs::explain::Arguments>),
    /// Search what the tasks of an algorithm can do together, in every order
    Check(verbs::check::Arguments),
    /// Time algorithms on a described host, at up to 256 CPUs
    Simulate(verbs::simulate::Arguments),
    /// Measure this host, to simulate on it
    Calibrate(verbs::calibrate::Arguments),
    /// Predict what public reports of five incidents say, from their mechanisms
    Replay(verbs::replay::Arguments),
    /// Boot a kernel in a virtual machine and look inside
    Boot(Box<verbs::boot::Arguments>),
    /// Show a record: tables and curves
    Show(verbs::show::Arguments),
    /// Build kernels from a git repository, to boot and compare
    Kernel(verbs::kernel::Arguments),
    /// Make a record of other tools' results
    Import(verbs::import::Arguments),
    /// Write a record, or many, for other tools
    Export(verbs::export::Arguments),
    /// Say how often verdicts are right, by simulation, beside other tools' rules
    Selfcheck(verbs::selfcheck::Arguments),
    /// Print a script for completions in a shell
    Completions(verbs::completions::Arguments),
    /// Write the manual pages into a directory (internal)
    #[command(hide = true)]
    ManPages(verbs::man_pages::Arguments),
    /// Be process 1 of a guest (internal)
    #[command(hide = true)]
    Init,
    /// Do one job from standard input (internal)
    #[command(hide = true)]
    Worker(verbs::worker::Arguments),
}

fn main() -> ExitCode {
    // A closed pipe (`knee list | head`) ends us quietly, as it ends every filter. Not the
    // worker, whose reader may die first, nor what has something to put back.
    let cli = Cli::parse();
    let quiet =
        !matches!(cli.verb, Verb::Worker(_) | Verb::Run(_) | Verb::Explain(_) | Verb::Kernel(_));
    if quiet {
        // SAFETY: restores a signal's default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => {
            host::stderr::talk(format_args!("knee: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let store =
        || Ok::<_, anyhow::Error>(Store::at(cli.records.map_or_else(host::paths::records, Ok)?));
    match cli.verb {
        Verb::List(arguments) => verbs::list::run(&arguments, &store()?),
        Verb::Describe(arguments) => verbs::describe::run(&arguments),
        Verb::Doctor(arguments) => verbs::doctor::run(arguments),
        Verb::Run(arguments) => verbs::run::run(&arguments, &store()?),
        Verb::Compare(arguments) => verbs::compare::run(&arguments, &store()?),
        Verb::Explain(arguments) => verbs::explain::run(*arguments, &store()?),
        Verb::Check(arguments) => verbs::check::run(&arguments),
        Verb::Simulate(arguments) => verbs::simulate::run(&arguments),
        Verb::Calibrate(arguments) => verbs::calibrate::run(&arguments),
        Verb::Replay(arguments) => verbs::replay::run(&arguments),
        Verb::Show(arguments) => verbs::show::run(&arguments, &store()?),
        Verb::Kernel(arguments) => verbs::kernel::run(&arguments),
        Verb::Import(arguments) => verbs::import::run(&arguments, &store()?),
        Verb::Export(arguments) => verbs::export::run(&arguments, &store()?),
        Verb::Selfcheck(arguments) => verbs::selfcheck::run(&arguments),
        Verb::Boot(arguments) => verbs::boot::run(&arguments),
        Verb::Completions(arguments) => verbs::completions::run(&arguments, Cli::command()),
        Verb::ManPages(arguments) => verbs::man_pages::run(&arguments, Cli::command()),
        Verb::Init => runner::places::guest::init::run().map(|()| ExitCode::SUCCESS),
        Verb::Worker(arguments) => verbs::worker::run(&arguments),
    }
}
