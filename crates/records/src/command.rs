//! A command as a load: any program, what runs before and after it, and how numbers are read from
//! its output. An experiment holds it with `{placeholders}`; a job holds it with their values filled
//! in. docs/guide/commands.md explains both.

mod client;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use host::durable::Seal;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::metric::{Better, METRICS, MetricKind};
use crate::program_probe::ProgramProbe;
use crate::scalar::{Many, Scalar};

pub use self::client::{ClientHost, ClientOn, RemoteClient};
pub use self::server::{
    Readiness, Server, ServerJob, ServerProgram, StartedServer, Stop, has_line, stop,
};

/// The metric that decides about a command unless its definition names another.
pub const WALL: &str = "wall_s";

/// The metric of how fast operations were done.
pub const RATE: &str = "operations_per_s";

/// A program as a load, as an experiment defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Command {
    /// Name in tables; by default the program's file name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Purpose of the command, in one line or more.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The program and its arguments.
    pub run: CommandLine,
    /// Whether a shell interprets `run`, `prepare` and `cleanup`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shell: bool,
    /// Programs that run before each run, not measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<CommandLine>,
    /// Programs that run after each run, even a failed one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cleanup: Vec<CommandLine>,
    /// Working directory of all its programs; by default the run's scratch directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Environment variables in addition to knee's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Scalar>,
    /// Exit statuses that mean success.
    pub success: Success,
    /// How long one program may take, in seconds.
    pub timeout_s: f64,
    /// A program whose first line of output is the version that is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<CommandLine>,
    /// The package that contains the program, for messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Kernel modules that its programs load, each with the option of the kernel's configuration that builds it. A
    /// virtual machine gets them with the programs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub modules: BTreeMap<String, String>,
    /// How many operations a run does: a number, a `{NAME}`, the name of a metric that has the number, or
    /// a probe whose passes are counted ([`ProgramProbe`]). Without it the run is the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<Scalar>,
    /// The metric that decides unless the experiment names another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<String>,
    /// Default values of parameters; a list makes an axis.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Many<Scalar>>,
    /// The program that serves while this command, its client, is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Numbers to read from its output and files.
    #[serde(rename = "metric", skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Extract>,
}

impl Default for Command {
    fn default() -> Command {
        Command {
            name: String::new(),
            description: String::new(),
            run: CommandLine::default(),
            shell: false,
            prepare: Vec::new(),
            cleanup: Vec::new(),
            directory: None,
            environment: BTreeMap::new(),
            success: Success::Statuses(vec![0]),
            timeout_s: 600.0,
            version: None,
            package: None,
            modules: BTreeMap::new(),
            operations: None,
            primary: None,
            parameters: BTreeMap::new(),
            server: None,
            metrics: Vec::new(),
        }
    }
}

/// Exit statuses that mean success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "success must be a list of exit statuses, or \"any\"")]
pub enum Success {
    /// One of these.
    Statuses(Vec<i32>),
    /// The word `any`.
    Word(AnyStatus),
}

/// The word that accepts all exit statuses; a signal is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnyStatus {
    Any,
}

impl Success {
    /// Every exit status.
    pub const ANY: Success = Success::Word(AnyStatus::Any);

    /// Whether an exit status means success.
    pub fn accepts(&self, status: i32) -> bool {
        match self {
            Success::Statuses(statuses) => statuses.contains(&status),
            Success::Word(AnyStatus::Any) => true,
        }
    }
}

/// A program and its arguments: one text, or a list of words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandLine {
    /// A text, split into words as a shell does.
    Text(String),
    /// Words, taken as they are.
    Words(Vec<String>),
}

impl Default for CommandLine {
    fn default() -> CommandLine {
        CommandLine::Text(String::new())
    }
}

impl CommandLine {
    /// The program and its arguments on one line, for people.
    pub fn text(&self) -> String {
        let text = match self {
            CommandLine::Text(text) => text.clone(),
            CommandLine::Words(words) => words.join(" "),
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Its words where they are known, as in a job; else its text as one word.
    pub fn words(&self) -> &[String] {
        match self {
            CommandLine::Text(text) => std::slice::from_ref(text),
            CommandLine::Words(words) => words,
        }
    }

    /// Whether it names no program.
    pub fn is_blank(&self) -> bool {
        match self {
            CommandLine::Text(text) => text.trim().is_empty(),
            CommandLine::Words(words) => words.first().is_none_or(|word| word.trim().is_empty()),
        }
    }
}

/// A number to read from a command's output or files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extract {
    /// Name of the metric.
    pub name: String,
    /// Unit of the number; `1` for a count.
    #[serde(default = "one")]
    pub unit: String,
    /// Which direction is better.
    #[serde(default = "neither")]
    pub better: Better,
    /// What the number is made of: `count` if it counts what the program does, however long that takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<MetricKind>,
    /// The text to search.
    #[serde(default)]
    #[schemars(with = "String")]
    pub from: OutputSource,
    /// A regular expression; the number is the group of its last match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// The JSON pointer (RFC 6901) to the number: `/jobs/0/write/iops`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// A column of a table that holds the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<TableColumn>,
}

fn one() -> String {
    "1".to_string()
}

fn neither() -> Better {
    Better::Neither
}

/// The text that a number is read from.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputSource {
    /// The standard output of the command.
    #[default]
    Stdout,
    /// The standard error of the command.
    Stderr,
    /// A file, relative to the command's working directory.
    File(String),
}

