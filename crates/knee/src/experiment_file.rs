//! Experiments named on the command line: the built-in ones, and files.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use host::terminal::{say, talk};
use plan::experiments;
use records::Experiment;
use runner::{effects, new_record};
use setup::own_file;
use text::Style;

use crate::question;

/// Whether an argument of `knee run` names an experiment rather than a workload.
pub fn is_experiment(argument: &str) -> bool {
    // The path of a directory names a record.
    let is_file = argument.contains('/')
        && !Path::new(argument).is_dir()
        && !own_loads::is_own_load(argument);
    argument.ends_with(".toml") || is_file || experiments::built_in(argument).is_some()
}

/// The text of an experiment.
pub struct ExperimentText {
    pub text: String,
    /// Why the text may be another's than the user's, to follow the name of the file; `None` for the
    /// user's own files and for what comes with knee.
    pub stranger: Option<String>,
}

/// Reads the text of an experiment by name or path.
pub fn read(argument: &str) -> Result<ExperimentText> {
    if let Some(text) = experiments::built_in(argument) {
        return Ok(ExperimentText { text: text.to_string(), stranger: None });
    }
    // The file that is open is the file that is judged: its name may lead elsewhere a moment later.
    let read = || -> Result<ExperimentText> {
        let file = File::open(argument)?;
        let stranger = own_file::why_not_own(&file)?;
        Ok(ExperimentText { text: io::read_to_string(file)?, stranger })
    };
    read().with_context(|| format!("reading the experiment {argument}"))
}

/// Shows what an experiment that is not the user's own would start and change, and asks on the
/// terminal whether to run it. Without a terminal, refuses it.
pub fn ask(argument: &str, stranger: &str, experiment: &Experiment) -> Result<()> {
    let effects = effects(&new_record(experiment.clone())?)?;
    let asking = "an experiment runs programs with your rights";
    talk(format_args!("{argument} {stranger}; {asking}."));
    say(reports::effects(&effects, &Style::for_stdout()));
    let refusal = format!("{argument} is not run");
    question::ask("Run it?", &refusal, "read it, then add --yes, or copy it to a folder of yours")
}
