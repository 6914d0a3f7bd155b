//! `knee completions`: prints the script by which a shell completes verbs and options.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::{Shell, generate};
use host::terminal::print;

/// Print a script for completions in a shell
///
///     source <(knee completions bash)
///
/// Packages and `install.sh` put the scripts where shells look for them.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The shell that is to read the script
    shell: Shell,
}

/// Prints the script for `command`, the whole command line of knee.
pub fn run(arguments: &Arguments, mut command: Command) -> Result<ExitCode> {
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    generate(arguments.shell, &mut command, name, &mut script);
    print(String::from_utf8(script).context("the script is no text")?)?;
    Ok(ExitCode::SUCCESS)
}
