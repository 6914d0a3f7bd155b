//! Experiments named on the command line: the built-in ones, and files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plan::experiments;
use records::Experiment;

/// Whether an argument of `knee run` names an experiment rather than a workload.
pub fn is_experiment(argument: &str) -> bool {
    // The path of a directory names a record.
    let is_file = argument.contains('/') && !Path::new(argument).is_dir();
    argument.ends_with(".toml") || is_file || experiments::built_in(argument).is_some()
}

/// Reads an experiment by name or path, scaled to its size of the name `size`. Returns `size`
/// again if the experiment has no size of that name: it may then be a number of bytes.
pub fn read_at<'a>(argument: &str, size: Option<&'a str>) -> Result<(Experiment, Option<&'a str>)> {
    let text = match experiments::built_in(argument) {
        Some(text) => text.to_string(),
        None => fs::read_to_string(argument)
            .with_context(|| format!("reading the experiment {argument}"))?,
    };
    experiments::parse_at(argument, &text, size)
}