impl Serialize for OutputSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for OutputSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OutputSource, D::Error> {
        let text = String::deserialize(deserializer)?;
        match (text.as_str(), text.strip_prefix("file:")) {
            ("stdout", _) => Ok(OutputSource::Stdout),
            ("stderr", _) => Ok(OutputSource::Stderr),
            (_, Some(path)) if !path.is_empty() => Ok(OutputSource::File(path.to_string())),
            _ => Err(serde::de::Error::custom(format!(
                "from is '{text}', must be stdout, stderr or file:PATH"
            ))),
        }
    }
}

impl OutputSource {
    /// The text in an experiment file.
    pub fn text(&self) -> String {
        match self {
            OutputSource::Stdout => "stdout".to_string(),
            OutputSource::Stderr => "stderr".to_string(),
            OutputSource::File(path) => format!("file:{path}"),
        }
    }
}

/// A column of a table in a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableColumn {
    /// The heading above the column.
    pub heading: String,
    /// Which number of the column.
    #[serde(default)]
    #[schemars(with = "Scalar")]
    pub row: TableRow,
}

/// Which rows of a table give the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TableRow {
    /// The last row.
    #[default]
    Last,
    /// The arithmetic mean of all rows.
    Mean,
    /// The row of this number, from 1.
    Number(u32),
}

impl Serialize for TableRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            TableRow::Last => serializer.serialize_str("last"),
            TableRow::Mean => serializer.serialize_str("mean"),
            TableRow::Number(n) => serializer.serialize_u32(*n),
        }
    }
}

impl<'de> Deserialize<'de> for TableRow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TableRow, D::Error> {
        let text = Scalar::deserialize(deserializer)?.0;
        match (text.as_str(), text.parse()) {
            ("last", _) => Ok(TableRow::Last),
            ("mean", _) => Ok(TableRow::Mean),
            (_, Ok(n)) if n > 0 => Ok(TableRow::Number(n)),
            (other, _) => Err(serde::de::Error::custom(format!(
                "row is '{other}', must be last, mean or a number from 1"
            ))),
        }
    }
}

impl Command {
    /// Refuses definitions that no host can run.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.run.is_blank(), "run is empty: name a program");
        for line in self.prepare.iter().chain(&self.cleanup).chain(&self.version) {
            ensure!(!line.is_blank(), "prepare, cleanup or version has an empty line");
        }
        ensure!(
            !self.name.contains(|c: char| c.is_control() || c == ',') && self.name.len() <= 100,
            "'{}' is not a valid name: use up to 100 characters without commas",
            self.name.escape_debug()
        );
        ensure!(
            self.timeout_s > 0.0 && self.timeout_s <= 1e6,
            "timeout_s is {}, must be above 0 and at most 1 000 000",
            self.timeout_s
        );
        ensure!(
            self.success != Success::Statuses(Vec::new()),
            "success is empty: no run could ever succeed"
        );
        for (name, value) in &self.environment {
            ensure!(
                !name.is_empty() && !name.contains(['=', '\0']) && !value.0.contains('\0'),
                "'{}' is not a valid environment variable",
                name.escape_debug()
            );
        }
        for name in self.modules.keys() {
            let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
            ensure!(
                !name.is_empty() && name.chars().all(is_allowed),
                "'{}' is not the name of a kernel module",
                name.escape_debug()
            );
        }
        for (name, values) in &self.parameters {
            ensure!(!values.0.is_empty(), "parameter {name} is an empty list");
        }
        if let Some(Scalar(text)) = &self.operations {
            let is_number = text.parse::<u64>().is_ok_and(|n| n > 0);
            let is_metric = self.metrics.iter().any(|extract| extract.name == *text);
            if ProgramProbe::is_meant(text) {
                ProgramProbe::parse(text).context("operations is")?;
            } else {
                ensure!(
                    is_number || is_metric || text.contains('{'),
                    "operations is '{text}', must be a number from 1, a {{NAME}}, one of the metrics, or \
                     a probe such as uprobe:FUNCTION"
                );
            }
        }
        if let Some(server) = &self.server {
            server.check().context("in its server")?;
        }
        let mut names = BTreeSet::new();
        for extract in &self.metrics {
            extract.check()?;
            ensure!(names.insert(&extract.name), "two metrics are called {}", extract.name);
        }
        Ok(())
    }

    /// The metric that decides by default: the rate where operations are counted, else the time of a run.
    pub fn primary(&self) -> &str {
        let default = if self.operations.is_some() { RATE } else { WALL };
        self.primary.as_deref().unwrap_or(default)
    }
}

