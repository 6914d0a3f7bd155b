//! The record: all that one execution of an experiment left. `record.json` is this
//! type; the runs and samples lie beside it. docs/record-format.md specifies the folder.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use host::durable::Seal;
use host::{Placement, Topology};
use serde::{Deserialize, Serialize};

use crate::command::{Command, Program};
use crate::experiment::{Experiment, Judging, Variant};
use crate::file_system::Filled;
use crate::guest::{Guest, Hypervisor};
use crate::host_facts::{Directory, HostFacts};
use crate::job::{Form, Pass, Until};
use crate::metric::DescribedMetric;

/// Version of the record format. Raised when a reader of the old one would misread; every
/// version back to 1 loads for ever.
pub const FORMAT: u32 = 2;

/// What `record.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] at the time of writing.
    pub format: u32,
    /// The record's id, also the name of its folder.
    pub id: String,
    /// Whether it is whole.
    pub state: RecordState,
    /// The experiment as given.
    pub experiment: Experiment,
    /// Seed of the random order of points within blocks.
    pub seed: u64,
    /// The points, all that were planned. Runs refer to them by index.
    pub points: Vec<Point>,
    /// What is compared, combinations of several factors made: the baseline first. Points
    /// refer to them by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Where the runs come from, if knee did not measure them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// What is known of metrics that are not knee's own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, DescribedMetric>,
    /// The commands that points name as their workload, whole, by that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, Command>,
    /// What one operation of each workload is, by the workload's name, in the words of the knee
    /// that measured it. Empty in records written before this field existed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, String>,
    /// The programs that commands start, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Program>,
    /// The image that runs got copies of, as it was made last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Filled>,
    /// What executed the virtual machines, where runs were made in some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<Hypervisor>,
    /// Executions that contributed: the first, and one for each resumption.
    pub sessions: Vec<Session>,
    /// The host.
    pub host: HostFacts,
    /// Its topology.
    pub topology: Topology,
    /// The directories measured, with their file systems.
    pub directories: Vec<Directory>,
    /// Doubts about the record as a whole.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Runs that finished.
    #[serde(default)]
    pub runs_finished: u32,
    /// Runs that failed.
    #[serde(default)]
    pub runs_failed: u32,
    /// Length and hash of each file beside this one; empty while it grows.
    #[serde(default)]
    pub files: BTreeMap<String, Seal>,
}

/// Whether a record is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordState {
    /// Being written, or left behind by a writer that died.
    Growing,
    /// Every planned run was executed.
    Whole,
    /// Some planned runs are missing: interrupted, or recovered after a crash.
    Partial,
}

impl RecordState {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            RecordState::Growing => "growing",
            RecordState::Whole => "whole",
            RecordState::Partial => "partial",
        }
    }
}

/// Where imported runs come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Source {
    /// The format, as `knee import --format` names it.
    pub format: String,
    /// The files by path as given, with length and hash.
    pub files: BTreeMap<String, Seal>,
    /// What one run of it is: what was set up anew before it.
    pub unit: ReplicationUnit,
    /// Whether runs of one block belong together, as runs in random order within blocks do.
    pub blocks: bool,
    /// What the format does not tell and what that keeps from being said, a sentence each.
    pub lacks: Vec<String>,
}

/// What is set up anew for each replicate: the level at which chance enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationUnit {
    /// Values inside one run: no replication at all.
    Sample,
    /// A run with fresh tasks.
    Run,
    /// A file system made or mounted anew.
    Mount,
    /// A boot.
    Boot,
}

