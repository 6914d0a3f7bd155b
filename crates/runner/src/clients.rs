//! The hosts of clients that run elsewhere: asked once, before the first run, what they are, whether they have the
//! programs of the clients, and whether they reach the servers here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::terminal::hint;
use host::{random, ssh};
use plan::commands::client_on;
use records::{ClientHost, ClientOn, Record, Warning};

use crate::ports;
use crate::programs::job_before_runs;

/// How long a host may take for an answer, with its login.
const LIMIT: Duration = Duration::from_secs(40);

/// The line that begins so is an answer; a login shell may print others.
const MARK: &str = "knee-client ";

/// Tries to connect and to send a word, twice: a busy host may take its time.
const REACH: &str = r#"try() {
if command -v bash > /dev/null; then timeout 5 bash -c 'exec 9<>/dev/tcp/ADDRESS/PORT && echo WORD >&9'
elif command -v nc > /dev/null; then echo WORD | timeout 5 nc -w 2 ADDRESS PORT
elif command -v python3 > /dev/null; then
python3 -c 'import socket; socket.create_connection(("ADDRESS", PORT), 5).sendall(b"WORD")'
else echo MARKuntried >&3
fi
}
exec 3>&1
why=$(try 2>&1) || why=$(try 2>&1) || echo "MARKfailed $(echo "$why" | tail -n 1)"
exit 0
"#;

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
        let job = job_before_runs(record, point, command)?;
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
        let from = said.address();
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
            client_address,
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

    /// Tries to reach a port here from there, as a client will. Returns the address that it came from, which servers may trust,
    /// and the round-trip time of its handshake in microseconds.
    fn reach(&self, client: &[String], address: Ipv4Addr) -> Result<(Ipv4Addr, Option<f64>)> {
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
        let word = format!("{:016x}{:016x}", random(), random());
        let script = script.replace("PORT", &port.to_string()).replace("WORD", &word);
        let script = script.replace("MARK", MARK);
        let said = Said::parse(&ssh::answer(client, host, &script, LIMIT)?);
        ensure!(
            said.all("untried").is_empty(),
            "it has none of bash, nc and python3, by which it would try to reach a server here: install one there"
        );
        match caller(&listener, &word) {
            Some((stream, from)) => Ok((from, round_trip_us(stream.as_raw_fd()))),
            None => bail!(
                "{host} reaches no server here: it did not connect to port {port} of {address}{}. Let its connections \
                 to the ports {} to {} through a firewall, or name another address of this host with --server-address",
                said.one("failed").map(|why| format!(" ({why})")).unwrap_or_default(),
                ports::PORTS.start,
                ports::PORTS.end - 1
            ),
        }
    }
}

/// The connection that was made with this word, and where from: anybody else may have connected, too.
fn caller(listener: &TcpListener, word: &str) -> Option<(TcpStream, Ipv4Addr)> {
    const PATIENCE: Duration = Duration::from_secs(1);
    while let Ok((mut stream, from)) = listener.accept() {
        let mut said = vec![0; word.len()];
        let is_read = stream.set_nonblocking(false).is_ok()
            && stream.set_read_timeout(Some(PATIENCE)).is_ok()
            && stream.read_exact(&mut said).is_ok();
        if let (true, SocketAddr::V4(from)) = (is_read && said == word.as_bytes(), from) {
            return Some((stream, *from.ip()));
        }
    }
    None
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

    /// This host's IPv4 address as that host sees it.
    fn address(&self) -> Option<Ipv4Addr> {
        // "client address, client port, server address, server port" of the connection (ssh(1)).
        let connection = self.one("connection").unwrap_or_default();
        match connection.split(' ').next()?.parse::<IpAddr>().ok()? {
            IpAddr::V4(address) => Some(address),
            IpAddr::V6(address) => address.to_ipv4_mapped(),
        }
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
        assert_eq!(said.address(), Some(Ipv4Addr::new(10, 0, 0, 1)));
        let by_ipv6 = |text: &str| Said::parse(&format!("knee-client connection {text} 5 ::1 22"));
        assert_eq!(by_ipv6("fe80::1%eth0").address(), None);
        assert_eq!(by_ipv6("::ffff:10.0.0.2").address(), Some(Ipv4Addr::new(10, 0, 0, 2)));
    }

    #[test]
    fn a_connection_without_the_word_is_not_the_clients() {
        use std::io::Write;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stranger, silent) = (connect(), connect());
        stranger.write_all(b"GET / HT").unwrap();
        drop(silent);
        assert!(caller(&listener, "0123abcd").is_none());
        let mut client = connect();
        client.write_all(b"0123abcd\n").unwrap();
        let (stream, from) = caller(&listener, "0123abcd").expect("the client");
        assert_eq!(from, Ipv4Addr::LOCALHOST);
        assert_eq!(stream.peer_addr().unwrap(), client.local_addr().unwrap());
    }
}
