//! The host and the directories of a record: the facts that a reader needs to trust a number or to
//! repeat the measurement. A fact that the host does not reveal is absent, never empty and never zero.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The host that was measured, as its kernel describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// Host name.
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
    /// The command line of the kernel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_command_line: Option<String>,
    /// Model of the first CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Microcode revision of the first CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// Memory that the kernel manages, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Random id of the boot: records with equal ids are of the same boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The hypervisor below this host; absent on bare metal, and if nothing reveals it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// Settings that affect performance, by name, each as the kernel prints it; for a list with a
    /// selected choice, that choice. A setting that this kernel does not have is absent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub knobs: BTreeMap<String, String>,
}

/// A directory that workloads used, and its file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Directory {
    /// The directory, without symbolic links.
    pub path: PathBuf,
    /// Type of the file system: `ext4`, `xfs`, `tmpfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<String>,
    /// The source of the mount: a block device, a server, or a word such as `tmpfs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Mount point of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_point: Option<PathBuf>,
    /// Options of the mount and then of the file system, joined by commas; an option that both have
    /// is written once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<String>,
    /// Size of the file system, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_total: Option<u64>,
    /// Bytes that an unprivileged user may still write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_free: Option<u64>,
    /// Number of files that can still be created; absent if the file system has no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// The block device below, if there is one: `name` (of the whole disk), `model`, `rotational` (0 or
    /// 1), `scheduler`, `write_cache`, and `on`, the devices it is built on.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub device: BTreeMap<String, String>,
}
