//! The record: what one execution of an experiment leaves. `record.json` is this type; runs and
//! samples lie beside it. docs/formats/record.md specifies the folder.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use host::durable::Seal;
use host::{Placement, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::{ClientHost, Command, Program};
use crate::experiment::{Experiment, Judging, Variant};
use crate::file_system::Filled;
use crate::guest::{Guest, Hypervisor};
use crate::host_facts::{Directory, HostFacts};
use crate::metric::{DescribedMetric, MetricKind, find_metric, per_operation};
use crate::tasks::{Form, Pass, Until};
use crate::warning::Warning;

/// Version of the record format. It is raised when a reader of the old version would misread the new
/// one. Every version back to 1 loads forever.
pub const FORMAT: u32 = 2;

/// The contents of `record.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// [`FORMAT`] at the time of writing.
    pub format: u32,
    /// Id of the record, which is also the name of its folder.
    pub id: String,
    /// Whether the record is whole.
    pub state: RecordState,
    /// A name that the user gave it, usable wherever a record is named.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What the user wants to remember about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// The experiment as it was given.
    pub experiment: Experiment,
    /// Seed of the random order of points within blocks.
    pub seed: u64,
    /// All planned points. Runs refer to them by index.
    pub points: Vec<Point>,
    /// The blocks that this record measures, where other records measure the rest of the experiment;
    /// absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<Vec<u32>>,
    /// The variants that are compared, baseline first, with factors already combined. Points refer to
    /// them by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<Variant>,
    /// Where the runs come from, if knee did not measure them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Descriptions of metrics that are not knee's own, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, DescribedMetric>,
    /// The whole definitions of the commands that points name as their workload, by that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub commands: BTreeMap<String, Command>,
    /// What one operation of each workload is, by the workload's name, in the words of the knee
    /// that measured it. Empty in records written before this field existed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub operations: BTreeMap<String, String>,
    /// The programs that commands start, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, Program>,
    /// The image that runs get copies of, as it was last made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Filled>,
    /// The hypervisor, if runs were made in virtual machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<Hypervisor>,
    /// The executions that contributed: the first, and one for each resumption.
    pub sessions: Vec<Session>,
    /// The host that was measured.
    pub host: HostFacts,
    /// The hosts of clients that run elsewhere, by the `client_on` of their servers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, ClientHost>,
    /// The CPUs of the host.
    pub topology: Topology,
    /// The measured directories, with their file systems.
    pub directories: Vec<Directory>,
    /// Warnings about the record as a whole.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// Number of runs that finished.
    #[serde(default)]
    pub runs_finished: u32,
    /// Number of runs that failed.
    #[serde(default)]
    pub runs_failed: u32,
    /// Length and hash of each file beside this one; empty while the record grows.
    #[serde(default)]
    pub files: BTreeMap<String, Seal>,
}

/// Whether a record is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The word used in files and lists.
    pub fn name(self) -> &'static str {
        match self {
            RecordState::Growing => "growing",
            RecordState::Whole => "whole",
            RecordState::Partial => "partial",
        }
    }
}

/// Where imported runs come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The format by its name in `knee record import --format`.
    pub format: String,
    /// Length and hash of the files, by the path as given.
    pub files: BTreeMap<String, Seal>,
    /// What one run of the source is: what was set up anew before it.
    pub unit: ReplicationUnit,
    /// Whether runs of one block belong together, as runs in random order within blocks do.
    pub blocks: bool,
    /// The first run of each session, by its number: the runs of a file are of one session, unless its format
    /// says otherwise. Empty in records of older versions: one session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<u32>,
    /// Whether the times at which runs started are known; otherwise they have that of the import.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub timed: bool,
    /// What the format does not record and what follows from that, one sentence each.
    pub lacks: Vec<String>,
}

/// What is set up anew for each replicate: the level at which randomness enters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ReplicationUnit {
    /// Values inside one run: there is no replication.
    Sample,
    /// A run with fresh tasks.
    Run,
    /// A file system made or mounted anew.
    Mount,
    /// A boot.
    Boot,
}

/// One point of the experiment: a cell, and one variant of it where variants are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Name of the workload.
    pub workload: String,
    /// Semantic version of the workload: results of different versions must not be compared.
    pub semantics: u32,
    /// All parameters of the workload.
    pub parameters: BTreeMap<String, String>,
    /// Processes or threads.
    #[serde(rename = "as")]
    pub form: Form,
    /// Number of CPUs used; 0 if an imported result does not record it.
    pub cpus: u32,
    /// How the CPUs were chosen.
    pub placement: Placement,
    /// The CPUs used, in order.
    pub cpu_list: Vec<u32>,
    /// Number of tasks; task i is pinned to `cpu_list[i % cpus]`. 0 if an imported result does not
    /// record it.
    pub tasks: u32,
    /// When the tasks stop.
    pub until: Until,
    /// What is recorded.
    pub pass: Pass,
    /// The directory whose file system is measured.
    pub dir: PathBuf,
    /// The variant; empty if nothing is compared.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// Number of the cell: points of one cell differ only in what their variants do. Absent if nothing
    /// is compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<u32>,
    /// The line of a command with its placeholders; absent if the workload is knee's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Fields that a newer knee wrote. Points that differ in them are different points, even for a
    /// reader that does not know what they mean.
    #[serde(flatten)]
    pub other: BTreeMap<String, serde_json::Value>,
}

