//! `knee man-pages`: writes the manual pages, one for each verb, as `make install` needs them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Arg, Command};
use clap_mangen::Man;
use host::HeldFolder;

/// Where they go.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the pages, which exists
    directory: PathBuf,
}

/// Writes the pages of `command`, the whole command line of knee.
pub fn run(arguments: &Arguments, command: Command) -> Result<ExitCode> {
    let directory = &arguments.directory;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let written = HeldFolder::open(directory).and_then(|folder| write_all(&command, &folder));
    written.with_context(|| format!("writing manual pages into {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a command and those of its subcommands.
fn write_all(command: &Command, folder: &HeldFolder) -> Result<()> {
    for subcommand in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        write_all(subcommand, folder)?;
    }
    // What short help hides has a text of one line only, which a manual page would leave out.
    let with_text = |argument: Arg| match (argument.get_long_help(), argument.get_help().cloned()) {
        (None, Some(help)) => argument.long_help(help),
        _ => argument,
    };
    let man = Man::new(command.clone().mut_args(with_text));
    folder.put(man.get_filename(), page(&man, command)?.as_bytes())
}

/// A page: its synopsis is the usage of the help, and what stands below the help are examples.
fn page(man: &Man, command: &Command) -> Result<String> {
    let mut written = Vec::new();
    man.render_title(&mut written)?;
    man.render_name_section(&mut written)?;
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:");
    written.extend(unfilled("SYNOPSIS", usage).into_bytes());
    man.render_description_section(&mut written)?;
    man.render_options_section(&mut written)?;
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut written)?;
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        written.extend(unfilled("EXAMPLES", examples.trim_start_matches("Examples:")).into_bytes());
    }
    String::from_utf8(written).context("a manual page is no text")
}

/// A section whose lines stay as they are.
fn unfilled(title: &str, text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let escaped = |line: &str| {
        let line = line.replace('\\', "\\\\").replace('-', "\\-");
        // A control line would begin with one of these.
        if line.starts_with(['.', '\'']) { format!("\\&{line}\n") } else { format!("{line}\n") }
    };
    format!(".SH {title}\n.nf\n{}.fi\n", lines.map(escaped).collect::<String>())
}