impl Extract {
    fn check(&self) -> Result<()> {
        let name = &self.name;
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "_.-%".contains(c);
        ensure!(
            !name.is_empty() && name.chars().all(is_allowed),
            "'{}' is not a valid metric: use letters, digits, _, -, . and %",
            name.escape_debug()
        );
        ensure!(
            !METRICS.iter().any(|metric| metric.matches(name)),
            "the metric {name} is one of knee's own: choose another name"
        );
        let methods = [self.regex.is_some(), self.json.is_some(), self.column.is_some()];
        ensure!(
            methods.iter().filter(|is_given| **is_given).count() == 1,
            "the metric {name} needs exactly one of regex, json and column"
        );
        if let Some(column) = &self.column {
            ensure!(!column.heading.trim().is_empty(), "the column of {name} has no heading");
        }
        Ok(())
    }

    /// How the number is found, in words.
    pub fn way(&self) -> String {
        match (&self.regex, &self.json, &self.column) {
            (Some(regex), ..) => format!("the regex '{regex}'"),
            (_, Some(json), _) => format!("the JSON pointer '{json}'"),
            (.., Some(column)) => format!("a column '{}'", column.heading),
            _ => "nothing".to_string(),
        }
    }
}

/// One run of a command, with all values filled in, for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandJob {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Programs to run before it, one after the other.
    #[serde(default)]
    pub prepare: Vec<Vec<String>>,
    /// Programs to run afterwards, even if the run failed.
    #[serde(default)]
    pub cleanup: Vec<Vec<String>>,
    /// Working directory of all its programs.
    pub directory: PathBuf,
    /// Environment variables in addition to the worker's own.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// Exit statuses that mean success.
    pub success: Success,
    /// How long one program may take, in seconds.
    pub timeout_s: f64,
    /// Numbers to read from its output and files.
    #[serde(default)]
    pub metrics: Vec<Extract>,
    /// How many operations the run does; absent if the run is the operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<OperationCount>,
    /// The program that serves while the command, its client, is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerJob>,
    /// Another host on which the command and the programs around it run; absent for the worker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<RemoteClient>,
}

/// Where the number of a command's operations comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationCount {
    /// It is known beforehand.
    Number(u64),
    /// One of the command's metrics has it.
    Metric(String),
    /// The worker counts how often tasks pass a place of this file.
    Passes { file: PathBuf, probe: Box<ProgramProbe> },
}

impl OperationCount {
    /// The number of operations of a run with these metrics and passes of its probe; `None` if it is not
    /// known or not a count.
    pub fn of_run(&self, values: &BTreeMap<String, f64>, passes: Option<u64>) -> Option<u64> {
        match self {
            OperationCount::Number(n) => Some(*n),
            OperationCount::Passes { .. } => passes.filter(|n| *n > 0),
            OperationCount::Metric(name) => {
                values.get(name).filter(|n| **n >= 1.0 && **n < 1e18).map(|n| n.round() as u64)
            }
        }
    }
}

impl CommandJob {
    /// Refuses jobs that no worker can do.
    pub fn check(&self) -> Result<()> {
        for words in self.prepare.iter().chain(&self.cleanup).chain([&self.run]) {
            ensure!(
                words.first().is_some_and(|program| !program.is_empty()),
                "a command has no program"
            );
            ensure!(!words.iter().any(|w| w.contains('\0')), "a command has a NUL in it");
        }
        ensure!(
            self.directory.is_absolute(),
            "the command's directory is {}, must be an absolute path",
            self.directory.display()
        );
        ensure!(
            self.timeout_s > 0.0 && self.timeout_s <= 1e6,
            "timeout_s is {}, must be above 0 and at most 1 000 000",
            self.timeout_s
        );
        self.server.iter().try_for_each(ServerJob::check)?;
        match (&self.server, &self.client) {
            (Some(ServerJob::Start(server)), None) => {
                ensure!(!server.client_cpus.is_empty(), "the client has no CPU");
            }
            (None | Some(ServerJob::Running(_)), Some(_)) => {
                bail!("a client on another host needs a server that the worker starts");
            }
            (_, Some(client)) => {
                ensure!(!client.ssh.is_empty() && client.cpus > 0, "the client's host is unknown");
            }
            _ => (),
        }
        self.metrics.iter().try_for_each(Extract::check)
    }
}

/// A program that a record's runs started, as it was before the first run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Length and hash of the program's file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Seal>,
    /// The first line that the program, or the definition's `version`, printed about its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
