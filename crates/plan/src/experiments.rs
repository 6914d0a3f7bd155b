//! Experiments: those that come with knee, and those in files.

use std::path::Path;

use anyhow::{Context, Result, bail};
use host::unknown_of;
use records::{Experiment, HERE, parse};

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

/// The text of an experiment that comes with knee.
pub fn built_in(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(n, _)| *n == name).map(|(_, text)| *text)
}

/// An experiment that comes with knee.
pub fn read_built_in(name: &str) -> Result<Experiment> {
    let text = built_in(name).with_context(|| {
        let known = EXPERIMENTS.iter().map(|(known, _)| *known);
        host::unknown("experiment", name, known, "knee list experiments")
    })?;
    Ok(parse_at(name, text, None)?.0)
}

/// Parses the text of the experiment `argument` at the size with this name. Returns the size if the
/// experiment has none of that name: it may be one in bytes.
pub fn parse_at<'a>(
    argument: &str,
    text: &str,
    size: Option<&'a str>,
) -> Result<(Experiment, Option<&'a str>)> {
    let mut experiment = Experiment::read(text).with_context(|| format!("in {argument}"))?;
    let named = size.filter(|size| experiment.sizes.contains_key(*size));
    if let Some(size) = named {
        experiment = Experiment::read_at(text, size)?;
    }
    if let Some(unknown) = size.filter(|size| named.is_none() && *size != HERE)
        && parse::bytes(unknown).is_err()
    {
        let known = || [HERE].into_iter().chain(experiment.sizes.keys().map(String::as_str));
        let why = unknown_of(&format!("size of {argument}"), unknown, &known().collect::<Vec<_>>());
        bail!("{why}; bytes are such as 8G");
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
    use std::fs;

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
            let experiment = read_built_in(name).unwrap();
            assert!(!experiment.description.is_empty(), "{name} has no description");
            let plain =
                Experiment { size: String::new(), sizes: Default::default(), ..experiment.clone() };
            assert_eq!(Experiment::read(&plain.to_toml().unwrap()).unwrap(), plain, "{name}");
            let native = |load: &&Load| commands::for_load(load).unwrap().is_none();
            for load in experiment.loads.iter().filter(native) {
                crate::names::workload(&load.name()).unwrap();
            }
        }
    }
}
