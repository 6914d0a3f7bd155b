//! Experiments: those that come with knee, and those in files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use records::Experiment;

macro_rules! experiments {
    ($($name:literal,)*) => {
        /// The experiments that come with knee, by name: the files of `experiments/`.
        pub const EXPERIMENTS: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../../experiments/", $name, ".toml"))),
        )*];
    };
}

experiments! {
    "create-files-on",
    "file-locks",
    "first-look",
    "lock-kinds",
    "page-faults",
    "shootdowns",
}

/// Whether an argument of `knee run` names an experiment and not a workload.
pub fn is_experiment(argument: &str) -> bool {
    argument.ends_with(".toml") || argument.contains('/') || built_in(argument).is_some()
}

/// The text of an experiment that comes with knee.
pub fn built_in(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// Reads an experiment by name or path.
pub fn read(argument: &str) -> Result<Experiment> {
    let text = match built_in(argument) {
        Some(text) => text.to_string(),
        None => fs::read_to_string(argument)
            .with_context(|| format!("reading the experiment {argument}"))?,
    };
    let mut experiment = Experiment::read(&text).with_context(|| format!("in {argument}"))?;
    if experiment.name.is_empty() {
        let stem = Path::new(argument).file_stem().unwrap_or_default();
        experiment.name = stem.to_string_lossy().into_owned();
    }
    Ok(experiment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_listed_and_reads() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let mut files: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<String> = EXPERIMENTS.iter().map(|(n, _)| format!("{n}.toml")).collect();
        assert_eq!(files, listed);
        for (name, _) in EXPERIMENTS {
            let experiment = read(name).unwrap();
            assert!(!experiment.description.is_empty(), "{name} has no description");
            for load in &experiment.loads {
                crate::names::workload(&load.workload).unwrap();
            }
        }
    }
}
