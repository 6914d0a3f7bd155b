//! Experiments named on the command line: the built-in ones, and files. What a file decides is run only once it is
//! permitted.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use plan::experiments;
use records::Experiment;
use runner::{effects, new_record};
use setup::foreign::{Foreign, Permitted};
use setup::own_file;
use text::Style;

/// Whether an argument of `knee run` names an experiment rather than a workload.
pub fn is_experiment(argument: &str) -> bool {
    // The path of a directory names a record.
    let is_file = argument.contains('/')
        && !Path::new(argument).is_dir()
        && !own_loads::is_own_load(argument);
    argument.ends_with(".toml") || is_file || experiments::built_in(argument).is_some()
}

/// Reads the text of an experiment by name or path.
pub fn read(argument: &str) -> Result<Foreign<String>> {
    if let Some(text) = experiments::built_in(argument) {
        return Ok(Foreign::typed(text.to_string()));
    }
    // The file that is open is the file that is judged: its name may lead elsewhere a moment later.
    let read = || -> Result<Foreign<String>> {
        let file = File::open(argument)?;
        let why = own_file::why_not_own(&file)?;
        Ok(Foreign::typed(io::read_to_string(file)?).decided_by(argument, why))
    };
    read().with_context(|| format!("reading the experiment {argument}"))
}

/// An experiment, to be run. If others decided anything of it, or wrote the code of its loads, shows what it would
/// start and change, and asks unless `yes` was given.
pub fn permitted(experiment: Foreign<Experiment>, yes: bool) -> Result<Permitted<Experiment>> {
    own_loads::with_code(experiment)?.permitted(yes, |experiment| {
        let effects = effects(&new_record(experiment.clone())?)?;
        Ok(reports::effects(&effects, &Style::for_stdout()))
    })
}
