//! The lines of a list of records. Folders that are no finished record are listed too, with the reason: a
//! user who misses a record looks for it in the list.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use records::Record;

use host::{HeldFolder, counted};

use crate::folder::{self, Writer, id_in_name, is_hidden};
use crate::followed::count_runs;
use crate::record_files::{PLAN, RECORD, RECORD_LIMIT};

/// A record in a list.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(default)]
pub struct Listed {
    /// Id of the record.
    pub id: String,
    /// Folder of the record.
    pub folder: PathBuf,
    /// Name of the experiment.
    pub name: String,
    /// Workloads, separated by commas.
    pub workloads: String,
    /// Names of the hosts that made runs, separated by commas, the one with most runs first.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `whole` or `partial`; of a folder without a finished record that can be read, `growing`,
    /// `unfinished`, `damaged` or `foreign`.
    pub state: String,
    /// Number of planned points.
    pub points: u32,
    /// Number of finished runs.
    pub runs: u32,
    /// Number of failed runs.
    pub failed: u32,
    /// Number of planned runs.
    pub planned: u32,
    /// The user's name for it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// What the user wants to remember about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// What was found, in a sentence; empty where nobody asked for it yet, and in records of very many runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    /// When its first session started; absent if the record cannot be read.
    pub started: Option<Timestamp>,
    /// Length of its files; 0 if it is not finished.
    pub bytes: u64,
    /// Why it is neither whole nor partial.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl Listed {
    /// The line of a record in a list.
    pub fn from_record(folder: &Path, record: &Record) -> Listed {
        let mut workloads: Vec<&str> = Vec::new();
        for point in &record.points {
            if !workloads.contains(&point.workload.as_str()) {
                workloads.push(&point.workload);
            }
        }
        Listed {
            id: record.id.clone(),
            folder: folder.to_path_buf(),
            name: record.experiment.name.clone(),
            workloads: workloads.join(", "),
            host: hosts(record),
            kernel: record.host.kernel_release.clone().unwrap_or("?".to_string()),
            state: record.state.name().to_string(),
            points: record.points.len() as u32,
            runs: record.runs_finished,
            failed: record.runs_failed,
            planned: record.runs_planned().unwrap_or(0),
            label: record.label.clone(),
            note: record.note.clone(),
            result: String::new(),
            started: record.started(),
            bytes: folder::bytes(folder, record),
            reason: String::new(),
        }
    }
}

impl Listed {
    /// "40 runs", "37 of 40 runs, 2 failed": planned runs are named where some are missing.
    pub fn runs_in_words(&self) -> String {
        let done = self.runs + self.failed;
        let is_missing = self.state != "whole" && self.planned > 0;
        let of = if is_missing { format!("{done} of ") } else { String::new() };
        let all = if is_missing { self.planned } else { done };
        let failed = Some(self.failed).filter(|failed| *failed > 0);
        let failed = failed.map_or(String::new(), |failed| format!(", {failed} failed"));
        format!("{of}{}{failed}", counted(all as usize, "run"))
    }
}

/// The hosts of a finished record, which knows its number of runs, or else of its sessions.
fn hosts(record: &Record) -> String {
    let runs = record.runs_finished + record.runs_failed;
    let begun = record.sessions.iter().map(|session| session.first_run + 1).max();
    let hosts = record.hosts(if runs > 0 { runs } else { begun.unwrap_or(1) });
    hosts.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// The line of a folder that is no finished record that can be read: still being written, left behind by a
/// dead writer, damaged, or written by a newer knee. `None` if it is a finished record, or none at all.
pub fn look(folder: &Path) -> Option<Listed> {
    let id = id_in_name(folder)?;
    if folder.is_symlink() {
        return Some(not_read(
            folder,
            id,
            "it is a symbolic link, and knee follows none in a store",
        ));
    }
    match folder::read_record(folder) {
        Ok(_) if !is_hidden(folder) => None,
        Ok(record) => {
            let writer = HeldFolder::open(folder).and_then(|held| folder::writer(&held));
            let (state, reason) = match writer {
                Ok(Writer::Alive) => ("growing", "a knee is writing it".to_string()),
                Ok(Writer::Dead) => ("unfinished", UNFINISHED.to_string()),
                Err(why) => ("unfinished", format!("{UNFINISHED} ({why:#})")),
            };
            let runs = count_runs(folder);
            let listed = Listed::from_record(folder, &record);
            Some(Listed { id, state: state.to_string(), reason, runs, ..listed })
        }
        // Its writer is just starting, or died before it had written anything.
        Err(_) if is_hidden(folder) && !folder.join(PLAN).exists() => None,
        Err(why) => {
            let text =
                HeldFolder::open(folder).and_then(|held| held.read_text(RECORD, RECORD_LIMIT));
            let is_newer = text.is_ok_and(|text| Record::is_newer(&text.unwrap_or_default()));
            let state = if is_newer { "foreign" } else { "damaged" };
            Some(Listed { state: state.to_string(), ..not_read(folder, id, &format!("{why:#}")) })
        }
    }
}

/// The line of what has the name of a shard and is no folder.
pub fn false_shard(path: &Path) -> Listed {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let reason = format!(
        "{} is no folder, and knee follows no link there: records behind it are not listed",
        path.display()
    );
    not_read(path, name, &reason)
}

fn not_read(folder: &Path, id: String, reason: &str) -> Listed {
    let folder = folder.to_path_buf();
    let (state, reason) = ("damaged".to_string(), reason.to_string());
    Listed { id, folder, state, reason, ..Listed::default() }
}

const UNFINISHED: &str = "its knee ended before it could finish the record: the next `knee run` does \
                          that, and --resume does the missing runs";
