//! Where the programs of a command run: beside this worker, or on another host.

use std::time::Duration;

use host::descendants::TreeUsage;
use records::{CommandJob, Surroundings};

use crate::priority::SchedulingPolicy;
use crate::profiler::Profiler;
use crate::program::{self, HelperError, ProgramRun, Served, TerminationSignals, run_measured};
use crate::remote_client::RemoteSession;

/// The host of a command's programs.
pub enum Client<'a> {
    /// The worker's own.
    Here,
    /// Another one.
    There(Box<RemoteSession<'a>>),
}

impl<'a> Client<'a> {
    /// Connects to the host of a command, if it is another one.
    pub fn open(job: &'a CommandJob, signals: &TerminationSignals) -> Result<Client<'a>, String> {
        match &job.client {
            None => Ok(Client::Here),
            Some(client) => Ok(Client::There(Box::new(RemoteSession::open(client, signals)?))),
        }
    }

    /// Runs the measured program; on this host, on these CPUs only.
    pub fn run_measured(
        &mut self,
        job: &CommandJob,
        (cpus, policy): (&[u32], SchedulingPolicy),
        signals: &TerminationSignals,
        profiler: &mut Profiler,
        served: Option<Served>,
    ) -> Result<ProgramRun, String> {
        match self {
            Client::Here => run_measured(job, cpus, policy, signals, profiler, served),
            Client::There(session) => session.run_measured(job, signals, profiler, served),
        }
    }

    /// Runs a program of the preparation or the cleanup.
    pub fn run_helper(
        &mut self,
        words: &[String],
        surroundings: &Surroundings,
        timeout: Duration,
        signals: Option<&TerminationSignals>,
    ) -> Result<(), HelperError> {
        match self {
            Client::Here => program::run_helper(words, surroundings, timeout, signals),
            Client::There(session) => session.run_helper(words, surroundings, timeout, signals),
        }
    }

    /// What the connection has used of this host so far, which is neither of the server nor of other programs.
    pub fn connection_usage(&self) -> TreeUsage {
        match self {
            Client::Here => TreeUsage::default(),
            Client::There(session) => session.usage(),
        }
    }
}
