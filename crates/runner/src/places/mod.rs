//! Where runs happen: one place a file. A place sets up what the run's variant asks for, does the
//! job, puts everything back, and returns the worker's events and how the worker ended.
//!
//!     runner ── RunRequest ──> place ── Job ──> worker
//!            <── RunOutcome ──       <─ events ─
//!
//! A worker is the same process everywhere (`process.rs`): here a child of knee, in a guest a
//! child of its init, which is knee too.

mod daemon;
pub mod guest;
pub mod local;
pub mod metal;
pub mod process;
mod worker_output;

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use host::ssh;
use own_loads::Linkage;
use plan::commands::{RunId, client_on, command_job, values, with_client, with_port};
use records::{
    Command, CommandJob, Event, Job, Mounted, NativeJob, OwnJob, OwnLoad, PROTOCOL, Planned,
    PlannedWork, Point, ProfileKind, Record, RemoteClient, Warning, Work,
};

use crate::{ports, profiles};

/// A run to do.
pub struct RunRequest<'a> {
    /// The record that gets the run.
    pub record: &'a Record,
    /// The point, with what its runs are set up with.
    pub planned: &'a Planned<'a>,
    /// The block, the number of the run, and the seed.
    pub id: RunId,
    /// Whether it repeats a run of its block. It then shares no boot with that one.
    pub placebo: bool,
    /// The kind of profile, if it is one.
    pub profile: Option<ProfileKind>,
    /// How long its worker may take.
    pub deadline: Duration,
}

/// The result of a run.
#[derive(Default)]
pub struct RunOutcome {
    /// The worker's events.
    pub events: Vec<Event>,
    /// How the worker ended, to follow "the worker …".
    pub exit: String,
    /// Why the run does not count, whatever its worker reported.
    pub invalid_because: Vec<String>,
    /// Warnings that the worker cannot know of.
    pub warnings: Vec<Warning>,
    /// The file system that was made for it.
    pub file_system: Option<Mounted>,
    /// The number of the boot that it ran in.
    pub boot: Option<u32>,
}

impl RunOutcome {
    /// The outcome of a run that could not be started.
    pub fn failed_to_start(why: &anyhow::Error) -> RunOutcome {
        let events = vec![Event::Failed { reason: format!("{why:#}") }];
        RunOutcome { events, ..RunOutcome::default() }
    }
}

/// The job of a load that the user wrote, on this host.
fn own_job(own: &OwnLoad, point: &Point) -> Result<OwnJob> {
    let compiled = own.compiled.as_ref().context("the load is not compiled")?;
    Ok(OwnJob {
        name: own.name(),
        program: own_loads::program(own, Linkage::Dynamic)?,
        interface: compiled.interface,
        parameters: point.parameters.clone(),
    })
}

impl RunRequest<'_> {
    /// The job of a command, whose server gets a port, and whose client its host.
    fn command_job(&self, command: &Command, scratch: &Path) -> Result<CommandJob> {
        let point = self.planned.point;
        let mut values = values(point, &self.record.topology, scratch, self.id);
        let client = client_on(point).map(|on| {
            let host = self.record.clients.get(on);
            host.with_context(|| format!("the client's host {on} was not asked"))
        });
        let client = client.transpose()?;
        if let (Some(_), Some(dir)) = (&self.planned.guest, scratch.parent()) {
            values.insert("dir".to_string(), dir.display().to_string());
        }
        if let Some(host) = client {
            values = with_client(values, host);
        }
        if command.server.as_ref().is_some_and(|server| server.pid.is_none()) {
            let address = client.map_or(Ipv4Addr::LOCALHOST, |host| host.server_address);
            values = with_port(values, ports::free(address, self.id.run)?);
        }
        let mut job = command_job(command, &values, scratch)?;
        let on = command.server.as_ref().and_then(|server| server.client_on.as_ref());
        if let (Some(on), Some(host)) = (on, client) {
            job.client = Some(RemoteClient {
                ssh: ssh::client()?,
                host: on.host().to_string(),
                cpus: host.cpus,
                is_here: host.boot_id.is_some() && host.boot_id == self.record.host.boot_id,
            });
        }
        Ok(job)
    }

    /// The job for a worker of the process `knee`, which makes and removes the directory `scratch`.
    pub fn job(&self, scratch: PathBuf, knee: u32) -> Result<Job> {
        let point = self.planned.point;
        let work = match self.planned.work {
            PlannedWork::Command(command) => Work::Command(self.command_job(command, &scratch)?),
            PlannedWork::Own(own) => Work::Own(own_job(own, point)?),
            PlannedWork::Workload => Work::Workload(NativeJob {
                name: point.workload.clone(),
                semantics: point.semantics,
                parameters: point.parameters.clone(),
            }),
        };
        Ok(Job {
            protocol: PROTOCOL,
            work,
            form: point.form,
            tasks: point.tasks,
            cpus: point.cpu_list.clone(),
            until: point.until,
            pass: point.pass,
            profile: self.profile.map(|kind| profiles::profile_job(self.record, kind, knee)),
            scratch,
            keep: false,
            beside: None,
            together: false,
            allocations: self.record.experiment.counts_allocations(),
            traced: false,
            daemon: None,
            stop_grace_s: self.record.experiment.stop_grace_s,
        })
    }
}
