//! Experiments: those that come with knee, and those in files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use records::nearest;
use records::{Experiment, HERE};

use crate::file_systems;

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
    "incident-1-create-xfs",
    "incident-2-xattr-log",
    "incident-3-repair-shootdowns",
    "incident-4-shared-faults",
    "incident-5-file-locks",
    "lock-kinds",
    "page-faults",
    "shootdowns",
}

/// Whether an argument of `knee run` names an experiment and not a workload.
pub fn is_experiment(argument: &str) -> bool {
    // A folder with a path is a record.
    let is_file = argument.contains('/') && !std::path::Path::new(argument).is_dir();
    argument.ends_with(".toml") || is_file || built_in(argument).is_some()
}

/// The text of an experiment that comes with knee.
pub fn built_in(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// Reads an experiment by name or path.
pub fn read(argument: &str) -> Result<Experiment> {
    Ok(read_at(argument, None)?.0)
}

/// Reads an experiment at the size that is called so. A size that it does not have is returned:
/// it may be one in bytes.
pub fn read_at<'a>(argument: &str, size: Option<&'a str>) -> Result<(Experiment, Option<&'a str>)> {
    let text = match built_in(argument) {
        Some(text) => text.to_string(),
        None => fs::read_to_string(argument)
            .with_context(|| format!("reading the experiment {argument}"))?,
    };
    let mut experiment = Experiment::read(&text).with_context(|| format!("in {argument}"))?;
    let named = size.filter(|size| experiment.sizes.contains_key(*size));
    if let Some(size) = named {
        experiment = Experiment::read_at(&text, size)?;
    }
    if let Some(unknown) = size.filter(|size| named.is_none() && *size != HERE)
        && file_systems::bytes(unknown).is_err()
    {
        let known = || [HERE].into_iter().chain(experiment.sizes.keys().map(String::as_str));
        let hint = nearest(unknown, known());
        let names = known().collect::<Vec<_>>().join(", ");
        bail!("{argument} has no size '{unknown}'{hint}; it has {names}; bytes are such as 8G");
    }
    experiment.sizes.clear();
    let is_here = size.is_some_and(|size| size == HERE);
    if experiment.name.is_empty() {
        let stem = Path::new(argument).file_stem().unwrap_or_default();
        experiment.name = stem.to_string_lossy().into_owned();
    }
    Ok((experiment, size.filter(|_| named.is_none() && !is_here)))
}

#[cfg(test)]
mod tests {
    use records::Load;

    use super::*;
    use crate::commands;

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
            let native = |load: &&Load| commands::of_load(load).unwrap().is_none();
            for load in experiment.loads.iter().filter(native) {
                crate::names::workload(&load.workload).unwrap();
            }
        }
    }
}
