//! What counts the operations of a program that runs: a place that its tasks pass, or a counter that someone else keeps.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

use crate::program_probe::ProgramProbe;

/// What counts the operations of a running program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationSource {
    /// A function or a static tracepoint (USDT) of the program or of a library that it uses.
    Passes(ProgramProbe),
    /// An event of the kernel that its tasks cause.
    Event {
        /// The group of events, such as `syscalls`.
        system: String,
        /// The name of the event, such as `sys_enter_fsync`.
        event: String,
    },
    /// A number in a file that only grows.
    File {
        /// Where the file is.
        path: String,
        /// The word before the number; without it, the first number counts.
        word: Option<String>,
    },
    /// The first number that a command prints, which only grows from one call to the next.
    Command(String),
}

const EVENT: &str = "tracepoint:";
const FILE: &str = "file:";
const COMMAND: &str = "command:";

impl OperationSource {
    /// Parses `usdt:PROVIDER:PROBE`, `uprobe:FUNCTION`, `tracepoint:SYSTEM:EVENT`, `file:PATH[:WORD]` or `command:LINE`.
    ///
    /// # Errors
    /// Names the forms.
    pub fn parse(text: &str) -> Result<OperationSource> {
        if ProgramProbe::is_meant(text) {
            return ProgramProbe::parse(text).map(OperationSource::Passes);
        }
        let form = || {
            format!(
                "'{text}': operations are counted by usdt:PROVIDER:PROBE, uprobe:FUNCTION, \
                 tracepoint:SYSTEM:EVENT, file:PATH, file:PATH:WORD or command:LINE"
            )
        };
        if let Some(rest) = text.strip_prefix(EVENT) {
            let (system, event) = rest.split_once(':').with_context(form)?;
            // Both become parts of a path below /sys/kernel/tracing.
            let is_name = |word: &str| {
                !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            };
            ensure!(is_name(system) && is_name(event), form());
            return Ok(OperationSource::Event { system: system.into(), event: event.into() });
        }
        if let Some(rest) = text.strip_prefix(FILE) {
            // Names in /sys have colons, too: there, more of the path follows.
            let named = rest.rsplit_once(':').filter(|(_, word)| !word.contains('/'));
            let (path, word) = named.map_or((rest, None), |(path, word)| (path, Some(word)));
            ensure!(!path.is_empty() && word != Some("") && !text.contains('\0'), form());
            return Ok(OperationSource::File { path: path.into(), word: word.map(str::to_string) });
        }
        match text.strip_prefix(COMMAND).filter(|line| !line.trim().is_empty()) {
            Some(line) => {
                let words = shlex::split(line).filter(|words| !words.is_empty());
                words.with_context(|| format!("'{line}': a quote is not closed"))?;
                Ok(OperationSource::Command(line.to_string()))
            }
            None => bail!(form()),
        }
    }
}

impl fmt::Display for OperationSource {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            OperationSource::Passes(probe) => write!(f, "{probe}"),
            OperationSource::Event { system, event } => write!(f, "{EVENT}{system}:{event}"),
            OperationSource::File { path, word: None } => write!(f, "{FILE}{path}"),
            OperationSource::File { path, word: Some(word) } => write!(f, "{FILE}{path}:{word}"),
            OperationSource::Command(line) => write!(f, "{COMMAND}{line}"),
        }
    }
}

/// The first number in a text, or the first one behind a word.
pub fn counter_in(text: &str, word: Option<&str>) -> Option<f64> {
    let rest = match word {
        Some(word) => behind(text, word)?,
        None => text,
    };
    let start = rest.find(|c: char| c.is_ascii_digit())?;
    let is_negative = rest[..start].ends_with('-');
    let number = &rest[start..];
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    let number: f64 = number[..end].trim_end_matches('.').parse().ok()?;
    Some(if is_negative { -number } else { number })
}

/// What follows a word, which is no part of a longer one.
fn behind<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).find_map(|(at, _)| {
        let rest = &text[at + word.len()..];
        let is_alone = !text[..at].ends_with(is_part) && !rest.starts_with(is_part);
        is_alone.then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_written_as_they_are_read() {
        let file = |path: &str, word: Option<&str>| OperationSource::File {
            path: path.to_string(),
            word: word.map(str::to_string),
        };
        let check = |text: &str, expected: OperationSource| {
            let source = OperationSource::parse(text).unwrap();
            assert_eq!(source, expected, "{text}");
            assert_eq!(source.to_string(), text);
        };
        let probe = |text: &str| OperationSource::Passes(ProgramProbe::parse(text).unwrap());
        check("usdt:postgres:query__done", probe("usdt:postgres:query__done"));
        check("uprobe:serve", probe("uprobe:serve"));
        let (system, event) = ("syscalls".to_string(), "sys_enter_fsync".to_string());
        check("tracepoint:syscalls:sys_enter_fsync", OperationSource::Event { system, event });
        check("file:/run/served", file("/run/served", None));
        check("file:/run/stats:requests", file("/run/stats", Some("requests")));
        check(
            "file:/sys/devices/0000:00:1f.2/count",
            file("/sys/devices/0000:00:1f.2/count", None),
        );
        check(
            "command:redis-cli info stats",
            OperationSource::Command("redis-cli info stats".into()),
        );
    }

    #[test]
    fn what_counts_nothing_is_refused() {
        for bad in
            ["", "1420", "file:", "file::x", "file:/a:", "command:", "command: ", "tracepoint:a"]
        {
            let why = OperationSource::parse(bad).unwrap_err().to_string();
            assert!(why.contains("operations are counted by"), "{bad}: {why}");
        }
        assert!(OperationSource::parse("tracepoint:../..:x").is_err());
        assert!(
            OperationSource::parse("command:echo 'a").unwrap_err().to_string().contains("quote")
        );
        assert!(OperationSource::parse("uprobe:").is_err());
    }

    #[test]
    fn a_counter_is_the_first_number_or_that_behind_a_word() {
        let check = |text: &str, word: Option<&str>, expected: Option<f64>| {
            assert_eq!(counter_in(text, word), expected, "{text:?} {word:?}");
        };
        check("1234\n", None, Some(1234.0));
        check("served 12.5.", None, Some(12.5));
        check("lag -3", None, Some(-3.0));
        check("nothing", None, None);
        check("", None, None);
        let info = "gets_total:9\r\ntotal:7\r\ntotal_commands_processed:42\r\n";
        check(info, Some("total"), Some(7.0));
        check(info, Some("total_commands_processed"), Some(42.0));
        check(info, Some("commands"), None);
        check("STAT cmd_get 17", Some("cmd_get"), Some(17.0));
    }
}
