//! The rounds that a gate finished before it was killed: the same gate again goes on after them.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use records::{Experiment, Opened};

/// A list of the folders of records, a line each.
pub(super) struct Rounds {
    path: PathBuf,
}

impl Rounds {
    /// The rounds that a file lists.
    pub fn at(path: PathBuf) -> Rounds {
        Rounds { path }
    }

    /// The record of a round, if it was finished.
    pub fn finished(&self, experiment: &Experiment) -> Option<Opened> {
        let list = fs::read_to_string(&self.path).ok()?;
        let mut records = list.lines().rev().filter_map(|folder| store::open(folder.as_ref()).ok());
        records.find(|record| record.record.experiment == *experiment)
    }

    /// Notes that a round is finished.
    pub fn add(&self, record: &Opened) -> Result<()> {
        let line = format!("{}\n", record.folder.display());
        let list = File::options().create(true).append(true).open(&self.path);
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .with_context(|| format!("writing {}", self.path.display()))
    }

    /// Forgets all rounds: the gate has its answer.
    pub fn forget(&self) {
        // The next gate compares experiments, so a list that stays is of no harm.
        let _ = fs::remove_file(&self.path);
    }
}
