//! What knee and a guest's init, which is the same binary, say to each other: JSON lines.
//!
//!     knee:  ── Run ──────────────────────────────> Run … PowerOff
//!     init:  Up ─ Event* ─ Kernel* ─ Done ────────> …
//!
//! Nothing of it crosses while tasks are measured: a worker is silent then.

use std::collections::BTreeMap;

use host::Topology;
use records::{Age, Aged, Event, FileSystem, HostFacts, Job, Mounted, Variant, Warning};
use serde::{Deserialize, Serialize};

/// What is asked of init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// To do a run.
    Run(Box<GuestRun>),
    /// To age a file system.
    Age(Box<GuestAge>),
    /// To start a program with these arguments on the console, and wait for it.
    Program(Vec<String>),
    /// To end.
    PowerOff,
}

/// A run for init.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestRun {
    /// The job; its directory is the name of one, below what is mounted.
    pub job: Job,
    /// What its variant sets: environment, kernel settings, and a file system that lies on the
    /// disk already.
    pub variant: Option<Variant>,
    /// Whether the file system stays mounted for the runs that follow.
    pub kept: bool,
    /// How long its worker may take, in seconds.
    pub deadline_s: f64,
}

/// A file system for init to age, which lies on the disk already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestAge {
    /// What it is.
    pub made: FileSystem,
    /// How far.
    pub age: Age,
    /// Of what is created and removed.
    pub seed: u64,
}

/// What init says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// The guest is up.
    Ready(Box<Ready>),
    /// The worker said something.
    Event(Event),
    /// The kernel said something of level "warning" or worse.
    Kernel(String),
    /// The run is over.
    Done(Box<Done>),
    /// The file system was aged, or why not.
    Aged(Result<Aged, String>),
    /// The program has ended.
    Ended(String),
}

/// The guest, as init found it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// The kernel and its settings.
    pub host: HostFacts,
    /// The CPUs that are online.
    pub topology: Topology,
    /// Where the kernel's text lies, as /proc/kallsyms has it.
    pub text: Option<String>,
    /// Modules that were loaded.
    pub modules: Vec<String>,
    /// What could not be set up, a sentence each.
    pub troubles: Vec<String>,
    /// How long setting up took init, in seconds, by what.
    pub took_s: BTreeMap<String, f64>,
}

/// How a run ended in the guest.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// How its worker ended.
    pub exit: String,
    /// Why it does not count.
    pub invalid_because: Vec<String>,
    /// Doubts.
    pub warnings: Vec<Warning>,
    /// What was mounted.
    pub mounted: Option<Mounted>,
}

/// As a line.
pub fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("words are plain data")
}
