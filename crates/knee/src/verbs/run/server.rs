//! `--server-pid`, a server that the user runs and that commands ask; `--client-on`, another host for the client of a server.

use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Result, ensure};
use plan::commands;
use records::{ClientOn, Experiment, LoadWork, Server};

use super::LOAD;

/// The server that commands ask, and where they ask it from.
#[derive(clap::Args, Debug, Default)]
pub struct ServerFlags {
    /// Take this process for the server that a command asks
    ///
    /// You run it. Its time, and that of its children, is not that of other programs. It replaces the server that a
    /// `command:NAME` or an experiment would start; give `{port}` a value with --set port=N.
    #[arg(long, value_name = "PID", hide_short_help = true, help_heading = LOAD)]
    server_pid: Option<u32>,
    /// Run the clients of servers on another host: ssh:HOST
    ///
    /// The server then has all CPUs of this one (--cpus). Nothing is installed there: it needs sshd, a login without a
    /// password, and the client's program. The server listens on the address of this host that HOST sees.
    #[arg(
        long,
        value_name = "HOST",
        value_parser = ClientOn::parse,
        conflicts_with = "server_pid",
        hide_short_help = true,
        help_heading = LOAD
    )]
    client_on: Option<ClientOn>,
    /// IPv4 address of this host at which the host of --client-on finds the server
    ///
    /// The default is the address that its ssh connection comes from.
    #[arg(long, value_name = "ADDRESS", hide_short_help = true, help_heading = LOAD)]
    server_address: Option<Ipv4Addr>,
}

impl ServerFlags {
    /// The first of the flags that is given.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            (self.server_pid.is_some(), "--server-pid"),
            (self.client_on.is_some(), "--client-on"),
            (self.server_address.is_some(), "--server-address"),
        ];
        flags.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag))
    }

    /// Changes the servers of an experiment.
    pub fn apply(&self, experiment: &mut Experiment) -> Result<()> {
        self.apply_pid(experiment)?;
        self.apply_client(experiment)
    }

    /// Has the clients of all servers run on another host.
    fn apply_client(&self, experiment: &mut Experiment) -> Result<()> {
        if self.client_on.is_none() && self.server_address.is_none() {
            return Ok(());
        }
        let mut has_server = false;
        for load in &mut experiment.loads {
            let Some(mut command) = commands::for_load(load)? else { continue };
            let Some(server) = &mut command.server else { continue };
            server.client_on = self.client_on.clone().or(server.client_on.take());
            server.address = self.server_address.or(server.address);
            load.work = LoadWork::from(command);
            has_server = true;
        }
        ensure!(
            has_server,
            "{} is for a command with a server: name one, such as command:redis, or an experiment with \
             [load.command.server]",
            self.given().unwrap_or_default()
        );
        Ok(())
    }

    /// Has all commands of an experiment ask the process.
    fn apply_pid(&self, experiment: &mut Experiment) -> Result<()> {
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
