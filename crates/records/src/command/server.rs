//! The server of a command: one program serves, and the command is its client. An experiment holds it
//! with `{placeholders}`; a job holds it with their values filled in. docs/guide/servers.md explains both.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClientOn, CommandLine};
use crate::scalar::Scalar;

/// A program that serves while the command, its client, is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Server {
    /// The program and its arguments. It stays in the foreground.
    #[serde(skip_serializing_if = "CommandLine::is_blank")]
    pub run: CommandLine,
    /// Process id of a server that the user runs, in place of `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Another host for the client, `ssh:HOST`. Without it the client runs on the server's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_on: Option<ClientOn>,
    /// The IPv4 address of the server's host at which a client on another host finds the server, where the one that
    /// ssh's connection comes from is not it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Ipv4Addr>,
    /// The user that its programs run as when knee runs as root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A directory that is copied to `{data}` before each run. Without it `{data}` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// Programs that run in `{data}` before the server is started, one after the other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<CommandLine>,
    /// How knee finds out that it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    /// How long that may take, in seconds; also the limit of each `setup` program.
    pub ready_timeout_s: f64,
    /// How long the client runs before it is started again to be measured, in seconds.
    pub warmup_s: f64,
    /// How long the server goes on after the client's end before it is stopped, in seconds.
    pub drain_s: f64,
    /// What ends it: a signal, such as SIGINT, or a program.
    pub stop: CommandLine,
    /// How long its end may take, in seconds; then it is killed.
    pub stop_timeout_s: f64,
    /// Environment variables of its programs, in addition to knee's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Scalar>,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            run: CommandLine::default(),
            pid: None,
            client_on: None,
            address: None,
            user: None,
            template: None,
            setup: Vec::new(),
            ready: None,
            ready_timeout_s: 60.0,
            warmup_s: 0.0,
            drain_s: 0.0,
            stop: CommandLine::Text("SIGTERM".to_string()),
            stop_timeout_s: 10.0,
            environment: BTreeMap::new(),
        }
    }
}

/// What shows that a server serves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Readiness {
    /// This TCP port of `{address}` takes connections.
    Port(Scalar),
    /// A line of its output matches this regular expression.
    Line(String),
    /// This file or socket exists, relative to `{data}`.
    File(String),
    /// This program succeeds.
    Command(CommandLine),
    /// It has lived for this number of milliseconds.
    AliveMs(u64),
}

/// Whether a line of a text matches a regular expression.
pub fn has_line(pattern: &str, text: &str) -> Result<bool, String> {
    let compiled = regex_lite::RegexBuilder::new(pattern).multi_line(true).build();
    let compiled = compiled.map_err(|e| format!("the regex '{pattern}' is malformed: {e}"))?;
    Ok(compiled.is_match(text))
}

/// What ends a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop<'a> {
    /// The signal of this number, sent to the server's own process.
    Signal(i32),
    /// A program.
    Command(&'a CommandLine),
}

/// The signals by which servers are asked to end.
const STOP_SIGNALS: [(&str, i32); 7] = [
    ("SIGTERM", 15),
    ("SIGINT", 2),
    ("SIGQUIT", 3),
    ("SIGHUP", 1),
    ("SIGUSR1", 10),
    ("SIGUSR2", 12),
    ("SIGKILL", 9),
];

/// What a line of `stop` means.
pub fn stop(line: &CommandLine) -> Result<Stop<'_>> {
    let text = line.text();
    if !text.starts_with("SIG") || text.contains(' ') {
        return Ok(Stop::Command(line));
    }
    let known = STOP_SIGNALS.iter().find(|(name, _)| *name == text);
    let names: Vec<&str> = STOP_SIGNALS.iter().map(|(name, _)| *name).collect();
    let known = known.with_context(|| format!("stop is {text}, must be {}", names.join(", ")))?;
    Ok(Stop::Signal(known.1))
}

impl Server {
    /// A server that the user runs.
    pub fn running(pid: u32) -> Server {
        Server { pid: Some(pid), ..Server::default() }
    }

    /// Refuses definitions that no host can run.
    pub fn check(&self) -> Result<()> {
        let lengths = [
            ("warmup_s", self.warmup_s, 0.0),
            ("drain_s", self.drain_s, 0.0),
            ("ready_timeout_s", self.ready_timeout_s, 1e-3),
            ("stop_timeout_s", self.stop_timeout_s, 1e-3),
        ];
        for (name, length, least) in lengths {
            ensure!(
                length >= least && length <= 1e6,
                "{name} is {length}, must be {least} to 1 000 000"
            );
        }
        if self.pid.is_some() {
            ensure!(
                *self == Server { pid: self.pid, ..Server::default() },
                "the server has a pid and other keys: knee starts and stops only what it starts itself, \
                 so give pid alone"
            );
            return Ok(());
        }
        ensure!(
            !self.run.is_blank(),
            "run is empty: name the program that serves, or give its pid"
        );
        ensure!(!self.setup.iter().any(CommandLine::is_blank), "setup has an empty line");
        ensure!(
            self.user.as_ref().is_none_or(|user| !user.is_empty()),
            "user is empty: leave it out for knee's own"
        );
        stop(&self.stop)?;
        ensure!(
            self.address.is_none() || self.client_on.is_some(),
            "address is for a client on another host: name that host in client_on, or leave address out"
        );
        let Some(ready) = &self.ready else {
            bail!(
                "nothing says when the server is ready: give ready = {{ port = \"{{port}}\" }}, \
                 {{ line = \"REGEX\" }}, {{ file = \"PATH\" }} or {{ command = \"LINE\" }}"
            );
        };
        ready.check()
    }
}

