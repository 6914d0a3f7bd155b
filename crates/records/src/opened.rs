//! A record that was read back with its runs, for analysis and reports. Crate `store` opens it.

use std::path::PathBuf;

use crate::record::Record;
use crate::run::Run;

/// A record with its runs.
#[derive(Debug)]
pub struct Opened {
    /// The folder it was read from.
    pub folder: PathBuf,
    /// The record.
    pub record: Record,
    /// The record's runs, in order of execution.
    pub runs: Vec<Run>,
}

impl Opened {
    /// The runs of one point, in order of execution.
    pub fn runs_of(&self, point: usize) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.point as usize == point)
    }
}
