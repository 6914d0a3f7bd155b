//! A benchmark harness: how its cases are listed, and how one of them is run by itself.

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::command::{CommandLine, Extract};

/// A harness that comes with knee.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harness {
    /// Purpose, in one line.
    pub description: String,
    /// What has `{program}` in its lines: for users who must name it.
    pub program: String,
    /// The words of a program that prints the cases. `{pattern}` is what the user calls `{program}`.
    pub list: Vec<String>,
    /// A regular expression; its group in a line of that output is a case.
    pub case: String,
    /// The words that run one case. `{case}` is its name, `{case:regex}` a pattern of it.
    pub run: CommandLine,
    /// The words that run one case a fixed number of times, so that its instructions can be counted: `{times}`, if the
    /// harness takes a number.
    pub counted: Option<CommandLine>,
    /// The words that start the program likewise, and run no case: what that takes is no part of a case.
    pub started: Option<CommandLine>,
    /// The number that decides.
    pub metric: Extract,
}

impl Harness {
    /// Parses the text of a file.
    pub fn read(text: &str) -> Result<Harness> {
        toml::from_str(text).context("reading a harness")
    }
}
