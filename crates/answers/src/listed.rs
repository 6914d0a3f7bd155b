//! What there is, and what it is: `knee list` and `knee show`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use records::{Effect, Experiment};
use schemars::JsonSchema;
use serde::Serialize;

/// The built-in loads.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedWorkloads(pub Vec<WorkloadEntry>);

/// A built-in load.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkloadEntry {
    /// Its name.
    pub name: &'static str,
    /// The kind of kernel operation that it uses.
    pub family: &'static str,
    /// What it does, in one sentence.
    pub summary: String,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// Version of what an operation is.
    pub semantics: u32,
}

/// The users' loads of a folder.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedLoads(pub Vec<LoadEntry>);

/// A user's load: a C file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LoadEntry {
    /// Path of the file.
    pub file: PathBuf,
    /// The interface that it implements.
    pub interface: &'static str,
    /// What the file says about itself.
    pub description: String,
}

/// The algorithms that can be checked and simulated.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedAlgorithms(pub Vec<AlgorithmEntry>);

/// A lock or mechanism.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlgorithmEntry {
    /// Its name.
    pub name: &'static str,
    /// The kind of lock, or `mechanism`.
    pub kind: &'static str,
    /// The algorithm in one sentence.
    pub summary: String,
}

/// The described hosts.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedHosts(pub Vec<HostEntry>);

/// A described host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostEntry {
    /// Its name.
    pub name: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// The machine that it describes.
    pub about: String,
    /// Where its numbers come from.
    pub sources: BTreeMap<String, String>,
}

/// The built-in experiments.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedExperiments(pub Vec<ExperimentEntry>);

/// A built-in experiment.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExperimentEntry {
    /// Its name.
    pub name: &'static str,
    /// What it measures.
    pub description: String,
}

/// The built-in definitions of other programs.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedCommands(pub Vec<CommandEntry>);

/// A definition of another program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CommandEntry {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub description: String,
    /// The command line.
    pub run: String,
    /// Name of the metric that decides.
    pub primary: String,
}

/// The metrics of runs and the counters beside them.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ListedMetrics(pub Vec<MetricEntry>);

/// A metric or counter.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MetricEntry {
    /// Its name; `*` stands for any text.
    pub name: &'static str,
    /// Its unit; `1` is a plain number.
    pub unit: &'static str,
    /// Whether `higher` or `lower` is better; `-` for a metric that only describes the run.
    pub better: &'static str,
    /// How a value is obtained: `exact`, `sampled`, `apportioned` or `imported`.
    pub obtained: &'static str,
    /// Kind of quantity: `count`, `time`, `ticks` or `level`.
    pub kind: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// The manual page of a built-in load.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkloadManual {
    /// Its name.
    pub name: &'static str,
    /// The kind of kernel operation that it uses.
    pub family: &'static str,
    /// What it does, in one sentence.
    pub summary: String,
    /// The manual page, in Markdown.
    pub manual: String,
    /// What one operation is.
    pub operation: &'static str,
    /// Version of what an operation is.
    pub semantics: u32,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// Whether tasks may be processes, threads or both.
    pub forms: String,
    /// What it needs of a host.
    pub needs: Vec<String>,
    /// Its parameters.
    pub parameters: Vec<ParameterEntry>,
}

/// A parameter of a load.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ParameterEntry {
    /// Its name.
    pub name: &'static str,
    /// The value that it has unless one is given.
    pub default: &'static str,
    /// What it means, with its unit.
    pub about: &'static str,
}

/// The manual page of a lock or mechanism.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlgorithmManual {
    /// Name, kind and summary.
    #[serde(flatten)]
    pub entry: AlgorithmEntry,
    /// The manual page, in Markdown.
    pub manual: String,
    /// The designs of a mechanism. Absent for a lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub designs: Option<Vec<&'static str>>,
}

/// A described host with its numbers.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostManual {
    /// Name, CPUs and sources.
    #[serde(flatten)]
    pub entry: HostEntry,
    /// The numbers by name.
    pub numbers: BTreeMap<String, HostNumber>,
}

/// A number of a described host, in picoseconds or without a unit.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HostNumber {
    /// The lowest value.
    pub low: f64,
    /// The middle value.
    pub middle: f64,
    /// The highest value.
    pub high: f64,
    /// The number as the description has it, with its unit.
    pub text: String,
    /// Where it comes from: `found`, `measured` or `assumed`.
    pub origin: &'static str,
    /// The source, the host, or the reason.
    pub of: String,
}

/// An experiment, and what it would start and change on this host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExperimentManual {
    /// The experiment; docs/guide/experiments.md has its keys.
    #[serde(flatten)]
    pub experiment: Experiment,
    /// What it would start and change. Absent if this host cannot run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effects: Option<Vec<Effect>>,
}

/// A user's load that was not compiled.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UncompiledLoad {
    /// What the file says about itself.
    pub description: String,
    /// The interface that it implements.
    pub interface: records::LoadInterface,
    /// Why it was not compiled.
    pub not_compiled: String,
}
