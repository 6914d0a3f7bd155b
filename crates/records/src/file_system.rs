//! File systems that knee makes for its runs: what a variant asks for, where they are stored, and
//! what a run found when its file system was mounted.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scalar::Scalar;
use crate::tasks::{TASKS_MAX, Until};

/// A file system that a variant asks knee to make and mount.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct FileSystem {
    /// Type of the file system as in mount(8): `xfs`.
    pub kind: String,
    /// Arguments of the mkfs program, split into words as by a shell.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// Mount options, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mount: String,
}

impl FileSystem {
    /// How to write a file system on the command line.
    pub const USAGE: &str = "must be a kind of file system (xfs), several (ext4,xfs), or one with options, \
                             KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each optionally named, NAME=KIND";

    /// Parses `KIND` or `KIND:mkfs=…;mount=…`. Does not check whether knee can make that kind.
    pub fn parse(text: &str) -> Result<FileSystem> {
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        FileSystem::with_options(kind.trim(), options)
    }

    /// A file system of this kind with options written as `mkfs=…;mount=…`.
    pub fn with_options(kind: &str, options: &str) -> Result<FileSystem> {
        let mut file_system = FileSystem { kind: kind.to_string(), ..FileSystem::default() };
        for option in options.split(';').map(str::trim).filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("mkfs", value)) => file_system.mkfs = value.trim().to_string(),
                Some(("mount", value)) => file_system.mount = value.trim().to_string(),
                _ => bail!(
                    "'{option}' of {kind} is neither mkfs=… nor mount=…: it {}",
                    FileSystem::USAGE
                ),
            }
        }
        Ok(file_system)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.kind)?;
        for (what, options) in [("mkfs", &self.mkfs), ("mount", &self.mount)] {
            if !options.is_empty() {
                write!(f, " {what} '{options}'")?;
            }
        }
        Ok(())
    }
}

/// Where knee stores the file systems that it makes, and how long each lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Storage {
    /// `loop`: an image in the measured directory; `ram`: an image in memory; or the path of a block
    /// device.
    pub on: String,
    /// Size of each: `8G`. A block device is used whole.
    pub size: Scalar,
    /// How long each file system lives.
    pub policy: Policy,
    /// How each file system is aged, if that is the policy.
    #[serde(skip_serializing_if = "Age::is_default")]
    pub age: Age,
}

impl Default for Storage {
    fn default() -> Storage {
        Storage {
            on: "loop".to_string(),
            size: Scalar("8G".to_string()),
            policy: Policy::default(),
            age: Age::default(),
        }
    }
}

impl Storage {
    pub(crate) fn is_default(&self) -> bool {
        *self == Storage::default()
    }
}

/// An unmounted image of a file system, made and filled by a workload once per session; runs get
/// copies of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// The file system to make.
    pub file_system: FileSystem,
    /// Size of the image: `4G`; it is sparse.
    pub size: Scalar,
    /// The workload that fills it.
    pub workload: String,
    /// Parameters of that workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Scalar>,
    /// Tasks that fill it, each in a directory of its own.
    pub tasks: u32,
    /// Operations of each of these tasks.
    pub operations_per_task: u64,
}

impl Image {
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            (1..=TASKS_MAX).contains(&self.tasks),
            "tasks is {}, must be 1 to {TASKS_MAX}",
            self.tasks
        );
        Until::OperationsPerTask(self.operations_per_task).check()
    }
}

/// The state of an image after it was made and filled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Filled {
    /// Operations that filled it: files, if the workload is `create_files`.
    pub operations: u64,
    /// Time to make and fill it, in seconds.
    pub seconds: f64,
    /// Bytes of the image that hold data.
    pub bytes_used: u64,
    /// The file system as it was mounted for filling.
    pub file_system: Mounted,
}

/// How long a file system lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Each run has a file system of its own, made for it.
    #[default]
    Fresh,
    /// The runs of a variant share a file system, made once per session.
    Kept,
    /// Each run has a file system of its own: a copy of one that was filled and churned once per
    /// session.
    Aged,
}

impl Policy {
    /// The word used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fresh => "fresh",
            Policy::Kept => "kept",
            Policy::Aged => "aged",
        }
    }
}

/// How a file system is aged before it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Age {
    /// The share of the file system that files fill.
    pub filled: f64,
    /// How often half of the files are removed and replaced by new ones.
    pub rounds: u32,
}

impl Default for Age {
    fn default() -> Age {
        Age { filled: 0.5, rounds: 4 }
    }
}

impl Age {
    fn is_default(&self) -> bool {
        *self == Age::default()
    }

    /// Refuses ageing that is impossible or would take hours.
    pub fn check(&self) -> Result<()> {
        ensure!(
            (0.01..=0.9).contains(&self.filled),
            "file systems can be filled to between 1 % and 90 % for ageing, not to {:.1} %",
            self.filled * 100.0
        );
        ensure!(
            self.rounds <= 1000,
            "{} rounds of ageing are asked for, at most 1000 are possible",
            self.rounds
        );
        Ok(())
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "filled to {:.0} %, {} rounds", self.filled * 100.0, self.rounds)
    }
}

/// The state of a file system after ageing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Aged {
    /// Seed of the random choice of files.
    pub seed: u64,
    /// Number of files in it.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
    /// Number of files that were ever created; the others were removed.
    pub created: u64,
    /// Number of free extents, if the file system's own programs count them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_extents: Option<u64>,
    /// Bytes that were free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_free: Option<u64>,
    /// Time that ageing took, in milliseconds.
    pub took_ms: u64,
}

/// The file system that was mounted for a run, as reported by the kernel and by its mkfs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Mounted {
    /// The kind that was asked for.
    pub kind: String,
    /// The driver that served it, if its name differs from the kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The device or image below it.
    pub on: String,
    /// Options of the mount and of the file system, in effect.
    pub options: String,
    /// Size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Geometry and features, by the names in the file system's own programs.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub geometry: BTreeMap<String, String>,
    /// The ageing before the run, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aged: Option<Aged>,
}
