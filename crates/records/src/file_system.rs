//! File systems that knee makes for its runs: what a variant asks for, where such file systems
//! lie, and what a run found when its own was mounted.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::experiment::Scalar;
use crate::job::{TASKS_MAX, Until};

/// A file system to be made and mounted, as a variant asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its kind, as mount(8) takes it: `xfs`.
    pub kind: String,
    /// Arguments of the program that makes it, split into words as a shell does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mkfs: String,
    /// Mount options, separated by commas.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub mount: String,
}

impl FileSystem {
    /// How a file system is written on the command line.
    pub const USAGE: &str = "must be a kind of file system (xfs), several (ext4,xfs), or one with options, \
                             KIND:'mkfs=ARGUMENTS;mount=OPTIONS', each perhaps with a name before it, NAME=KIND";

    /// Reads `KIND` or `KIND:mkfs=…;mount=…`. Whether knee can make that kind is not checked here.
    pub fn parse(text: &str) -> Result<FileSystem> {
        let (kind, options) = text.split_once(':').unwrap_or((text, ""));
        FileSystem::with_options(kind.trim(), options)
    }

    /// A file system of this kind with options written as `mkfs=…;mount=…`.
    pub fn with_options(kind: &str, options: &str) -> Result<FileSystem> {
        let mut read = FileSystem { kind: kind.to_string(), ..FileSystem::default() };
        for option in options.split(';').map(str::trim).filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("mkfs", value)) => read.mkfs = value.trim().to_string(),
                Some(("mount", value)) => read.mount = value.trim().to_string(),
                _ => bail!(
                    "'{option}' of {kind} is neither mkfs=… nor mount=…: it {}",
                    FileSystem::USAGE
                ),
            }
        }
        Ok(read)
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

/// Where file systems that are made lie, and how long each lives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Storage {
    /// `loop`: an image in the measured directory; `ram`: an image in memory; or a block device
    /// by its path.
    pub on: String,
    /// Size of each: `8G`. Of a block device, all of it is used.
    pub size: Scalar,
    /// How long each lives.
    pub policy: Policy,
    /// How each is aged, where that is the policy.
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

/// A file system that is made, filled by a workload and unmounted once in a session, as a
/// pristine image; runs get copies of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Image {
    /// What is made.
    pub file_system: FileSystem,
    /// Its size: `4G`; the image is sparse.
    pub size: Scalar,
    /// The workload that fills it.
    pub workload: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, Scalar>,
    /// Tasks that fill it, each in a directory of its own.
    pub tasks: u32,
    /// How many operations each of them does.
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

/// What an image was when it had been made and filled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Filled {
    /// Operations that filled it: with `create_files`, files.
    pub operations: u64,
    /// How long making and filling it took, in seconds.
    pub seconds: f64,
    /// Bytes of the image that hold data.
    pub bytes_used: u64,
    /// The file system as it was mounted to be filled.
    pub file_system: Mounted,
}

/// How long a file system lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// Each run has one of its own, made for it.
    #[default]
    Fresh,
    /// The runs of a variant share one, made once in a session.
    Kept,
    /// Each run has one of its own, a copy of one that was filled and churned once in a session.
    Aged,
}

impl Policy {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fresh => "fresh",
            Policy::Kept => "kept",
            Policy::Aged => "aged",
        }
    }
}

/// How a file system is aged before it is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Age {
    /// The share of its size that files take.
    pub filled: f64,
    /// How often half of the files are removed and others created in their place.
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

    /// Refuses what cannot be done, or would take hours.
    pub fn check(&self) -> Result<()> {
        ensure!(
            (0.01..=0.9).contains(&self.filled),
            "file systems can be filled to 1 % to 90 % to age them, not {:.1} %",
            self.filled * 100.0
        );
        ensure!(self.rounds <= 1000, "{} rounds of ageing are too many: at most 1000", self.rounds);
        Ok(())
    }
}

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "filled to {:.0} %, {} rounds", self.filled * 100.0, self.rounds)
    }
}

/// How a file system was when it had been aged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Aged {
    /// Seed of what was created and removed.
    pub seed: u64,
    /// Files that are in it.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were created, all in all; the others were removed.
    pub created: u64,
    /// What its own programs count as extents of free space, where they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_extents: Option<u64>,
    /// Bytes that were free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_free: Option<u64>,
    /// How long ageing it took, in milliseconds.
    pub took_ms: u64,
}

/// What was mounted for a run, as the kernel and the program that made it tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mounted {
    /// The kind asked for.
    pub kind: String,
    /// The driver that served it, where its name is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// What it lay on.
    pub on: String,
    /// Options of the mount and of the file system, in effect.
    pub options: String,
    /// Its size in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Its geometry and features, by the names that its own programs use.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub geometry: BTreeMap<String, String>,
    /// How it had been aged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aged: Option<Aged>,
}
