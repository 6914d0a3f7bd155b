//! The hosts of clients that run elsewhere: asked once, before the first run, what they are, whether they have the
//! programs of the clients, and whether they reach the servers here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::ssh;
use host::terminal::hint;
use plan::commands::{RunId, client_on, command_job, values};
use records::{ClientHost, ClientOn, Record, Warning};

use crate::ports;

/// How long a host may take for an answer, with its login.
const LIMIT: Duration = Duration::from_secs(40);

/// The line that begins so is an answer; a login shell may print others.
const MARK: &str = "knee-client ";

/// Tries to connect, twice: a busy host may take its time.
const REACH: &str = r#"try() {
if command -v bash > /dev/null; then timeout 5 bash -c ': <> /dev/tcp/ADDRESS/PORT'
elif command -v nc > /dev/null; then nc -z -w 5 ADDRESS PORT || timeout 2 nc ADDRESS PORT < /dev/null
elif command -v python3 > /dev/null; then
python3 -c 'import socket; socket.create_connection(("ADDRESS", PORT), 5)'
else echo MARKuntried >&3
fi
}
exec 3>&1
why=$(try 2>&1) || why=$(try 2>&1) || echo "MARKfailed $(echo "$why" | tail -n 1)"
exit 0
"#;

/// Stands for the scratch directory, which does not exist yet.
const FUTURE_SCRATCH: &str = "/.knee-not-yet";

/// Refuses clients elsewhere whose server is not here.
pub fn check(record: &Record) -> Result<()> {
    for point in record.points.iter().filter(|point| record.guest(&point.variant).is_some()) {
        ensure!(
            client_on(point).is_none(),
            "the server of {} is in a guest, which a client on another host does not reach: leave client_on out",
            point.workload
        );
    }
    Ok(())
}

/// Asks all hosts of clients, and adds what they are to the record.
pub fn ask(record: &mut Record) -> Result<()> {
    for (on, client) in clients(record)? {
        let host = client.ask().with_context(|| {
            format!("the client cannot run on {} (client_on)", client.on.host())
        })?;
        hint(format_args!("client on {}: {}", client.on.host(), host.in_words()));
        if host.boot_id.is_some() && host.boot_id == record.host.boot_id {
            record.warnings.push(Warning::new(
                format!(
                    "the client's host {} is this host: client and server share CPUs",
                    client.on.host()
                ),
                "name another host, or leave client_on out: knee then gives each its own CPUs",
            ));
        }
        record.clients.insert(on, host);
    }
    Ok(())
}

/// A host to ask.
struct Client {
    on: ClientOn,
    address: Option<Ipv4Addr>,
    /// The programs that it needs, each with the PATH of its command, if that has one.
    programs: BTreeSet<(String, Option<String>)>,
}

/// The hosts that a record names, by their `client_on`.
fn clients(record: &Record) -> Result<BTreeMap<String, Client>> {
    let mut clients: BTreeMap<String, Client> = BTreeMap::new();
    for point in &record.points {
        let Some(command) = record.command(point)? else { continue };
        let Some(server) = &command.server else { continue };
        let Some(on) = &server.client_on else { continue };
        let scratch = Path::new(FUTURE_SCRATCH);
        let values = values(point, &record.topology, scratch, RunId::default());
        let job = command_job(command, &values, scratch)?;
        let client = clients.entry(on.text()).or_insert_with(|| Client {
            on: on.clone(),
            address: server.address,
            programs: BTreeSet::new(),
        });
        ensure!(
            client.address == server.address,
            "{} finds its servers at two addresses: give one",
            on.host()
        );
        let lines = job.prepare.iter().chain(&job.cleanup).chain([&job.run]);
        let path = job.environment.get("PATH");
        client.programs.extend(lines.map(|line| (line[0].clone(), path.cloned())));
    }
    Ok(clients)
}

impl Client {
    fn ask(&self) -> Result<ClientHost> {
        let client = ssh::client()?;
        let answer = ssh::answer(&client, self.on.host(), &self.question()?, LIMIT)?;
        let said = Said::parse(&answer);
        let missing = said.all("missing");
        ensure!(
            missing.is_empty(),
            "it has no program {} in its PATH: install it there",
            missing.join(", ")
        );
        let (from, own) = said.addresses();
        let server_address = match self.address {
            Some(address) => address,
            None => from.with_context(|| self.no_address())?,
        };
        let (client_address, round_trip_us) = self.reach(&client, server_address)?;
        let cpus = said.one("cpus").and_then(|cpus| cpus.parse().ok()).filter(|cpus| *cpus > 0);
        Ok(ClientHost {
            hostname: said.one("hostname").unwrap_or_default(),
            kernel_release: said.one("kernel").unwrap_or_default(),
            cpus: cpus.context("it does not say how many CPUs it has (nproc)")?,
            cpu_model: said.one("model"),
            boot_id: said.one("boot"),
            server_address,
            client_address: client_address.or(own).unwrap_or(server_address),
            round_trip_us,
        })
    }

    fn no_address(&self) -> String {
        format!(
            "it sees this host under no IPv4 address: name one that {} reaches with --server-address",
            self.on.host()
        )
    }

