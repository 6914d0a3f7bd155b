//! The user's defaults for flags of `knee run`: `~/.config/knee/defaults.toml`, a key for each flag.
//!
//!     blocks = 10
//!     dir = "/mnt/test"
//!     as = ["processes", "threads"]
//!
//! A flag on the command line replaces its default, and defaults it excludes. Experiments say themselves
//! what they measure, so defaults do not apply to them.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use host::{nearest, paths};
use setup::own_file;

use crate::named;

/// Flags that say what one run does, or that allow something.
const NO_DEFAULTS: &[&str] = &[
    "axis",
    "command",
    "help",
    "i-own-this-device",
    "json",
    "label",
    "note",
    "plan",
    "prepare",
    "records",
    "resume",
    "set",
    "variant",
    "yes",
];

/// Defaults that took effect.
#[derive(Debug, Default, PartialEq)]
pub struct Defaults {
    /// The flags with their values, as words of the command line.
    pub words: Vec<String>,
    /// The file that has them.
    pub file: PathBuf,
}

/// The command line with the user's defaults, and the defaults that took effect. A command line that
/// cannot be parsed stays as it is.
pub fn apply(given: Vec<OsString>, command: &Command) -> Result<(Vec<OsString>, Defaults)> {
    let unchanged = |given| Ok((given, Defaults::default()));
    // A worker starts for each run: it need not parse its command line twice.
    if !given.iter().any(|word| word == "run") {
        return unchanged(given);
    }
    let Ok(matches) = command.clone().try_get_matches_from(&given) else { return unchanged(given) };
    let Some(("run", run)) = matches.subcommand() else { return unchanged(given) };
    let mut what = run.get_many::<String>("what").into_iter().flatten();
    if what.any(|name| named::is_experiment(name)) {
        return unchanged(given);
    }
    let file = paths::config()?.join("defaults.toml");
    let Some(text) = read(&file).with_context(|| format!("reading {}", file.display()))? else {
        return unchanged(given);
    };
    let words = words(&text, command.find_subcommand("run").expect("a verb of knee"), run)
        .with_context(|| format!("in {}", file.display()))?;
    let end = given.iter().position(|word| word == "--").unwrap_or(given.len());
    let mut line = given;
    line.splice(end..end, words.iter().map(OsString::from));
    Ok((line, Defaults { words, file }))
}

/// The text of the file, if there is one. Refuses a file that others may write to: they could make root
/// measure where they like.
fn read(path: &PathBuf) -> Result<Option<String>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    if let Some(why) = own_file::why_written_by_others(&file)? {
        bail!("it {why}: make it your own (chown, chmod go-w), or remove it");
    }
    Ok(Some(io::read_to_string(file)?))
}

/// The defaults that the command line neither gives nor excludes, as words.
fn words(text: &str, run: &Command, given: &ArgMatches) -> Result<Vec<String>> {
    let table: toml::Table = text.parse()?;
    let mut words = Vec::new();
    for (key, value) in &table {
        let flags = || run.get_arguments().filter_map(|flag| flag.get_long());
        let flags = || flags().filter(|name| !NO_DEFAULTS.contains(name));
        let flag = run.get_arguments().find(|flag| flag.get_long() == Some(key));
        let Some(flag) = flag.filter(|_| flags().any(|name| name == key)) else {
            bail!(
                "{key} is not a flag of `knee run` that can have a default{}",
                nearest(key, flags())
            )
        };
        let is_given = |flag: &clap::Arg| {
            given.value_source(flag.get_id().as_str()) == Some(ValueSource::CommandLine)
        };
        let excluded = run.get_arg_conflicts_with(flag);
        if is_given(flag) || excluded.into_iter().any(is_given) {
            continue;
        }
        match value {
            toml::Value::Boolean(true) => words.push(format!("--{key}")),
            toml::Value::Boolean(false) => (),
            toml::Value::Array(values) => {
                words.extend(values.iter().map(|value| format!("--{key}={}", word(value))));
            }
            value => words.push(format!("--{key}={}", word(value))),
        }
    }
    Ok(words)
}

fn word(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
