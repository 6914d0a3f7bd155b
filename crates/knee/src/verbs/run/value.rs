//! `--value`: a number that commands print decides.

use anyhow::{Result, ensure};
use plan::commands;
use records::pattern::DescribedNumber;
use records::{Better, Experiment, Extract};

use super::RUNS;

/// The number of a command that decides.
#[derive(clap::Args, Debug, Default)]
pub struct ValueFlags {
    /// Judge by a number that a command prints: text around `{}`
    ///
    /// Such as 'tps = {}', a regular expression with one group, 'json:/POINTER' or 'column:HEADING'; 'stderr:…' reads
    /// standard error. The metric is called by the word before `{}`, or after it. Units at numbers are read: 12.5ms and 900us
    /// are in s, unless the pattern has a unit; 1.2k is 1200.
    #[arg(
        long,
        value_name = "PATTERN",
        conflicts_with_all = ["operations_from", "metric"],
        hide_short_help = true,
        help_heading = RUNS
    )]
    value: Option<String>,
    /// Which --value is better: higher, lower or neither [default: by its name and unit]
    #[arg(
        long,
        value_name = "DIRECTION",
        requires = "value",
        value_parser = better,
        hide_short_help = true,
        help_heading = RUNS
    )]
    better: Option<Better>,
}

pub fn better(text: &str) -> Result<Better> {
    let all = [Better::Higher, Better::Lower, Better::Neither];
    let known = all.into_iter().find(|one| one.name() == text);
    known.ok_or_else(|| anyhow::anyhow!("must be higher, lower or neither"))
}

impl ValueFlags {
    /// The name of the metric, if there is one.
    pub fn metric(&self) -> Option<String> {
        self.value.as_deref().map(|pattern| DescribedNumber::of(pattern).name)
    }

    /// Has the commands of an experiment judged by their number.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<()> {
        let Some(pattern) = &self.value else { return Ok(()) };
        let described = DescribedNumber::of(pattern);
        let extract = Extract {
            better: self.better.unwrap_or(described.better),
            name: described.name,
            unit: described.unit,
            ..commands::operations_from(pattern)?
        };
        let mut commands = experiment.commands_mut().peekable();
        ensure!(
            commands.peek().is_some(),
            "--value reads the output of a command: name one with --command"
        );
        for command in commands {
            command.metrics.retain(|metric| metric.name != extract.name);
            command.metrics.push(extract.clone());
            command.primary = Some(extract.name.clone());
        }
        Ok(())
    }
}
