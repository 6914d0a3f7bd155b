//! The job: everything that a worker needs for one run, as one JSON document on its standard input.
//! The same job works in a local process, a guest and on a cluster node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::{CommandJob, ServerJob, StartedServer};
use crate::explain::check_functions;
use crate::own_load::LoadInterface;
use crate::profile::ProfileKind;
use crate::tasks::{Form, Pass, TASKS_MAX, Until};

/// Version of the job and of the events. A worker refuses a job of another version: both ends are
/// the same binary, so a difference means that the worker was started wrongly.
pub const PROTOCOL: u32 = 2;

/// One run for a worker to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The workload or command to run.
    pub work: Work,
    /// A workload that tasks of odd number do instead, beside that of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<NativeJob>,
    /// Whether the workload beside works in the directory of the other, so that both find what all tasks share.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub together: bool,
    /// Processes or threads.
    #[serde(rename = "as")]
    pub form: Form,
    /// How many tasks, 1 to 4096.
    pub tasks: u32,
    /// The CPUs to use; task i is pinned to `cpus[i % cpus.len()]`.
    pub cpus: Vec<u32>,
    /// When the tasks stop.
    pub until: Until,
    /// What is recorded during the run.
    pub pass: Pass,
    /// What probes watch during the run; absent in a run that is not a profile.
    #[serde(default, rename = "watch", skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileJob>,
    /// A directory that does not exist yet; the worker creates and removes it.
    pub scratch: PathBuf,
    /// Whether the worker leaves that directory with what the workload has made in it: for jobs that
    /// fill a file system rather than measure it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep: bool,
    /// Whether the kernel's allocations for the tasks are counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allocations: bool,
    /// Whether the tasks mark windows for a plugin that watches the guest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub traced: bool,
    /// A process that began before the run and works beside it, whose time, with that of its descendants, is not that of
    /// other programs: the one that started the variant's daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daemon: Option<u32>,
    /// How long tasks may take to notice the end of the run, in seconds; then the run fails.
    pub stop_grace_s: f64,
}

/// What probes watch in a profiled run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileJob {
    /// The kind of the profile.
    pub kind: ProfileKind,
    /// Samples per second and CPU; 0 for none.
    pub hertz: u32,
    /// How many windows the run is divided into.
    pub windows: u32,
    /// The process that started the worker: its CPU time counts as knee's own.
    pub knee: u32,
    /// Kernel functions whose calls are counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

/// What a job does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A workload of this binary.
    Workload(NativeJob),
    /// Any program.
    Command(CommandJob),
    /// A load that the user wrote.
    Own(OwnJob),
    /// A daemon, which runs until the worker is asked to end.
    Daemon(StartedServer),
}

/// A workload of this binary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NativeJob {
    /// Its name.
    pub name: String,
    /// The semantic version that the point was planned with.
    pub semantics: u32,
    /// Parameters by name; a parameter that is not named has its default.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// A load that the user wrote, as a program that knows the board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnJob {
    /// Its name in messages.
    pub name: String,
    /// The program that was made from it.
    pub program: PathBuf,
    /// How it and the harness call each other.
    pub interface: LoadInterface,
    /// Parameters by name.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl Job {
    /// Parses and checks a job.
    pub fn read(text: &str) -> Result<Job> {
        #[derive(Deserialize)]
        struct Versioned {
            protocol: u32,
        }
        // The version first: a job of another version may not even parse as one.
        let version: Versioned = serde_json::from_str(text).context("reading the job")?;
        ensure!(
            version.protocol == PROTOCOL,
            "the job has protocol {}, but this worker has {PROTOCOL}: start both from one binary",
            version.protocol
        );
        let job: Job = serde_json::from_str(text).context("reading the job")?;
        job.check()?;
        Ok(job)
    }

    fn check(&self) -> Result<()> {
        ensure!(
            (1..=TASKS_MAX).contains(&self.tasks),
            "tasks is {}, must be 1 to {TASKS_MAX}",
            self.tasks
        );
        ensure!(!self.cpus.is_empty(), "cpus is empty, must have at least one CPU");
        let highest = self.cpus.iter().max().copied().unwrap_or(0);
        ensure!(highest < 65_536, "CPU {highest} is asked for, but no Linux has that many");
        ensure!(
            self.scratch.is_absolute(),
            "scratch is {}, must be an absolute path",
            self.scratch.display()
        );
        ensure!(
            self.stop_grace_s > 0.0 && self.stop_grace_s < 1e6,
            "stop_grace_s is {}, must be above 0 s",
            self.stop_grace_s
        );
        if let Some(profile) = &self.profile {
            let ProfileJob { hertz, windows, ref functions, .. } = *profile;
            check_functions(functions)?;
            ensure!(hertz <= 10_000, "hertz is {hertz}, must be at most 10 000");
            ensure!((1..=1000).contains(&windows), "windows is {windows}, must be 1 to 1000");
        }
        match &self.work {
            Work::Workload(_) => self.until.check(),
            Work::Own(own) => {
                ensure!(
                    !own.interface.counts_itself()
                        || self.traced
                        || matches!((self.until, self.pass), (Until::Seconds(_), Pass::Rate)),
                    "{} counts its operations itself: it runs for a time, and none is timed",
                    own.name
                );
                self.until.check()
            }
            Work::Daemon(daemon) => ServerJob::Start(Box::new(daemon.clone())).check(),
            Work::Command(command) => {
                ensure!(self.until == Until::End, "a command runs until its \"end\"");
                command.check().context("in the command")
            }
        }
    }
}
