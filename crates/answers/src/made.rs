//! What verbs made or saw: imports, fleets and kernels.

use std::collections::BTreeMap;
use std::path::PathBuf;

use records::{Boot, Hypervisor};
use schemars::JsonSchema;
use serde::Serialize;

/// A record made of files of another tool.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImportedRecord {
    /// Id of the record.
    pub record: String,
    /// Directory of the record.
    pub folder: PathBuf,
    /// What was read, and what the files lack, a sentence each.
    pub said: Vec<String>,
}

/// The label and the note of a record, as they are now.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NotedRecord {
    /// Id of the record.
    pub record: String,
    /// Directory of the record.
    pub folder: PathBuf,
    /// Its label; empty without one.
    pub label: String,
    /// The note attached to it; empty without one.
    pub note: String,
}

/// The records that were removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemovedRecords {
    /// One for each, in the order of their removal.
    pub removed: Vec<RemovedRecord>,
}

/// A record that was removed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemovedRecord {
    /// Directory of the record.
    pub folder: PathBuf,
    /// Whether other files in the directory were left, and the directory with them.
    pub has_other_files: bool,
}

/// How far the chunks of a fleet are.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FleetStatus<H: JsonSchema> {
    /// Number of chunks.
    pub chunks: usize,
    /// Number of chunks that are done.
    pub done: usize,
    /// Number of chunks that a host claimed and did not finish.
    pub claimed: usize,
    /// Number of chunks that no host claimed.
    pub free: usize,
    /// Seconds of one host's work that are left, estimated when the fleet was planned.
    pub work_left_s: f64,
    /// The claimed chunks.
    pub claims: Vec<FleetClaim>,
    /// What stands in the way of each host that looked.
    pub hosts: Vec<H>,
    /// Number of pending jobs by the reason that Slurm gives; null without Slurm or if nothing is free.
    pub pending: Option<BTreeMap<String, usize>>,
}

/// A chunk that is being measured, or whose owner died.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FleetClaim {
    /// Number of the chunk, from 0.
    pub chunk: usize,
    /// Number of the claim, from 1: each later one took the chunk over.
    pub claim: u32,
    /// Name of the host that claimed it.
    pub host: String,
    /// Number of runs that the host finished.
    pub runs: u64,
    /// Seconds since the last sign of life; null if there is none.
    pub silence_s: Option<f64>,
}

/// A record collected from the chunks of a fleet.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CollectedRecord {
    /// Id of the record.
    pub record: String,
    /// Directory of the record.
    pub folder: PathBuf,
    /// Names of the hosts that measured it.
    pub nodes: Vec<String>,
    /// Number of blocks.
    pub blocks: usize,
    /// Number of runs.
    pub runs: u32,
}

/// A kernel as it booted in a virtual machine.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BootedKernel {
    /// What ran the virtual machine.
    pub hypervisor: Hypervisor,
    /// The guest, its kernel and what that said.
    pub boot: Boot,
}

/// What was removed from the cache of kernels.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RemovedKernels {
    /// Keys of kernels, or of sources and objects.
    pub removed: Vec<String>,
}

/// The kernels that were to be built.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct BuiltKernels<K: JsonSchema>(pub Vec<KernelOutcome<K>>);

/// A kernel, or why there is none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum KernelOutcome<K> {
    /// The kernel is ready to boot.
    Ready(K),
    /// The build failed.
    Failed {
        /// The revision, as it was asked for.
        asked: String,
        /// Why the build failed.
        error: String,
    },
}
