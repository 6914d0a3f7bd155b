//! `--server-pid`: a server that the user runs, and that commands ask.

use std::path::Path;

use anyhow::{Result, ensure};
use plan::commands;
use records::{Experiment, LoadWork, Server};

use super::LOAD;

/// The server that commands ask.
#[derive(clap::Args, Debug, Default)]
pub struct ServerFlags {
    /// Take this process for the server that a command asks
    ///
    /// You run it. Its time, and that of its children, is not that of other programs. It replaces the server that a
    /// `command:NAME` or an experiment would start; give `{port}` a value with --set port=N.
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = LOAD)]
    server_pid: Option<u32>,
}

impl ServerFlags {
    /// Whether a server is named.
    pub fn is_given(&self) -> bool {
        self.server_pid.is_some()
    }

    /// Has all commands of an experiment ask the process.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<()> {
        let Some(pid) = self.server_pid else { return Ok(()) };
        ensure!(
            Path::new(&format!("/proc/{pid}/stat")).exists(),
            "no process has the id {pid} that --server-pid names: look for it with pgrep"
        );
        let mut is_for_a_command = false;
        for load in &mut experiment.loads {
            let Some(mut command) = commands::for_load(load)? else { continue };
            command.server = Some(Server::running(pid));
            // Others were about the server that knee would have started.
            let used = commands::uses(&command);
            command.parameters.retain(|name, _| used.contains(name));
            load.work = LoadWork::from(command);
            is_for_a_command = true;
        }
        ensure!(
            is_for_a_command,
            "--server-pid is for a command that asks a server: name one with --command"
        );
        Ok(())
    }
}
