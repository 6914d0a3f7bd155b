//! The host and the directory a record was measured on: what somebody needs to
//! know to believe a number, or to repeat it elsewhere. What the host did not tell
//! is absent, never empty and never zero.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The computer that was measured, as its kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// The name it gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Kernel release, as `uname -r` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_release: Option<String>,
    /// Kernel version, as `cat /proc/version` prints it: compiler, build number,
    /// preemption model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_version: Option<String>,
    /// Machine architecture, as `uname -m` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The command line the kernel was booted with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_command_line: Option<String>,
    /// CPU model of the first CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Microcode revision of the first CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Memory the kernel manages, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Random name of this boot: equal in two records means the same boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What virtualises this host; absent on bare metal, and where nothing shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Settings that move performance, by name, each as the kernel prints it; of a list
    /// with one choice, the choice. A setting that this kernel does not have is absent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, String>,
}

/// A directory that workloads used, and the file system it lies on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Directory {
    /// The directory, without symbolic links.
    pub path: PathBuf,
    /// Type of the file system: `ext4`, `xfs`, `tmpfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// What is mounted: a block device, a server, or a word such as `tmpfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Where it is mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<PathBuf>,
    /// Options of the mount and then of the file system, joined by commas; one that
    /// both have is written once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<String>,
    /// Size of the file system, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Bytes that an unprivileged user may still write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_free: Option<u64>,
    /// Files that can still be created; absent where the file system has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// The block device below, where there is one: `name` (of the whole disk), `model`,
    /// `rotational` (0 or 1), `scheduler`, `write_cache`, and `on`: what it is made of.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, String>,
}
