//! `knee man-pages`: writes the manual pages, one for each verb, as `make install` needs them.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;

/// Where they go.
#[derive(clap::Args)]
pub struct Arguments {
    /// Directory of the pages, which exists
    directory: PathBuf,
}

/// Writes the pages of `command`, the whole command line of knee.
pub fn run(arguments: &Arguments, command: Command) -> Result<ExitCode> {
    let directory = &arguments.directory;
    let written = clap_mangen::generate_to(command, directory);
    written.with_context(|| format!("writing manual pages into {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
