//! Clients of servers on another host, by ssh: what they print and use is in the record, what is wrong with them costs
//! one run, and no process or file of them is left there. The other host is this one, reached over the loopback.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use records::{Outcome, Run};

use crate::home::Ended;
use crate::process::{Process, wait_for};
use crate::skip::skip;
use crate::ssh_server::Server;

/// A server that says when it serves.
const SERVER: &str = r#"run = ["sh", "-c", "echo up; exec sleep 700"]
ready = { line = '^up$' }"#;

/// `knee run` of a client on `client`, and of a server here.
fn knee(there: &Server, client: &str, server: &str) -> Command {
    let text = format!(
        "blocks = 2\n[axes]\ncpus = 1\n[[load]]\n[load.command]\n{client}\n[load.command.server]\n{server}\n"
    );
    fs::write(there.home.path("x.toml"), text).unwrap();
    there.knee("run x.toml --json --client-on ssh:client")
}

fn run(there: &Server, client: &str, server: &str) -> Ended {
    there.home.start(&mut knee(there, client, server)).end()
}

fn reason(run: &Run) -> &str {
    match &run.outcome {
        Outcome::Failed { reason } => reason,
        Outcome::Finished { .. } => panic!("it finished: {run:?}"),
    }
}

/// All runs failed for a reason with these parts, and nothing is left.
#[track_caller]
fn check_fails(there: &Server, client: &str, server: &str, parts: &[&str]) {
    let ended = run(there, client, server);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let records = there.home.records();
    let record = records.iter().max_by_key(|record| record.record.started()).unwrap();
    assert_eq!(record.runs.len(), 2);
    for run in record.runs.iter() {
        for part in parts {
            assert!(reason(run).contains(part), "no '{part}' in: {}", reason(run));
        }
    }
    there.home.check_nothing_is_left();
}