/// One point of the experiment: a cell, and one variant of it where variants are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Name of the workload.
    pub workload: String,
    /// Its semantic version: results of different versions must not be compared.
    pub semantics: u32,
    /// All its parameters.
    pub parameters: BTreeMap<String, String>,
    /// Processes or threads.
    #[serde(rename = "as")]
    pub form: Form,
    /// Number of CPUs used; 0 where an imported result does not tell.
    pub cpus: u32,
    /// How they were chosen.
    pub placement: Placement,
    /// Which they are, in order.
    pub cpu_list: Vec<u32>,
    /// Number of tasks; task i is pinned to `cpu_list[i % cpus]`. 0 where an imported result
    /// does not tell.
    pub tasks: u32,
    /// When the tasks stop.
    pub until: Until,
    /// What is recorded.
    pub pass: Pass,
    /// The directory whose file system is measured.
    pub dir: PathBuf,
    /// Which variant it is of its cell; empty where nothing is compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Number of its cell: points of one cell differ only in what their variants do. Absent
    /// where nothing is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
    /// Of a command, its line with its placeholders; absent where the workload is knee's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What a newer knee says about the point: points that differ in it are different
    /// points, even for a reader that does not know what it means.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// One execution of `knee run` that contributed to a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The command line.
    pub command: Vec<String>,
    /// Version of knee.
    pub knee: String,
    /// When it started.
    pub started: jiff::Timestamp,
    /// When it ended; absent if it was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<jiff::Timestamp>,
    /// Boot it ran in.
    pub boot_id: String,
    /// Number of its first run.
    pub first_run: u32,
    /// What of the host was not as before when all had been put back; absent where nobody
    /// looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_changes: Option<Vec<HostChange>>,
}

/// A part of the host's state that differs from what it was before a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostChange {
    /// What is, and what was.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// Whether it bears a mark of knee's, so that knee must have left it. Else others changed it
    /// meanwhile, as far as knee can tell.
    pub by_knee: bool,
}

impl fmt::Display for HostChange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let HostChange { text, advice, by_knee } = self;
        let whose = if *by_knee {
            "left behind"
        } else {
            "changed meanwhile, not by knee as far as it can tell"
        };
        write!(f, "{whose}: {text}")?;
        if advice.is_empty() { Ok(()) } else { write!(f, ": {advice}") }
    }
}

/// A doubt, with what to do about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// What is doubtful.
    pub text: String,
    /// What to do.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// The number in the text, to tell the worst of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<f64>,
}

impl Warning {
    /// A warning with advice.
    pub fn new(text: impl Into<String>, advice: impl Into<String>) -> Warning {
        Warning { text: text.into(), advice: advice.into(), amount: None }
    }
}

impl Record {
    /// Reads `record.json`'s text. Fields it does not know are ignored; an unknown format
    /// is refused by name.
    pub fn read(text: &str) -> Result<Record> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let version: Versioned = serde_json::from_str(text).context("reading a record")?;
        ensure!(
            (1..=FORMAT).contains(&version.format),
            "the record has format {}, this knee reads 1 to {FORMAT}: use a newer knee",
            version.format
        );
        serde_json::from_str(text).context("reading a record")
    }

    /// The metric that decides about a point: the experiment's, or what is usual for a command
    /// or for timed operations where the experiment says nothing.
    pub fn deciding(&self, point: &Point) -> String {
        self.deciding_or(point, &self.experiment.compare.metric)
    }

    /// The same where `asked` stands for the experiment's metric.
    pub fn deciding_or(&self, point: &Point, asked: &str) -> String {
        if asked != Judging::default().metric {
            return asked.to_string();
        }
        match (&point.command, point.pass) {
            (Some(_), _) => {
                let own = self.commands.get(&point.workload).map(Command::primary);
                own.unwrap_or(crate::command::WALL).to_string()
            }
            (None, Pass::Latency) => "latency.mean_ns".to_string(),
            (None, Pass::Rate) => asked.to_string(),
        }
    }

    /// The virtual machine that a variant's runs are made in, by the variant's name.
    pub fn guest(&self, variant: &str) -> Option<Guest> {
        let variant = self.variants.iter().find(|known| known.name == variant);
        self.experiment.guest(variant)
    }

    /// Whether runs were made in virtual machines whose instructions were translated: their times
    /// say nothing about a processor.
    pub fn emulated(&self) -> bool {
        self.hypervisor.as_ref().is_some_and(Hypervisor::emulates)
    }

    /// When the first session started.
    pub fn started(&self) -> Option<jiff::Timestamp> {
        self.sessions.first().map(|s| s.started)
    }

    /// Runs the experiment asks for.
    pub fn runs_planned(&self) -> u32 {
        let points = u32::try_from(self.points.len()).unwrap_or(u32::MAX);
        points.saturating_mul(self.experiment.blocks())
    }
}
