//! The command line: every verb, and the verbs below it. `help.rs` has the groups in which they are listed.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, Parser, Subcommand};

use crate::flags::OutputFlags;
use crate::verbs;

/// Find where Linux code stops scaling with CPUs.
///
/// Results go to standard output; messages and progress go to standard error.
#[derive(Parser)]
#[command(name = "knee", version, disable_help_flag = true, disable_help_subcommand = true)]
pub struct Cli {
    /// Directory of the records
    ///
    /// By default $KNEE_RECORDS, else ~/.local/share/knee/records.
    #[arg(long, global = true, value_name = "DIR", help_heading = "Options of all commands")]
    pub records: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputFlags,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Run(Box<verbs::run::RunArguments>),
    Fleet(verbs::fleet::Arguments),
    Kernel(verbs::kernel::Arguments),
    Doctor(Box<verbs::doctor::Arguments>),
    Compare(Compare),
    Scale(Scale),
    Bisect(Box<Bisect>),
    Gate(Box<verbs::gate::Arguments>),
    Watch(verbs::watch::Arguments),
    Explain(Box<verbs::explain::Arguments>),
    Top(verbs::top::Arguments),
    Conflicts(verbs::conflicts::Arguments),
    Check(lab::check::Arguments),
    Simulate(Box<Simulate>),
    New(verbs::new::Arguments),
    List(verbs::list::Arguments),
    Show(verbs::show::Arguments),
    Report(Box<verbs::report::Arguments>),
    Serve(verbs::serve::Arguments),
    Record(verbs::record::Arguments),
    #[command(hide = true)]
    Help(verbs::help::Arguments),
    #[command(hide = true)]
    Selfcheck(lab::selfcheck::Arguments),
    #[command(hide = true)]
    Completions(verbs::completions::Arguments),
    /// Print what can stand at the cursor of a shell (internal)
    #[command(hide = true)]
    Complete(verbs::complete::Arguments),
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

/// Compare variants or records, with the confidence of each verdict
///
/// A verdict is faster, slower, same or cannot tell, with the interval of the change. Records that were not measured in turn
/// get one only where they differ more than hosts drift. See `knee help compare`.
#[derive(Args)]
pub struct Compare {
    #[command(subcommand)]
    pub action: Option<CompareAction>,
    #[command(flatten)]
    pub arguments: verbs::compare::Arguments,
}

#[derive(Subcommand)]
pub enum CompareAction {
    Fragile(verbs::fragile::Arguments),
}

/// Find where a curve bends and falls, and which law explains it
///
/// A curve is a record's, from four CPU counts on, or a file's. The knee, a cliff and a fall have intervals, and a law is
/// named where it explains the curve better than the others. See `knee help scaling`.
#[derive(Args)]
pub struct Scale {
    #[command(subcommand)]
    pub action: Option<ScaleAction>,
    #[command(flatten)]
    pub arguments: verbs::scale::Arguments,
}

#[derive(Subcommand)]
pub enum ScaleAction {
    Forecast(verbs::forecast::Arguments),
}

/// Find the commit that moved a metric, from noisy runs
///
/// Commits are built and run in folders of knee's own; the repository is only read. Both ends are measured
/// first, in turn: without a difference, the answer is NOT REPRODUCED. Then the commit is tested that tells
/// most for what its build and runs cost, until one is probable enough. It is compared with its parent by
/// runs of their own before it is blamed. Nothing is built while something is measured. See
/// `knee help bisect`.
///
/// Exit status: 0 a commit is named and confirmed; 1 a set, several changes, or not confirmed; 2 the bisection
/// failed or was refused; 3 not reproduced; 130 interrupted, `--resume` goes on.
#[derive(Args)]
pub struct Bisect {
    #[command(subcommand)]
    pub action: Option<BisectAction>,
    #[command(flatten)]
    pub search: verbs::bisect::SearchArguments,
}

#[derive(Subcommand)]
pub enum BisectAction {
    Series(Box<verbs::series::Arguments>),
    Screen(Box<verbs::screen::Arguments>),
    #[command(flatten)]
    Log(verbs::bisect::Action),
}

/// Simulate algorithms on a described host, with up to 256 CPUs
///
/// The source that `knee check` searches runs in virtual time, where each access costs what it costs on the host. Unknown
/// costs are ranges, so rates are intervals. See `knee help simulator`.
#[derive(Args)]
#[command(subcommand_negates_reqs = true)]
pub struct Simulate {
    #[command(subcommand)]
    pub action: Option<SimulateAction>,
    #[command(flatten)]
    pub arguments: lab::simulate::SimulateArguments,
}

#[derive(Subcommand)]
pub enum SimulateAction {
    Operation(Box<verbs::simulate_operation::Arguments>),
    Replay(lab::replay::ReplayArguments),
}

impl Verb {
    /// Whether the verb goes on when its reader closes the pipe: it must clean up, or its readers go at any time.
    /// Other verbs die silently then (`knee list | head`), as every filter does.
    pub fn survives_closed_pipe(&self) -> bool {
        match self {
            Verb::Fleet(arguments) => arguments.measures(),
            Verb::Compare(compare) => compare.action.is_some(),
            Verb::Watch(arguments) => arguments.measures(),
            Verb::Worker(_)
            | Verb::Run(_)
            | Verb::Explain(_)
            | Verb::Top(_)
            | Verb::Kernel(_)
            | Verb::Bisect(_)
            | Verb::Gate(_)
            | Verb::Remote(_)
            | Verb::Serve(_) => true,
            _ => false,
        }
    }
}

/// Refuses arguments of a verb before the name of one below it. Options of all commands may stand there:
/// `knee bisect --records DIR log`.
pub fn check_action(knee: &mut Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let Some((name, found)) = matches.subcommand() else { return Ok(()) };
    let Some(action) = found.subcommand_name() else { return Ok(()) };
    let Some(verb) = knee.find_subcommand_mut(name) else { return Ok(()) };
    let is_given = |argument: &&Arg| {
        let source = found.value_source(argument.get_id().as_str());
        !argument.is_global_set() && source == Some(ValueSource::CommandLine)
    };
    let Some(argument) = verb.get_arguments().find(is_given).map(ToString::to_string) else {
        return Ok(());
    };
    let why = format!(
        "{argument} does not go with `{action}`: leave it out, or write it after that word"
    );
    Err(verb.error(ErrorKind::ArgumentConflict, why))
}