impl Readiness {
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Readiness::Port(Scalar(port)) => {
                ensure!(
                    port.contains('{') || port.parse::<u16>().is_ok_and(|port| port > 0),
                    "the port that shows readiness is '{port}', must be 1 to 65535 or \"{{port}}\""
                );
            }
            Readiness::Line(pattern) => {
                has_line(pattern, "").map_err(|why| anyhow!("ready: {why}"))?;
            }
            Readiness::File(path) => ensure!(!path.is_empty(), "the file of ready has no path"),
            Readiness::Command(line) => {
                ensure!(!line.is_blank(), "the command of ready is empty");
            }
            Readiness::AliveMs(ms) => {
                ensure!(*ms <= 1_000_000, "alive_ms is {ms}, must be at most 1 000 000");
            }
        }
        Ok(())
    }

    /// "port 7000 was open", "a line matched 'REGEX'": what was waited for.
    pub fn in_words(&self) -> String {
        match self {
            Readiness::Port(Scalar(port)) => format!("port {port} takes connections"),
            Readiness::Line(pattern) => format!("a line of its output matches '{pattern}'"),
            Readiness::File(path) => format!("{path} exists"),
            Readiness::Command(line) => format!("'{}' succeeds", line.text()),
            Readiness::AliveMs(ms) => format!("it has lived for {ms} ms"),
        }
    }
}

/// The server of one run, for a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ServerJob {
    /// The worker starts it.
    Start(Box<StartedServer>),
    /// It runs already, as this process.
    Running(u32),
}

/// A server that the worker starts for one run, and ends with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StartedServer {
    /// The program and its arguments.
    pub run: Vec<String>,
    /// Its data directory, which the worker makes in `scratch`.
    pub data: PathBuf,
    /// A directory that is copied there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<PathBuf>,
    /// The user that its programs run as, if the worker runs as root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Programs to run before it, one after the other.
    #[serde(default)]
    pub setup: Vec<Vec<String>>,
    /// The IPv4 address at which its client finds it.
    #[serde(default = "loopback")]
    pub address: String,
    /// What shows that it serves.
    pub ready: Readiness,
    /// How long that may take, in seconds.
    pub ready_timeout_s: f64,
    /// How long the client runs before it is measured, in seconds.
    #[serde(default)]
    pub warmup_s: f64,
    /// How long the server goes on after the client's end, in seconds.
    #[serde(default)]
    pub drain_s: f64,
    /// What ends it: a signal, or a program.
    pub stop: CommandLine,
    /// How long its end may take, in seconds.
    pub stop_timeout_s: f64,
    /// Environment variables in addition to the worker's own.
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    /// The CPUs of a client on this host. The server has those of the job.
    #[serde(default)]
    pub client_cpus: Vec<u32>,
}

/// What a program of a server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerProgram {
    /// It makes the server's data.
    Setup,
    /// It is the server.
    Serves,
    /// It succeeds once the server is ready.
    Ready,
    /// It ends the server.
    Stop,
}

impl StartedServer {
    /// Every program that the worker starts for the server, in their order, with its arguments. Whatever lists, looks for
    /// or packs a server's programs asks here, so that none of them is forgotten in one place.
    pub fn programs(&self) -> Vec<(ServerProgram, &[String])> {
        let setup = self.setup.iter().map(|words| (ServerProgram::Setup, &words[..]));
        let mut programs: Vec<_> = setup.collect();
        programs.push((ServerProgram::Serves, &self.run));
        if let Readiness::Command(line) = &self.ready {
            programs.push((ServerProgram::Ready, line.words()));
        }
        if let Ok(Stop::Command(line)) = stop(&self.stop) {
            programs.push((ServerProgram::Stop, line.words()));
        }
        programs
    }
}

fn loopback() -> String {
    Ipv4Addr::LOCALHOST.to_string()
}

impl ServerJob {
    /// Refuses jobs that no worker can do.
    pub fn check(&self) -> Result<()> {
        let ServerJob::Start(server) = self else { return Ok(()) };
        for words in server.setup.iter().chain([&server.run]) {
            ensure!(words.first().is_some_and(|w| !w.is_empty()), "a server has no program");
            ensure!(!words.iter().any(|w| w.contains('\0')), "a server has a NUL in it");
        }
        ensure!(server.data.is_absolute(), "the server's data must be an absolute path");
        stop(&server.stop)?;
        server.ready.check()
    }
}

