//! Experiments named on the command line: the built-in ones, and files. What a file decides is run only once it is
//! permitted.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use host::executables::is_executable;
use host::{Limit, given_file};
use plan::experiments;
use records::Experiment;
use runner::{effects, new_record};
use setup::foreign::{Foreign, Permitted};
use setup::own_file;
use text::Style;

/// Reads the text of an experiment by name or path.
pub fn read(argument: &str) -> Result<Foreign<String>> {
    if let Some(text) = experiments::built_in(argument) {
        return Ok(Foreign::typed(text.to_string()));
    }
    let path = Path::new(argument);
    if !argument.ends_with(".toml") {
        let place = if path.exists() { "" } else { "there is no file of this name; " };
        ensure!(
            path.exists() && !is_executable(path),
            "{argument} is no experiment: {place}an experiment is a TOML file, and a program is measured by \
             --command {argument}"
        );
    }
    let read = given_file::read_judged(path, LENGTH, own_file::why_not_own);
    let (text, why) = read.with_context(|| format!("reading the experiment {argument}"))?;
    Ok(Foreign::typed(text).decided_by(argument, why))
}

/// The plan of a fleet is read as one, with all its points.
const LENGTH: Limit = Limit { bytes: 256 << 20, what: "an experiment" };

/// An experiment, to be run. If others decided anything of it, or wrote the code of its loads, shows what it would
/// start and change, and asks unless `yes` was given.
pub fn permitted(experiment: Foreign<Experiment>, yes: bool) -> Result<Permitted<Experiment>> {
    Ok(permitted_with(experiment, yes, |_| String::new())?.0)
}

/// As [`permitted`], with what else is to be agreed to at the end of the list. Whether the user was asked comes with it.
pub fn permitted_with(
    experiment: Foreign<Experiment>,
    yes: bool,
    more: impl FnOnce(&Experiment) -> String,
) -> Result<(Permitted<Experiment>, bool)> {
    let experiment = own_loads::with_code(experiment)?;
    let asks = !yes && !experiment.is_own();
    let permitted = experiment.permitted(yes, |experiment| {
        let effects = effects(&new_record(experiment.clone())?)?;
        Ok(reports::effects(&effects, &Style::for_stdout()) + &more(experiment))
    })?;
    Ok((permitted, asks))
}
