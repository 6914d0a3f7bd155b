//! knee finds where Linux code stops scaling with CPUs, what stops it, and whether a change
//! moved the limit. This is the binary; each verb has a file under `verbs/`.

// `println!` and `eprintln!` panic on a closed pipe: `host::terminal` has the replacements.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod browser;
mod defaults;
mod experiment_file;
mod flags;
mod stack;
mod verbs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::flags::{OutputFlags, scan};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use host::terminal::{has_color, talk, trusted};
use host::{pager, paths};
use store::Store;

/// Find where Linux code stops scaling with CPUs.
///
/// Results go to standard output; messages and progress go to standard error.
///
/// Exit status: 0 success; 1 some runs failed (the record says which and why) or a check found
/// a fault; 2 the command failed; 3 a verdict is one that --fail-if names, or a check found no
/// fault and could not check everything; 130 interrupted, finished runs are kept.
#[derive(Parser)]
#[command(name = "knee", version)]
struct Cli {
    /// Directory of the records
    ///
    /// By default $KNEE_RECORDS, else ~/.local/share/knee/records.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Options of all commands")]
    records: Option<PathBuf>,
    #[command(flatten)]
    output: OutputFlags,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List records, loads, algorithms, hosts, experiments or metrics
    List(verbs::list::Arguments),
    /// Show the manual page of a load, algorithm, host or experiment
    Describe(verbs::describe::Arguments),
    /// Check what this host permits and what would disturb a measurement
    Doctor(verbs::doctor::Arguments),
    /// Measure how workloads scale with CPUs
    Run(Box<verbs::run::RunArguments>),
    /// Write the start of a load, lock or mechanism of your own
    New(verbs::new::Arguments),
    /// Compare variants or records, with the confidence of each verdict
    Compare(verbs::compare::Arguments),
    /// Account for the time of an operation, or for a difference
    Explain(Box<verbs::explain::Arguments>),
    /// Find where a curve bends and falls, and which law explains it
    Scale(verbs::scale::Arguments),
    /// Forecast rates with more CPUs than were measured
    Forecast(verbs::forecast::Arguments),
    /// Test whether a verdict survives small changes of the load
    Fragile(verbs::fragile::Arguments),
    /// Find the commit that moved a metric, from noisy runs
    Bisect(Box<verbs::bisect::Arguments>),
    /// Measure what each patch of a series does
    Series(Box<verbs::series::Arguments>),
    /// Measure one experiment on many hosts, with `knee chunk`
    Fleet(verbs::fleet::Arguments),
    /// Measure chunks of a fleet on this host
    #[command(hide = true)]
    Chunk(verbs::chunk::Arguments),
    /// Find out which of several options move a metric
    Screen(Box<verbs::screen::Arguments>),
    /// Model-check algorithms: search all interleavings of their tasks
    Check(lab::check::Arguments),
    /// Simulate algorithms on a described host, with up to 256 CPUs
    Simulate(Box<lab::simulate::SimulateArguments>),
    /// Measure this host and print it as a described host
    Calibrate(lab::calibrate::Arguments),
    /// Simulate published measurements, and compare with them
    Replay(lab::replay::ReplayArguments),
    /// Boot a kernel in a virtual machine, inspect it or run a program
    Boot(Box<verbs::boot::Arguments>),
    /// Show a record as tables and curves
    Show(verbs::show::Arguments),
    /// Report records, replays or simulations as HTML, mail or Markdown
    Report(Box<verbs::report::Arguments>),
    /// Show all records in a browser on this host
    Serve(verbs::serve::Arguments),
    /// Label a record, or attach a note to it
    Note(verbs::note::Arguments),
    /// Remove records
    Rm(verbs::rm::Arguments),
    Prune(verbs::prune::Arguments),
    /// Build, list and remove kernels to boot and compare
    Kernel(verbs::kernel::Arguments),
    /// Import results of other tools as a record
    Import(verbs::import::Arguments),
    /// Export records for other tools
    Export(verbs::export::Arguments),
    /// Estimate how often verdicts are right, beside other tools' rules
    Selfcheck(lab::selfcheck::Arguments),
    /// Print a script for completions in a shell
    Completions(verbs::completions::Arguments),
    /// Print the JSON Schema of what a verb prints with --json
    #[command(hide = true)]
    Schema(verbs::schema::Arguments),
    /// Write the manual pages into a directory (internal)
    #[command(hide = true)]
    ManPages(verbs::man_pages::Arguments),
    /// Run as process 1 of a guest (internal)
    #[command(hide = true)]
    Init,
    /// Measure for knee on another host, over standard input and output (internal)
    #[command(hide = true)]
    Remote(verbs::remote::Arguments),
    /// Go on with `knee run --on metal` after a boot (internal)
    #[command(hide = true)]
    Metal(verbs::metal::Arguments),
    /// Run one job from standard input (internal)
    #[command(hide = true)]
    Worker(verbs::worker::Arguments),
}

fn main() -> ExitCode {
    if let Err(error) = host::check_random() {
        return fail(&error);
    }
    stack::on_large_stack(go)
}

