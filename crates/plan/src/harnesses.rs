//! The benchmark harnesses that come with knee: the files of `harnesses/`.

use anyhow::{Context, Result, bail};
use host::unknown_of;
use records::Harness;

macro_rules! harnesses {
    ($($name:literal,)*) => {
        /// The harnesses by name.
        pub const HARNESSES: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../../harnesses/", $name, ".toml"))),
        )*];
    };
}

harnesses! {
    "catch2",
    "criterion",
    "go",
    "google-benchmark",
    "hyperfine",
    "jmh",
    "pytest-benchmark",
    "will-it-scale",
}

/// The harness of this name.
pub fn harness(name: &str) -> Result<Harness> {
    let Some((_, text)) = HARNESSES.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = HARNESSES.iter().map(|(name, _)| *name).collect();
        bail!("{}", unknown_of("harness", name, &known));
    };
    Harness::read(text).with_context(|| format!("in the harness {name}"))
}

#[cfg(test)]
mod tests {
    use super::{HARNESSES, harness};
    use crate::commands;

    #[test]
    fn every_harness_is_listed_reads_and_runs_one_case_of_a_program() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../harnesses");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<String> = HARNESSES.iter().map(|(n, _)| format!("{n}.toml")).collect();
        assert_eq!(files, listed);
        for (name, _) in HARNESSES {
            let harness = harness(name).unwrap();
            harness.metric.check_pattern().unwrap();
            let command = records::Command {
                run: harness.run,
                metrics: vec![harness.metric],
                ..records::Command::default()
            };
            let uses = commands::uses(&command);
            assert!(uses.contains("case"), "{name} runs no case");
            assert!(
                harness
                    .list
                    .iter()
                    .any(|word| word.contains("{program}") || word.contains("{pattern}")),
                "{name} lists nothing"
            );
        }
    }
}
