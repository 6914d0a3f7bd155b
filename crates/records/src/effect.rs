//! What an experiment starts and changes on a host besides knee's own workloads, so that a reader of an
//! unknown file sees it before anything runs.

use schemars::JsonSchema;
use serde::Serialize;

/// A program that an experiment starts, or a change of the host that it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Effect {
    /// The kind of program or change.
    pub kind: EffectKind,
    /// The program and its arguments, or the setting with its value.
    pub words: Vec<String>,
    /// The place, the variant, or the reason; empty if the words say it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// The kind of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// A device loses its data.
    Destroys,
    /// A program makes a file system.
    Mkfs,
    /// A file system is mounted.
    Mount,
    /// A program checks or describes a file system.
    Fsck,
    /// A kernel setting has another value during runs.
    Sysctl,
    /// A virtual machine, or the host itself, boots a kernel.
    Boot,
    /// A wrapper starts knee's worker.
    Under,
    /// Another build of knee is the worker.
    Binary,
    /// The worker and its programs get an environment variable.
    Environment,
    /// A program prints the version that is measured.
    Version,
    /// A program runs before each run.
    Prepare,
    /// A program serves while its client is measured.
    Server,
    /// A program runs beside the runs of a variant.
    Daemon,
    /// The program that is measured.
    Command,
    /// A program runs after each run.
    Cleanup,
    /// A program builds what is measured.
    Build,
    /// The host's compiler compiles a file, and the program that it makes is measured.
    Compile,
    /// A file is read for the numbers in it.
    Reads,
    /// Calls of a kernel function are counted by a kprobe.
    Kprobe,
    /// Passes of a place in a program are counted by a uprobe.
    Uprobe,
}

impl EffectKind {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            EffectKind::Destroys => "destroys",
            EffectKind::Mkfs => "mkfs",
            EffectKind::Mount => "mount",
            EffectKind::Fsck => "fsck",
            EffectKind::Sysctl => "sysctl",
            EffectKind::Boot => "boot",
            EffectKind::Under => "under",
            EffectKind::Binary => "binary",
            EffectKind::Environment => "environment",
            EffectKind::Version => "version",
            EffectKind::Prepare => "prepare",
            EffectKind::Server => "server",
            EffectKind::Daemon => "daemon",
            EffectKind::Command => "command",
            EffectKind::Cleanup => "cleanup",
            EffectKind::Build => "build",
            EffectKind::Compile => "compile",
            EffectKind::Reads => "reads",
            EffectKind::Kprobe => "kprobe",
            EffectKind::Uprobe => "uprobe",
        }
    }
}
