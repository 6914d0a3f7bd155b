//! The protocol between knee and a guest's init, which is the same binary: JSON lines.
//!
//!     knee:  ── Run ──────────────────────────────> Run … PowerOff
//!     init:  Ready ─ Event* ─ Kernel* ─ Done ─────> …
//!
//! No line crosses while tasks are measured: a worker is silent then.

use std::collections::BTreeMap;

use host::Topology;
use records::{Age, Aged, Event, FileSystem, HostFacts, Job, Mounted, Variant, Warning};
use serde::{Deserialize, Serialize};

/// Where the modules lie in the initramfs, numbered in the order in which init loads them.
pub const MODULES: &str = "/modules";

/// The guest's disk.
pub const DISK: &str = "/dev/vda";

/// What knee asks init to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Do a run.
    Run(Box<GuestRun>),
    /// Age a file system.
    Age(Box<GuestAge>),
    /// Send the symbols of the kernel.
    Symbols,
    /// Unmount the file system that was kept for the next run.
    Unmount,
    /// Send where the dynamic linker loads the libraries of the program at this path.
    Libraries(String),
    /// Start a program with these arguments on the console, and wait for it.
    Program(Vec<String>),
    /// Reset the machine, which ends QEMU.
    PowerOff,
}

/// A run for init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestRun {
    /// The job. Only the last name of its directory counts: init puts it below what it mounts.
    pub job: Job,
    /// The variant, with its environment, kernel settings, and a file system that is on the disk
    /// already.
    pub variant: Option<Variant>,
    /// Whether the file system stays mounted for the runs that follow.
    pub kept: bool,
    /// How long its worker may take, in seconds.
    pub deadline_s: f64,
}

/// A file system for init to age, which is on the disk already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestAge {
    /// How it was made.
    pub made: FileSystem,
    /// How far to age it.
    pub age: Age,
    /// Decides which files are created and removed.
    pub seed: u64,
}

/// What init answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The guest is up.
    Ready(Box<Ready>),
    /// An event of the worker.
    Event(Event),
    /// A line of the kernel log, of level "warning" or worse.
    Kernel(String),
    /// The run is over.
    Done(Box<GuestRunResult>),
    /// The file system was aged, or the error.
    Aged(Result<Aged, String>),
    /// Some lines of /proc/kallsyms; empty after the last.
    Symbols(String),
    /// No file system is mounted for runs, or the error.
    Unmounted(Result<(), String>),
    /// The libraries of a program with their addresses, as ldd(1) prints them, or the error.
    Libraries(Result<String, String>),
    /// The program has ended, with this status or error.
    Ended(String),
}

impl Reply {
    /// Parses a line of the guest.
    pub fn read(line: &str) -> serde_json::Result<Reply> {
        serde_json::from_str(line)
    }
}

/// The guest, as init found it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The kernel and its settings.
    pub host: HostFacts,
    /// The CPUs that are online.
    pub topology: Topology,
    /// The address of the kernel's text in /proc/kallsyms.
    pub text: Option<String>,
    /// Modules that were loaded.
    pub modules: Vec<String>,
    /// What could not be set up, a sentence each.
    pub problems: Vec<String>,
    /// How long the steps of init's setup took, in seconds, by name.
    pub setup_s: BTreeMap<String, f64>,
}

/// How a run ended in the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GuestRunResult {
    /// How its worker ended, to follow "the worker".
    pub exit: String,
    /// Why the run does not count, whatever its worker reported.
    pub invalid_because: Vec<String>,
    pub warnings: Vec<Warning>,
    /// The file system that was mounted for it.
    pub mounted: Option<Mounted>,
}

/// A message as a line.
pub fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("messages are plain data")
}