/// Reads the command line and does what it says.
fn go() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    // A closed pipe (`knee list | head`) kills knee silently, as it kills every filter. Exempt
    // are the worker, whose reader may die first, the server, whose readers go at any time, and verbs that
    // must clean up after themselves.
    let survives_closed_pipe = matches!(
        cli.verb,
        Verb::Worker(_)
            | Verb::Run(_)
            | Verb::Fragile(_)
            | Verb::Explain(_)
            | Verb::Kernel(_)
            | Verb::Bisect(_)
            | Verb::Series(_)
            | Verb::Screen(_)
            | Verb::Chunk(_)
            | Verb::Remote(_)
            | Verb::Serve(_)
    );
    if !survives_closed_pipe {
        // SAFETY: restores a signal's default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    talk(format_args!("knee: {error:#}"));
    ExitCode::from(2)
}

/// Reads the command line, with the user's defaults. A help page or an error is printed here: what the user
/// typed may hold anything.
fn parse() -> Result<Cli, ExitCode> {
    let words: Vec<OsString> = std::env::args_os().collect();
    scan(words.iter().map(|word| word.to_string_lossy().into_owned())).apply();
    let command = Cli::command().term_width(text::stdout_width());
    let command = command
        .mut_subcommand("explain", verbs::explain::with_short_help)
        .mut_subcommand("screen", verbs::screen::with_short_help);
    let (line, defaults) = defaults::apply(words, &command).map_err(|error| fail(&error))?;
    let mut command = command;
    let matches = command.try_get_matches_from_mut(line);
    let mut cli = matches
        .and_then(|matches| verbs::bisect::check_action(&mut command, matches))
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| help_or_error(&error))?;
    cli.output.apply();
    if let Verb::Run(arguments) = &mut cli.verb {
        arguments.what.defaults = defaults;
    }
    Ok(cli)
}

/// Prints a help page on standard output, or what is wrong with the command line on standard error.
fn help_or_error(error: &clap::Error) -> ExitCode {
    let text = error.render();
    let printed = if error.use_stderr() {
        talk(text.to_string().trim_end());
        Ok(())
    } else if has_color() {
        pager::page(&trusted(&text.ansi().to_string()))
    } else {
        pager::page(&text.to_string())
    };
    if let Err(why) = printed {
        return fail(&why);
    }
    ExitCode::from(error.exit_code() as u8)
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    let store = || {
        let given = cli.records.as_deref();
        Ok::<_, anyhow::Error>(Store::at(given.map_or_else(paths::records, paths::records_at)?))
    };
    match cli.verb {
        Verb::List(arguments) => verbs::list::run(&arguments, &store()?),
        Verb::Describe(arguments) => verbs::describe::run(&arguments),
        Verb::Doctor(arguments) => verbs::doctor::run(arguments),
        Verb::Run(arguments) => verbs::run::run(&arguments, &store()?),
        Verb::New(arguments) => verbs::new::run(&arguments),
        Verb::Compare(arguments) => verbs::compare::run(&arguments, &store()?),
        Verb::Explain(arguments) => verbs::explain::run(*arguments, &store()?),
        Verb::Scale(arguments) => verbs::scale::run(&arguments, &store()?),
        Verb::Forecast(arguments) => verbs::forecast::run(&arguments, &store()?),
        Verb::Fragile(arguments) => verbs::fragile::run(&arguments, &store()?),
        Verb::Bisect(arguments) => verbs::bisect::run(&arguments, &store()?),
        Verb::Series(arguments) => verbs::series::run(&arguments, &store()?),
        Verb::Screen(arguments) => verbs::screen::run(&arguments, &store()?),
        Verb::Fleet(arguments) => verbs::fleet::run(arguments, &store()?),
        Verb::Chunk(arguments) => verbs::chunk::run(&arguments),
        Verb::Check(arguments) => lab::check::run(&arguments),
        Verb::Simulate(arguments) => lab::simulate::run(&arguments),
        Verb::Calibrate(arguments) => lab::calibrate::run(&arguments),
        Verb::Remote(arguments) => verbs::remote::run(&arguments),
        Verb::Replay(arguments) => lab::replay::run(&arguments),
        Verb::Show(arguments) => verbs::show::run(&arguments, &store()?),
        Verb::Report(arguments) => verbs::report::run(&arguments, &store()?),
        Verb::Serve(arguments) => verbs::serve::run(&arguments, &store()?),
        Verb::Note(arguments) => verbs::note::run(&arguments, &store()?),
        Verb::Rm(arguments) => verbs::rm::run(&arguments, &store()?),
        Verb::Prune(arguments) => verbs::prune::run(&arguments, &store()?),
        Verb::Kernel(arguments) => verbs::kernel::run(&arguments),
        Verb::Import(arguments) => verbs::import::run(&arguments, &store()?),
        Verb::Export(arguments) => verbs::export::run(&arguments, &store()?),
        Verb::Selfcheck(arguments) => lab::selfcheck::run(&arguments),
        Verb::Boot(arguments) => verbs::boot::run(&arguments),
        Verb::Completions(arguments) => verbs::completions::run(&arguments, Cli::command()),
        Verb::Schema(arguments) => verbs::schema::run(&arguments),
        Verb::ManPages(arguments) => verbs::man_pages::run(&arguments, Cli::command()),
        Verb::Init => runner::places::guest::init::run().map(|()| ExitCode::SUCCESS),
        Verb::Metal(arguments) => verbs::metal::run(&arguments),
        Verb::Worker(arguments) => verbs::worker::run(&arguments),
    }
}