#[cfg(test)]
mod tests {
    use crate::Experiment;

    fn check(lines: &str, expected: expect_test::Expect) {
        let text =
            format!("[[load]]\n[load.command]\nrun = 'ask'\n[load.command.server]\n{lines}\n");
        let shown = match Experiment::read(&text) {
            Ok(experiment) => {
                let server = experiment.loads[0].command().unwrap().server.clone().unwrap();
                let again = Experiment::read(&experiment.to_toml().unwrap()).unwrap();
                assert_eq!(again, experiment, "{lines}");
                format!("{:?}, {}", server.ready, server.stop.text())
            }
            Err(error) => format!("{error:#}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn a_server_says_how_it_is_started_ready_and_stopped() {
        use expect_test::expect;
        check(
            "run = 'serve {port}'\nready = { port = '{port}' }",
            expect![[r#"Some(Port(Scalar("{port}"))), SIGTERM"#]],
        );
        check(
            "run = 'serve'\nready = { port = 80 }\nstop = 'SIGINT'",
            expect![[r#"Some(Port(Scalar("80"))), SIGINT"#]],
        );
        check(
            "run = 'serve'\nready = { line = '^up$' }\nstop = ['ask', 'end']",
            expect![[r#"Some(Line("^up$")), ask end"#]],
        );
        check(
            "run = 'serve'\nready = { file = 'socket' }",
            expect![[r#"Some(File("socket")), SIGTERM"#]],
        );
        check(
            "run = 'serve'\nready = { command = 'ask up' }",
            expect![[r#"Some(Command(Text("ask up"))), SIGTERM"#]],
        );
        check("pid = 7", expect!["None, SIGTERM"]);
        check(
            "run = 'serve'\nready = { port = 80 }\nclient_on = 'ssh:me@b'\naddress = '10.0.0.1'",
            expect![[r#"Some(Port(Scalar("80"))), SIGTERM"#]],
        );
    }

    #[test]
    fn a_server_that_no_host_can_run_is_refused_with_what_to_write() {
        use expect_test::expect;
        check(
            "run = 'serve'",
            expect![[
                r#"in the command 'ask': in its server: nothing says when the server is ready: give ready = { port = "{port}" }, { line = "REGEX" }, { file = "PATH" } or { command = "LINE" }"#
            ]],
        );
        check(
            "run = 'serve'\nready = 'soon'",
            expect![[r#"
            reading the experiment: TOML parse error at line 6, column 9
              |
            6 | ready = 'soon'
              |         ^^^^^^
            unknown variant `soon`, expected one of `port`, `line`, `file`, `command`, `alive_ms`
        "#]],
        );
        check(
            "run = 'serve'\nready = { port = 0 }",
            expect![[
                r#"in the command 'ask': in its server: the port that shows readiness is '0', must be 1 to 65535 or "{port}""#
            ]],
        );
        check(
            "run = 'serve'\nready = { line = '(' }",
            expect![
                "in the command 'ask': in its server: ready: the regex '(' is malformed: found open group without closing ')'"
            ],
        );
        check(
            "run = ''\nready = { port = 1 }",
            expect![
                "in the command 'ask': in its server: run is empty: name the program that serves, or give its pid"
            ],
        );
        check(
            "run = 'serve'\nready = { port = 1 }\nstop = 'SIGNAL'",
            expect![
                "in the command 'ask': in its server: stop is SIGNAL, must be SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2, SIGKILL"
            ],
        );
        check(
            "run = 'serve'\nready = { port = 1 }\nwarmup_s = -1",
            expect!["in the command 'ask': in its server: warmup_s is -1, must be 0 to 1 000 000"],
        );
        check(
            "run = 'serve'\nready = { port = 1 }\nreadiness = 3",
            expect![
                "reading the experiment: line 7: unknown key `load.0.command.?.server.?.readiness`"
            ],
        );
        check(
            "run = 'serve'\nready = { port = 1 }\nclient_on = 'b'",
            expect![[r#"
            reading the experiment: TOML parse error at line 7, column 13
              |
            7 | client_on = 'b'
              |             ^^^
            a client's host is 'b', must be ssh:HOST
        "#]],
        );
        check(
            "run = 'serve'\nready = { port = 1 }\naddress = '10.0.0.1'",
            expect![
                "in the command 'ask': in its server: address is for a client on another host: name that host in client_on, or leave address out"
            ],
        );
        check(
            "pid = 7\nuser = 'nobody'",
            expect![
                "in the command 'ask': in its server: the server has a pid and other keys: knee starts and stops only what it starts itself, so give pid alone"
            ],
        );
    }
}
