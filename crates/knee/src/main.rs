//! knee finds where Linux code stops scaling with CPUs, what stops it, and whether a change
//! moved the limit. This is the binary; each verb has a file under `verbs/`.

// `println!` and `eprintln!` panic on a closed pipe: `host::terminal` has the replacements.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod browser;
mod command_line;
mod completion;
mod defaults;
mod experiment_file;
mod flags;
mod guides;
mod help;
mod named;
mod packed;
mod renamed;
mod results;
mod stack;
mod verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory, FromArgMatches};
use host::terminal::{has_color, talk, trusted};
use host::{pager, paths};
use store::Store;

use crate::command_line::{
    BisectAction, Cli, Compare, CompareAction, Scale, ScaleAction, SimulateAction, Verb,
};
use crate::flags::scan;

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
    if !cli.verb.survives_closed_pipe() {
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

/// Reads the command line, with new names for old ones and the user's defaults. A help page or an error is printed
/// here: what the user typed may hold anything.
fn parse() -> Result<Cli, ExitCode> {
    let words = words();
    scan(words.iter().map(|word| word.to_string_lossy().into_owned())).apply();
    let mut command = help::prepared(Cli::command(), text::stdout_width());
    let words = renamed::with_new_names(words, &command);
    let shown = words.iter().map(|word| word.to_string_lossy().into_owned());
    host::set_command_line(shown.collect());
    let (line, defaults) =
        defaults::apply(words.clone(), &command).map_err(|error| fail(&error))?;
    let matches = command.try_get_matches_from_mut(line);
    let read = matches.and_then(|matches| {
        command_line::check_action(&mut command, &matches)?;
        Cli::from_arg_matches(&matches)
    });
    let mut cli = read.map_err(|error| match help::of_verb(&error, &command, &words) {
        Some(text) => {
            talk(text.trim_end());
            ExitCode::from(2)
        }
        None => help_or_error(&error, &command, &words),
    })?;
    cli.output.apply();
    if let Verb::Run(arguments) = &mut cli.verb {
        arguments.what.defaults = defaults;
    }
    Ok(cli)
}

/// The words of the command line. To a guest's init, the kernel also gives the words of its own command line that it does
/// not know, before those that are meant for init.
fn words() -> Vec<OsString> {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let is_init = std::process::id() == 1 && words.first().is_some_and(|path| path == "/knee");
    if is_init && words.last().is_some_and(|word| word == "init") {
        words.drain(1..words.len() - 1);
    }
    words
}

/// Prints a help page on standard output, or what is wrong with the command line on standard error.
fn help_or_error(error: &clap::Error, knee: &Command, line: &[OsString]) -> ExitCode {
    let text = error.render();
    let printed = if error.use_stderr() {
        talk(help::of_error(error, knee, line));
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
        Verb::Run(arguments) => verbs::run::run(*arguments, &store()?),
        Verb::Fleet(arguments) => verbs::fleet::run(arguments, &store()?),
        Verb::Kernel(arguments) => verbs::kernel::run(&arguments),
        Verb::Doctor(arguments) => verbs::doctor::run(*arguments),
        Verb::Compare(Compare { action: None, arguments }) => {
            verbs::compare::run(&arguments, &store()?)
        }
        Verb::Compare(Compare { action: Some(CompareAction::Fragile(arguments)), .. }) => {
            verbs::fragile::run(&arguments, &store()?)
        }
        Verb::Scale(Scale { action: None, arguments }) => verbs::scale::run(&arguments, &store()?),
        Verb::Scale(Scale { action: Some(ScaleAction::Forecast(arguments)), .. }) => {
            verbs::forecast::run(&arguments, &store()?)
        }
        Verb::Bisect(bisect) => match bisect.action {
            None => verbs::bisect::run(&bisect.search, &store()?),
            Some(BisectAction::Series(arguments)) => verbs::series::run(&arguments, &store()?),
            Some(BisectAction::Screen(arguments)) => verbs::screen::run(&arguments, &store()?),
            Some(BisectAction::Log(action)) => verbs::bisect::act(&action, &store()?),
        },
        Verb::Gate(arguments) => verbs::gate::run(&arguments, &store()?),
        Verb::Watch(arguments) => verbs::watch::run(&arguments, &store()?),
        Verb::Explain(arguments) => verbs::explain::run(*arguments, &store()?),
        Verb::Top(arguments) => verbs::top::run(&arguments),
        Verb::Conflicts(arguments) => verbs::conflicts::run(&arguments, &store()?),
        Verb::Check(arguments) => lab::check::run(&arguments),
        Verb::Simulate(simulate) => match &simulate.action {
            None => lab::simulate::run(&simulate.arguments),
            Some(SimulateAction::Replay(arguments)) => lab::replay::run(arguments),
            Some(SimulateAction::Operation(arguments)) => {
                verbs::simulate_operation::run(arguments, &store()?)
            }
        },
        Verb::New(arguments) => verbs::new::run(&arguments),
        Verb::List(arguments) => verbs::list::run(&arguments, &store()?),
        Verb::Show(arguments) => verbs::show::run(&arguments, &store()?),
        Verb::Report(arguments) => verbs::report::run(&arguments, &store()?),
        Verb::Serve(arguments) => verbs::serve::run(&arguments, &store()?),
        Verb::Record(arguments) => verbs::record::run(&arguments, &store()?),
        Verb::Help(arguments) => {
            let width = text::stdout_width();
            verbs::help::run(&arguments, help::prepared(Cli::command(), width), width)
        }
        Verb::Selfcheck(arguments) => lab::selfcheck::run(&arguments),
        Verb::Completions(arguments) => verbs::completions::run(&arguments),
        Verb::Complete(arguments) => verbs::complete::run(&arguments, &Cli::command(), &store()?),
        Verb::Schema(arguments) => verbs::schema::run(&arguments),
        Verb::ManPages(arguments) => {
            verbs::man_pages::run(&arguments, help::prepared(Cli::command(), 80))
        }
        Verb::Init => runner::places::guest::init::run().map(|()| ExitCode::SUCCESS),
        Verb::Remote(arguments) => verbs::remote::run(&arguments),
        Verb::Metal(arguments) => verbs::metal::run(&arguments),
        Verb::Worker(arguments) => verbs::worker::run(&arguments),
    }
}
