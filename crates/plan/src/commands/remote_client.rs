//! A client on another host: what its definition may mention, and the values that are known once the host was asked.

use std::net::Ipv4Addr;

use anyhow::{Result, bail, ensure};
use records::{ClientHost, Command, OutputSource, Point};

use super::placeholders::{Values, uses_of_client};

/// The key of the client's host in points: the same server, asked from elsewhere, is measured as something else.
pub(crate) const CLIENT_ON: &str = "client_on";

/// The placeholder of the server's address.
pub(super) const ADDRESS: &str = "address";

const CLIENT_ADDRESS: &str = "client_address";
const CLIENT_CPUS: &str = "client_cpus";

/// What the client's host would not have: placeholders and what they stand for.
const OF_THIS_HOST: [(&str, &str); 5] = [
    ("data", "the server's directory"),
    ("scratch", "a directory"),
    ("dir", "a directory"),
    ("image", "a file"),
    ("client_cpu_list", "a list of CPUs"),
];

/// The `client_on` of a point, if its client runs on another host.
pub fn client_on(point: &Point) -> Option<&str> {
    point.other.get(CLIENT_ON)?.as_str()
}

/// Refuses a definition whose client cannot run on another host.
pub fn check_remote(command: &Command) -> Result<()> {
    let Some(on) = command.server.as_ref().and_then(|server| server.client_on.as_ref()) else {
        return Ok(());
    };
    let (name, host) = (&command.name, on.host());
    let uses = uses_of_client(command);
    for (placeholder, meaning) in OF_THIS_HOST {
        ensure!(
            !uses.contains(placeholder),
            "the client of {name} uses {{{placeholder}}}, {meaning} of this host, which it would not have on {host}: \
             there it starts in an empty directory, so name files relative to that, and make them with prepare"
        );
    }
    ensure!(
        uses.contains(ADDRESS),
        "the client of {name} would look for the server on {host}: write {{address}} in place of 127.0.0.1; a client \
         that asks over a Unix socket has to run on the server's host, without client_on"
    );
    ensure!(
        command.directory.is_none(),
        "the client of {name} has a directory, which {host} need not have: leave it out"
    );
    let file = command.metrics.iter().find(|metric| matches!(metric.from, OutputSource::File(_)));
    if let Some(metric) = file {
        bail!(
            "the metric {} is read from a file, which would be on {host}: let the client print it",
            metric.name
        );
    }
    Ok(())
}

/// The values of a client on this host, or names to fill in once its host was asked.
pub(super) fn client_values(point: &Point, cpus: usize) -> [(&'static str, String); 3] {
    let names = [ADDRESS, CLIENT_ADDRESS, CLIENT_CPUS];
    match client_on(point) {
        None => names.map(|name| match name {
            CLIENT_CPUS => (name, cpus.to_string()),
            _ => (name, Ipv4Addr::LOCALHOST.to_string()),
        }),
        Some(_) => names.map(|name| (name, format!("{{{name}}}"))),
    }
}

/// The values with those of a client on another host.
pub fn with_client(mut values: Values, host: &ClientHost) -> Values {
    values.extend([
        (ADDRESS.to_string(), host.server_address.to_string()),
        (CLIENT_ADDRESS.to_string(), host.client_address.to_string()),
        (CLIENT_CPUS.to_string(), host.cpus.to_string()),
    ]);
    values
}

#[cfg(test)]
mod tests {
    use records::{CommandLine, Extract};

    use super::*;
    use crate::commands::{COMMANDS, read};

    fn remote(name: &str) -> Command {
        let mut command = read(name).unwrap();
        let on = records::ClientOn::parse("ssh:b").unwrap();
        command.server.as_mut().unwrap().client_on = Some(on);
        command
    }

    #[test]
    fn clients_that_come_with_knee_can_run_on_another_host() {
        // The server of tbench takes no address.
        for (name, _) in COMMANDS.iter().filter(|(name, _)| *name != "tbench") {
            if read(name).unwrap().server.is_some() {
                check_remote(&remote(name)).unwrap();
            }
        }
    }

    #[test]
    fn a_client_that_needs_this_host_is_refused_with_what_to_write() {
        let check = |change: fn(&mut Command), expected: &str| {
            let mut command = remote("redis");
            change(&mut command);
            let why = check_remote(&command).unwrap_err().to_string();
            assert!(why.contains(expected), "{why}");
        };
        check(
            |c| c.run = CommandLine::Text("ask {data}/socket".into()),
            "uses {data}, the server's directory",
        );
        check(
            |c| c.run = CommandLine::Text("ask /run/socket".into()),
            "over a Unix socket has to run on the server's host",
        );
        check(|c| c.directory = Some("/tmp".into()), "which b need not have");
        check(
            |c| {
                c.metrics
                    .iter_mut()
                    .for_each(|m: &mut Extract| m.from = OutputSource::File("x".into()))
            },
            "let the client print it",
        );
    }
}