    /// What is asked of the host.
    fn question(&self) -> Result<String> {
        let mut script = format!(
            "say() {{ echo \"{MARK}$*\"; }}\n\
             say hostname \"$(uname -n)\"\nsay kernel \"$(uname -r)\"\n\
             say cpus \"$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN)\"\n\
             say model \"$(grep -m 1 '^model name' /proc/cpuinfo | cut -d : -f 2)\"\n\
             say boot \"$(cat /proc/sys/kernel/random/boot_id)\"\nsay connection \"$SSH_CONNECTION\"\n"
        );
        let own = ["setsid", "dd", "env", "grep"].map(|name| (name.to_string(), None));
        for (program, path) in own.iter().chain(&self.programs) {
            let path = path.iter().map(|path| ssh::quoted(path));
            let path = path.map(|path| Ok(format!("PATH={}; ", path?)));
            let path = path.collect::<Result<String>>()?;
            let program = ssh::quoted(program)?;
            script +=
                &format!("( {path}command -v {program} > /dev/null || say missing {program} )\n");
        }
        Ok(script + "exit 0\n")
    }

    /// Tries to reach a port here from there, as a client will. Returns the address that it came from, and the
    /// round-trip time of its handshake in microseconds; neither, if the host has no program that connects.
    fn reach(
        &self,
        client: &[String],
        address: Ipv4Addr,
    ) -> Result<(Option<Ipv4Addr>, Option<f64>)> {
        let host = self.on.host();
        // None that the first runs try.
        let port = ports::free(address, u32::MAX).with_context(|| {
            format!(
                "{host} sees this host as {address}, which servers cannot listen on; if {address} is no address of this \
                 host, since a gateway or a jump host lies between, name one that {host} reaches with --server-address"
            )
        })?;
        let listener = TcpListener::bind((address, port))?;
        listener.set_nonblocking(true)?;
        let script = REACH.replace("ADDRESS", &address.to_string());
        let script = script.replace("PORT", &port.to_string()).replace("MARK", MARK);
        let said = Said::parse(&ssh::answer(client, host, &script, LIMIT)?);
        match listener.accept() {
            Ok((stream, SocketAddr::V4(from))) => {
                Ok((Some(*from.ip()), round_trip_us(stream.as_raw_fd())))
            }
            _ if !said.all("untried").is_empty() => Ok((None, None)),
            _ => bail!(
                "{host} reaches no server here: it did not connect to port {port} of {address}{}. Let its connections \
                 to the ports {} to {} through a firewall, or name another address of this host with --server-address",
                said.one("failed").map(|why| format!(" ({why})")).unwrap_or_default(),
                ports::PORTS.start,
                ports::PORTS.end - 1
            ),
        }
    }
}

/// The answers of a host, by their first word.
struct Said(Vec<(String, String)>);

impl Said {
    fn parse(text: &str) -> Said {
        let lines = text.lines().filter_map(|line| line.strip_prefix(MARK));
        let pair = |line: &str| {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.chars().filter(|c| !c.is_control()).take(200).collect::<String>();
            (name.to_string(), value.trim().to_string())
        };
        Said(lines.map(pair).collect())
    }

    fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    fn one(&self, name: &str) -> Option<String> {
        self.all(name).first().filter(|value| !value.is_empty()).map(|value| value.to_string())
    }

    /// This host's address as that host sees it, and the one under which that host was reached: IPv4 ones.
    fn addresses(&self) -> (Option<Ipv4Addr>, Option<Ipv4Addr>) {
        // "client address, client port, server address, server port" of the connection (ssh(1)).
        let connection = self.one("connection").unwrap_or_default();
        let words: Vec<&str> = connection.split(' ').collect();
        let address = |index: usize| match words.get(index)?.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => address.to_ipv4_mapped(),
        };
        (address(0), address(2))
    }
}

/// The round-trip time that the kernel has measured of a connection, in microseconds.
fn round_trip_us(socket: i32) -> Option<f64> {
    // SAFETY: tcp_info is plain data, valid when zero; both are live, and the kernel writes at most `length` bytes.
    let info = unsafe {
        let mut info: libc::tcp_info = std::mem::zeroed();
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        let at = (&raw mut info).cast();
        let got = libc::getsockopt(socket, libc::IPPROTO_TCP, libc::TCP_INFO, at, &mut length);
        (got == 0).then_some(info)?
    };
    (info.tcpi_rtt > 0).then_some(info.tcpi_rtt as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_host_says_is_read_after_whatever_its_shell_prints() {
        let text = "welcome\nknee-client cpus 16\nknee-client connection 10.0.0.1 50000 10.0.0.2 22\n\
                    knee-client model \nknee-client missing a\nknee-client missing b c\n";
        let said = Said::parse(text);
        assert_eq!(said.one("cpus").as_deref(), Some("16"));
        assert_eq!((said.one("model"), said.one("boot")), (None, None));
        assert_eq!(said.all("missing"), ["a", "b c"]);
        let addresses = said.addresses();
        assert_eq!(addresses.0, Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(addresses.1, Some(Ipv4Addr::new(10, 0, 0, 2)));
        let by_ipv6 = Said::parse("knee-client connection fe80::1%eth0 5 ::ffff:10.0.0.2 22");
        assert_eq!(by_ipv6.addresses(), (None, Some(Ipv4Addr::new(10, 0, 0, 2))));
    }
}
