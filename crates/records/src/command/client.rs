//! The client of a server on another host: which host, what it is, and what a worker needs to reach it.

use std::net::Ipv4Addr;

use anyhow::{Context, Result, ensure};
use host::ssh::check_host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Another host for the client of a server: `ssh:HOST`, where HOST is a name that the ssh client knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ClientOn(String);

impl ClientOn {
    /// Parses `ssh:HOST`.
    pub fn parse(text: &str) -> Result<ClientOn> {
        let host = text.strip_prefix("ssh:");
        let host =
            host.with_context(|| format!("a client's host is '{text}', must be ssh:HOST"))?;
        ensure!(!host.contains(','), "a server's client runs on one host, not on {text}");
        check_host(host)
            .with_context(|| format!("a client's host is '{text}', must be ssh:HOST"))?;
        Ok(ClientOn(host.to_string()))
    }

    /// The host's name, as ssh gets it.
    pub fn host(&self) -> &str {
        &self.0
    }

    /// The text in an experiment.
    pub fn text(&self) -> String {
        format!("ssh:{}", self.0)
    }
}

impl TryFrom<String> for ClientOn {
    type Error = String;

    fn try_from(text: String) -> Result<ClientOn, String> {
        ClientOn::parse(&text).map_err(|why| format!("{why:#}"))
    }
}

impl From<ClientOn> for String {
    fn from(on: ClientOn) -> String {
        on.text()
    }
}

/// What the host of a client said about itself before the first run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientHost {
    /// Host name, as `uname -n` prints it.
    pub hostname: String,
    /// Kernel release, as `uname -r` prints it.
    pub kernel_release: String,
    /// Number of CPUs that a program of this login may use.
    pub cpus: u32,
    /// Model of the first CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Random id of the boot; that of the server's host if both are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The address at which the client finds the server.
    pub server_address: Ipv4Addr,
    /// The address from which the client connects.
    pub client_address: Ipv4Addr,
    /// Round-trip time of the handshake of one TCP connection, in microseconds; absent if none was tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<f64>,
}

impl ClientHost {
    /// "16 CPUs (Some CPU), Linux 6.1.0, round trip 0.21 ms, asks the server at 10.0.0.1".
    pub fn in_words(&self) -> String {
        let ClientHost { kernel_release, cpus, server_address, .. } = self;
        let model = self.cpu_model.iter().map(|model| format!(" ({model})"));
        let cpus = host::counted(*cpus as usize, "CPU");
        let trip = self.round_trip_us.map(|us| format!(", round trip {:.2} ms", us / 1e3));
        format!(
            "{cpus}{}, Linux {kernel_release}{}, asks the server at {server_address}",
            model.collect::<String>(),
            trip.unwrap_or_default()
        )
    }

    /// Whether a later look describes the same host, reached in the same way.
    pub fn is_same(&self, later: &ClientHost) -> bool {
        let lasting = |host: &ClientHost| ClientHost { round_trip_us: None, ..host.clone() };
        let rebooted = ClientHost { boot_id: self.boot_id.clone(), ..lasting(later) };
        lasting(self) == rebooted
    }
}

/// The host of a client, for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoteClient {
    /// The program that connects, and its first arguments.
    pub ssh: Vec<String>,
    /// The host's name.
    pub host: String,
    /// Number of CPUs that the client may use there.
    pub cpus: u32,
    /// Whether that host is this one, so that client and server share CPUs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_here: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_stays_the_same_over_a_reboot_but_not_with_another_kernel() {
        let address = Ipv4Addr::new(10, 0, 0, 2);
        let host = ClientHost {
            hostname: "b".to_string(),
            kernel_release: "6.1.0".to_string(),
            cpus: 16,
            cpu_model: None,
            boot_id: Some("1".to_string()),
            server_address: Ipv4Addr::new(10, 0, 0, 1),
            client_address: address,
            round_trip_us: Some(210.0),
        };
        let words = "16 CPUs, Linux 6.1.0, round trip 0.21 ms, asks the server at 10.0.0.1";
        assert_eq!(host.in_words(), words);
        let boot_id = Some("2".to_string());
        assert!(host.is_same(&ClientHost { boot_id, round_trip_us: None, ..host.clone() }));
        assert!(!host.is_same(&ClientHost { kernel_release: "6.2.0".to_string(), ..host.clone() }));
    }

    #[test]
    fn a_clients_host_is_one_name_that_ssh_takes() {
        assert_eq!(ClientOn::parse("ssh:me@b").unwrap().host(), "me@b");
        for (wrong, why) in [
            ("b", "must be ssh:HOST"),
            ("ssh:", "must be ssh:HOST"),
            ("ssh:-oProxyCommand=x", "must be ssh:HOST"),
            ("ssh:a,b", "runs on one host"),
        ] {
            let said = format!("{:#}", ClientOn::parse(wrong).unwrap_err());
            assert!(said.contains(why), "{wrong}: {said}");
        }
    }
}
