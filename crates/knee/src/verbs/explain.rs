//! `knee explain`: where the time of an operation goes.

mod perf_data;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

/// What to explain, and how to show it.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Recordings of perf (perf.data): one, or two whose difference is told, the baseline first
    #[arg(required = true, value_name = "FILE")]
    what: Vec<PathBuf>,
    #[command(flatten)]
    recording: perf_data::Options,
}

/// Prints the explanation.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match perf_data::are_recordings(&arguments.what)? {
        true => perf_data::run(&arguments.what, &arguments.recording),
        false => bail!(
            "{} is no recording of perf: those start with PERFILE2",
            arguments.what[0].display()
        ),
    }
}