/// One execution of `knee run` that contributed to a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// The command line.
    pub command: Vec<String>,
    /// Version of knee.
    pub knee: String,
    /// When it started.
    pub started: jiff::Timestamp,
    /// When it ended; absent if knee was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<jiff::Timestamp>,
    /// The boot it ran in.
    pub boot_id: String,
    /// The host it ran on, where a record has runs of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Number of its first run.
    pub first_run: u32,
    /// How the host differed from its state before the session, after everything had been put back;
    /// absent if no comparison was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_changes: Option<Vec<HostChange>>,
}

/// A part of the host's state that differs from what it was before a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostChange {
    /// The state now, and the state before.
    pub text: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advice: String,
    /// Whether it bears a mark of knee's, so that knee must have left it behind. Otherwise another
    /// program changed it, as far as knee can tell.
    pub by_knee: bool,
}

impl fmt::Display for HostChange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let HostChange { text, advice, by_knee } = self;
        let whose = if *by_knee {
            "left behind"
        } else {
            "changed by another program, as far as knee can tell"
        };
        write!(f, "{whose}: {text}")?;
        if advice.is_empty() { Ok(()) } else { write!(f, ": {advice}") }
    }
}

/// The one field that every format has.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

/// Refuses a label that would read as something else where a record is named: an id or its start, `last`,
/// `all`, a path or an option.
pub fn check_label(label: &str) -> Result<()> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-.+@".contains(c);
    ensure!(
        label.starts_with(char::is_alphabetic)
            && label.chars().all(is_plain)
            && label.len() <= 100
            && !["last", "all"].contains(&label),
        "'{}' cannot be a label: start with a letter, use letters, digits and _-.+@, and neither \
         'last' nor 'all'",
        label.escape_debug()
    );
    Ok(())
}

/// How a warning begins that says why others than the user decided what a record holds.
const OF_OTHERS: &str = "others may have decided what was measured: ";

impl Record {
    /// Notes why others than the user may have decided what this holds. To measure it again runs what they decided.
    pub fn note_others(&mut self, why: &str) {
        let advice = "look at its experiment before you measure it again";
        self.warnings.push(Warning::new(format!("{OF_OTHERS}{why}"), advice));
    }

    /// Why others than the user may have decided what this holds, if that was noted.
    pub fn why_of_others(&self) -> Option<&str> {
        self.warnings.iter().find_map(|warning| warning.text.strip_prefix(OF_OTHERS))
    }

    /// Parses the text of `record.json`. Unknown fields are ignored; an unknown format is refused.
    pub fn read(text: &str) -> Result<Record> {
        let version: Versioned = serde_json::from_str(text).context("reading a record")?;
        ensure!(
            (1..=FORMAT).contains(&version.format),
            "the record has format {}, but this knee reads formats 1 to {FORMAT}: use a newer knee",
            version.format
        );
        serde_json::from_str(text).context("reading a record")
    }

    /// Whether the text of a `record.json` has a format that only a newer knee reads.
    pub fn is_newer(text: &str) -> bool {
        serde_json::from_str(text).is_ok_and(|version: Versioned| version.format > FORMAT)
    }

    /// The metric that decides about a point: the experiment's, or the default for commands or timed
    /// operations if the experiment names none.
    pub fn deciding(&self, point: &Point) -> String {
        self.deciding_or(point, &self.experiment.compare.metric)
    }