#[test]
fn a_client_on_another_host_is_prepared_measured_and_recorded() {
    let Some(there) = Server::start("client_on: a run") else { return };
    let client = r#"shell = true
run = """cat made; i=0
  while [ $i -lt 300000 ]; do i=$((i + 1)); done; echo "rate $WORD from {address} to {client_address} on {client_cpus}" """
prepare = ["pwd > made; echo it is 7 >> made"]
cleanup = ["test -e made"]
environment = { WORD = "5" }
primary = "rate"
metric = [{ name = "rate", regex = 'rate (\d+) from 127.0.0.3 to 127.0.0' },
          { name = "made", regex = 'it is (\d+)' }]"#;
    let ended = run(&there, client, &format!("{SERVER}\nwarmup_s = 0.05"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("client on client: "), "{}", ended.stderr);
    let opened = there.home.record();
    let host = &opened.record.clients["ssh:client"];
    assert_eq!(host.server_address, Ipv4Addr::new(127, 0, 0, 3));
    assert_eq!(Some(&host.kernel_release), opened.record.host.kernel_release.as_ref());
    assert!(host.cpus > 0 && !host.hostname.is_empty());
    assert_eq!(opened.record.points[0].other["client_on"], "ssh:client");
    for run in opened.runs.iter() {
        assert_eq!((run.value("rate"), run.value("made")), (Some(5.0), Some(7.0)));
        assert!(run.value("client.cpu_s").is_some_and(|cpu_s| cpu_s > 0.0), "{run:?}");
        // The host is this one.
        assert_eq!(run.value("client.cpus"), Some(0.0));
    }
    let report = there.home.run("show last");
    assert!(report.stdout.contains("on ssh:client ("), "{}", report.stdout);
    there.home.check_nothing_is_left();
}

#[test]
fn a_client_that_fails_on_another_host_is_reported_with_its_last_words() {
    let Some(there) = Server::start("client_on: failing clients") else { return };
    let client = |script: &str| format!("run = ['sh', '-c', ': {{address}}; {script}']");
    check_fails(
        &there,
        &client("echo no answer; exit 9"),
        SERVER,
        &["sh ended with status 9, saying: no answer", "its server sh said last: up"],
    );
    check_fails(&there, &client("kill -SEGV $$"), SERVER, &["sh was killed by SIGSEGV"]);
    check_fails(
        &there,
        &format!("{}\ntimeout_s = 0.3", client("(setsid sleep 702 &) ; exec sleep 701")),
        SERVER,
        &["sh took longer than 0.3 s and was killed"],
    );
    check_fails(
        &there,
        &format!("{}\nprepare = [\"sh -c 'echo before; exit 4'\"]", client("true")),
        SERVER,
        &[
            "preparing the run: 'sh -c echo before; exit 4' ended with status 4 on client, saying: before",
        ],
    );
    check_fails(
        &there,
        &client("exec sleep 701"),
        "run = ['sh', '-c', 'echo up; sleep 1; echo it broke; kill -SEGV $$']\nready = { line = 'up' }",
        &["the server sh was killed by SIGSEGV while its client ran, saying: up / it broke"],
    );
}

/// The processes whose command line is this one.
fn running(there: &Server, line: &str) -> Vec<Process> {
    let read = |pid: i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_it = |process: &Process| read(process.pid).replace('\0', " ") == line;
    there.home.processes().into_iter().filter(is_it).collect()
}

/// A client that leaves the group and the session that knee gave it.
const LONG_CLIENT: &str =
    r#"run = ["sh", "-c", ": {address}; (setsid sleep 702 &); sleep 703; true"]"#;

#[test]
fn a_killed_or_interrupted_knee_leaves_no_client_on_another_host() {
    let Some(there) = Server::start("client_on: kills") else { return };
    for signal in [libc::SIGKILL, libc::SIGINT] {
        let running_knee = there.home.start(&mut knee(&there, LONG_CLIENT, SERVER));
        wait_for("the client", || (!running(&there, "sleep 702 ").is_empty()).then_some(()));
        running_knee.signal(signal);
        running_knee.end();
        there.home.wait_for_quiet();
        // The next start removes what a killed knee left here.
        let next = there.home.run("run getppid --cpus 1 --blocks 1 --seconds 0.01");
        assert_eq!(next.status.code(), Some(0), "{}", next.stderr);
        there.home.check_nothing_is_left();
    }
    // The worker and its ssh at once: only the other host can know.
    let running_knee = there.home.start(&mut knee(&there, LONG_CLIENT, SERVER));
    wait_for("the client", || (!running(&there, "sleep 702 ").is_empty()).then_some(()));
    let worker = running_knee.worker().expect("the worker lives");
    running_knee.signal(libc::SIGSTOP);
    worker.kill(libc::SIGKILL);
    running_knee.signal(libc::SIGKILL);
    running_knee.end();
    there.home.wait_for_quiet();
}

#[test]
fn a_lost_connection_costs_one_run_and_is_named() {
    let Some(there) = Server::start("client_on: a lost connection") else { return };
    let mut command = knee(&there, LONG_CLIENT, SERVER);
    let running_knee = there.home.start(command.args(["--blocks", "1"]));
    wait_for("the client", || (!running(&there, "sleep 702 ").is_empty()).then_some(()));
    let is_ssh = |process: &Process| process.program.ends_with("ssh");
    let connections: Vec<Process> = there.home.processes().into_iter().filter(is_ssh).collect();
    assert!(!connections.is_empty());
    connections.iter().for_each(|ssh| ssh.kill(libc::SIGKILL));
    assert_eq!(running_knee.end().status.code(), Some(1));
    let record = there.home.record();
    let why = reason(record.runs.iter().next().unwrap()).to_string();
    assert!(why.contains("the connection to the client's host client was lost"), "{why}");
    there.home.check_nothing_is_left();
}

#[test]
fn clients_that_cannot_run_elsewhere_are_refused_before_the_first_run() {
    let Some(there) = Server::start("client_on: refusals") else { return };
    let check = |client: &str, on: &str, parts: &[&str]| {
        knee(&there, client, SERVER);
        let line = format!("run x.toml --client-on {on}");
        let ended = there.home.start(&mut there.knee(&line)).end();
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        for part in parts {
            assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
        }
        assert!(there.home.records().is_empty());
        there.home.check_nothing_is_left();
    };
    let client = "run = 'true {address}'";
    check(client, "ssh:gone", &["the client cannot run on gone", "refused", "start sshd there"]);
    check(client, "ssh:stranger", &["Permission denied", "ssh-copy-id"]);
    check("run = 'no-such-client {address}'", "ssh:a", &["a", "has no program no-such-client"]);
    check("run = 'ask /run/socket'", "ssh:a", &["write {address}", "Unix socket"]);
    check("run = 'cat {data}/x {address}'", "ssh:a", &["uses {data}, the server's directory"]);
    check(client, "a", &["must be ssh:HOST"]);
    let refused = |line: &str, part: &str| {
        let ended = there.home.start(&mut there.knee(line)).end();
        assert_eq!(ended.status.code(), Some(2), "{line}");
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    };
    refused("run getppid --client-on ssh:a", "--client-on is for a command with a server");
    refused(
        "run command:redis --server-address 127.0.0.1",
        "name that host in client_on, or leave address out",
    );
    refused("run x.toml --client-on ssh:a --server-address 192.0.2.7", "no address of this host");
}

#[test]
fn redis_is_asked_from_another_host() {
    let is_missing = |program: &&str| Command::new(program).arg("--version").output().is_err();
    if let Some(program) = ["redis-server", "redis-benchmark"].iter().find(|p| is_missing(p)) {
        return skip("client_on: redis", &format!("{program} is not installed"));
    }
    let Some(there) = Server::start("client_on: redis") else { return };
    let line = "run command:redis --set requests=1000 --blocks 1 --client-on ssh:client";
    let ended = there.home.start(&mut there.knee(line)).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = there.home.record();
    let run = record.runs.iter().next().unwrap();
    assert!(run.value("requests_per_s").is_some_and(|rate| rate > 0.0), "{run:?}");
    let point = &record.record.points[0];
    assert_eq!(point.cpus as usize, record.record.topology.cpus.len(), "it has all CPUs");
    there.home.check_nothing_is_left();
}
