//! `--value`: a number that commands print decides.

use anyhow::{Result, ensure};
use plan::commands;
use records::{Better, Experiment, Extract, METRICS};

use super::RUNS;

/// The number of a command that decides.
#[derive(clap::Args, Debug, Default)]
pub struct ValueFlags {
    /// Judge by a number that a command prints: text around `{}`
    ///
    /// Such as 'tps = {}', or a regular expression with one group; 'stderr:…' reads standard error. The metric is called
    /// by the word before `{}`, or after it.
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

fn better(text: &str) -> Result<Better> {
    let all = [Better::Higher, Better::Lower, Better::Neither];
    let known = all.into_iter().find(|one| one.name() == text);
    known.ok_or_else(|| anyhow::anyhow!("must be higher, lower or neither"))
}

impl ValueFlags {
    /// The name of the metric, if there is one.
    pub fn metric(&self) -> Option<String> {
        self.value.as_deref().map(|pattern| described(pattern).name)
    }

    /// Has the commands of an experiment judged by their number.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<()> {
        let Some(pattern) = &self.value else { return Ok(()) };
        let described = described(pattern);
        let extract = Extract {
            better: self.better.unwrap_or(described.better),
            name: described.name.clone(),
            unit: described.unit.to_string(),
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

/// A number by its name.
#[derive(Debug, PartialEq)]
struct DescribedNumber {
    name: String,
    unit: &'static str,
    better: Better,
}

/// What the words around a number say of it.
fn described(pattern: &str) -> DescribedNumber {
    let text = pattern.strip_prefix("stderr:").unwrap_or(pattern);
    let (before, after) = text.split_once("{}").unwrap_or((text, ""));
    let words = |text: &str| -> Vec<String> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
        let words = text.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty());
        let has_letter = |word: &&str| word.chars().any(|c| c.is_ascii_alphabetic());
        words.filter(has_letter).map(|word| word.to_lowercase()).collect()
    };
    let (before, after) = (words(before), words(after));
    let unit = after.first().and_then(|word| time_unit(word));
    let word = before.last().or(after.first()).cloned().unwrap_or_default();
    let name = word.replace("/s", "_per_s").replace('/', "_per_");
    let is_taken = name.is_empty() || METRICS.iter().any(|metric| metric.matches(&name));
    let name = if is_taken { "value".to_string() } else { name };
    let all = [before.join(" "), after.join(" ")].join(" ");
    let is_rate = ["/s", "per sec", "per_s"].iter().any(|part| all.contains(part))
        || ["tps", "qps", "rps", "ops", "iops"].contains(&&word[..]);
    let is_time = unit.is_some() || ["latency", "time", "elapsed"].iter().any(|t| all.contains(t));
    let (unit, better) = match (is_rate, is_time) {
        (true, _) => ("1/s", Better::Higher),
        (_, true) => (unit.unwrap_or("1"), Better::Lower),
        _ => ("1", Better::Neither),
    };
    DescribedNumber { name, unit, better }
}

fn time_unit(word: &str) -> Option<&'static str> {
    ["s", "ms", "us", "ns"].into_iter().find(|unit| *unit == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_named_by_the_words_around_them() {
        let check = |pattern: &str, name: &str, unit: &str, better: Better| {
            let found = described(pattern);
            assert_eq!(
                (&found.name[..], found.unit, found.better),
                (name, unit, better),
                "{pattern}"
            );
        };
        check("tps = {}", "tps", "1/s", Better::Higher);
        check("latency average = {} ms", "average", "ms", Better::Lower);
        check("{} requests/sec", "requests_per_sec", "1/s", Better::Higher);
        check("stderr:score: {}", "score", "1", Better::Neither);
        check("{}", "value", "1", Better::Neither);
        check("wall_s {} s", "value", "s", Better::Lower);
    }
}