    /// `processes` or `threads`; empty where it is not known, as of most imported results.
    pub fn known_form(&self, point: &Point) -> &'static str {
        const TOLD: [&str; 4] = ["will-it-scale", "stress-ng", "fio", "perf-bench"];
        let is_told =
            |source: &Source| point.form == Form::Threads || TOLD.contains(&&source.format[..]);
        let is_known = point.command.is_some() || self.source.as_ref().is_none_or(is_told);
        if is_known { point.form.name() } else { "" }
    }

    /// The metric that decides about a point if the experiment's metric were `asked`.
    pub fn deciding_or(&self, point: &Point, asked: &str) -> String {
        if asked != Judging::default().metric {
            return asked.to_string();
        }
        match (&point.command, point.pass) {
            (Some(_), _) => {
                let primary = self.commands.get(&point.workload).map(Command::primary);
                primary.unwrap_or(crate::command::WALL).to_string()
            }
            (None, Pass::Latency) => "latency.mean_ns".to_string(),
            (None, Pass::Rate) => asked.to_string(),
        }
    }

    /// The virtual machine that a variant's runs are made in, by the variant's name.
    pub fn guest(&self, variant: &str) -> Option<Guest> {
        let variant = self.variants.iter().find(|candidate| candidate.name == variant);
        self.experiment.guest(variant)
    }

    /// The kernel that the host itself boots for a variant's runs, by the variant's name.
    pub fn metal(&self, variant: &str) -> Option<Guest> {
        let variant = self.variants.iter().find(|candidate| candidate.name == variant);
        self.experiment.metal(variant)
    }

    /// What a metric's number is made of, if that is known. `NAME/op` is made of what NAME is made of.
    pub fn kind_of(&self, metric: &str) -> Option<MetricKind> {
        let (name, _) = per_operation(metric);
        match self.metrics.get(name) {
            Some(described) => described.kind(),
            None => find_metric(name).map(|metric| metric.kind),
        }
    }

    /// Whether runs were made in emulated virtual machines: their times say nothing about a processor.
    pub fn emulated(&self) -> bool {
        self.hypervisor.as_ref().is_some_and(Hypervisor::emulates)
    }

    /// The name of the host that made a run; of a record that several made, that of the run's session.
    pub fn host_of_run(&self, run: u32) -> Option<&str> {
        let session = self.sessions.iter().rfind(|session| session.first_run <= run);
        let node = session.and_then(|session| session.node.as_deref());
        node.or(self.host.hostname.as_deref())
    }

    /// The hosts that made so many runs, each with its number of them, those with most runs first.
    pub fn hosts(&self, runs: u32) -> Vec<(String, u32)> {
        let name = |run: u32| self.host_of_run(run).map_or("?".to_string(), str::to_string);
        let firsts =
            self.sessions.iter().map(|session| session.first_run).filter(|run| *run < runs);
        let mut firsts: Vec<u32> = firsts.chain([0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let ends = firsts.iter().skip(1).copied().chain([runs]);
        let mut hosts: Vec<(String, u32)> = Vec::new();
        for (first, end) in firsts.iter().zip(ends) {
            let (host, made) = (name(*first), end - first);
            match hosts.iter_mut().find(|(known, _)| *known == host) {
                Some((_, runs)) => *runs += made,
                None => hosts.push((host, made)),
            }
        }
        hosts.sort_by(|(a, more), (b, less)| less.cmp(more).then(a.cmp(b)));
        hosts
    }

    /// Number of blocks that this record holds when it is whole, without spares.
    pub fn blocks_planned(&self) -> u32 {
        let all = self.experiment.blocks();
        let is_planned = |block: &&u32| **block < all;
        self.blocks.as_ref().map_or(all, |own| own.iter().filter(is_planned).count() as u32)
    }

    /// When the first session started.
    pub fn started(&self) -> Option<jiff::Timestamp> {
        self.sessions.first().map(|s| s.started)
    }

    /// The number of runs that the experiment asks for. `None` if runs decide how many more there are.
    pub fn runs_planned(&self) -> Option<u32> {
        let points = u32::try_from(self.points.len()).unwrap_or(u32::MAX);
        let all = points.saturating_mul(self.blocks_planned());
        self.experiment.adaptive.is_none().then_some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_by_their_shares() {
        let session = |node: Option<&str>, first_run: u32| {
            serde_json::json!({
                "command": [], "knee": "1", "started": "2026-11-20T12:00:00Z", "boot_id": "b", "node": node,
                "first_run": first_run,
            })
        };
        let record = |sessions: Vec<serde_json::Value>| -> Record {
            serde_json::from_value(serde_json::json!({
                "format": 2, "id": "r", "state": "whole", "seed": 1,
                "experiment": {"load": [{"workload": "getppid"}]}, "points": [], "sessions": sessions,
                "host": {"hostname": "beta"}, "topology": {"cpus": []}, "directories": [],
            }))
            .unwrap()
        };
        let check = |sessions, runs, expected: &[(&str, u32)]| {
            let expected: Vec<(String, u32)> =
                expected.iter().map(|(name, runs)| (name.to_string(), *runs)).collect();
            assert_eq!(record(sessions).hosts(runs), expected);
        };
        let of_fleet = || {
            vec![
                session(Some("beta"), 0),
                session(Some("gamma"), 43),
                session(Some("beta"), 160),
                session(Some("late"), 165),
            ]
        };
        check(of_fleet(), 165, &[("gamma", 117), ("beta", 48)]);
        check(vec![session(None, 0), session(None, 9)], 12, &[("beta", 12)]);
        check(Vec::new(), 0, &[("beta", 0)]);
        let fleet = record(of_fleet());
        assert_eq!(fleet.host_of_run(43), Some("gamma"));
        assert_eq!(fleet.host_of_run(42), Some("beta"));
    }

    #[test]
    fn a_label_cannot_be_taken_for_an_id_or_a_path() {
        for label in ["before", "v6.12-rc1", "nightly@x", "größer"] {
            check_label(label).unwrap();
        }
        for wrong in
            ["", "2026", "last", "all", "a/b", "-x", "a b", "a:b", "a\x1b", &"x".repeat(101)]
        {
            assert!(check_label(wrong).is_err(), "{wrong}");
        }
    }
}
