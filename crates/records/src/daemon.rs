//! A daemon of a variant: a program that runs beside each of the variant's runs, such as a scheduler of sched_ext, tuned
//! or irqbalance. It is started before the worker and stopped after it.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::{CommandLine, Readiness, StartedServer, stop};
use crate::parse;
use crate::scalar::Scalar;

/// A program that runs beside the runs of a variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Daemon {
    /// The program and its arguments. It stays in the foreground.
    pub run: CommandLine,
    /// How knee finds out that it does its work; by default it has lived for half a second.
    pub ready: Readiness,
    /// How long that may take, in seconds.
    pub ready_timeout_s: f64,
    /// What ends it: a signal, such as SIGINT, or a program.
    pub stop: CommandLine,
    /// How long its end may take, in seconds; then it is killed.
    pub stop_timeout_s: f64,
    /// Environment variables in addition to knee's own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Scalar>,
}

impl Default for Daemon {
    fn default() -> Daemon {
        Daemon {
            run: CommandLine::default(),
            ready: Readiness::AliveMs(500),
            ready_timeout_s: 60.0,
            stop: CommandLine::Text("SIGTERM".to_string()),
            stop_timeout_s: 10.0,
            environment: BTreeMap::new(),
        }
    }
}

impl Daemon {
    /// Reads what shows that it is ready, as a flag gives it: `line:REGEX`, `file:PATH`, `port:N`, `command:LINE` or
    /// `alive:MS`.
    pub fn parse_ready(text: &str) -> Result<Readiness> {
        let (kind, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.to_string();
        Ok(match kind {
            "line" => Readiness::Line(value),
            "file" => Readiness::File(value),
            "port" => Readiness::Port(Scalar(value)),
            "command" => Readiness::Command(CommandLine::Text(value)),
            "alive" => Readiness::AliveMs(value.parse().with_context(|| {
                format!("'{text}' must have a number of milliseconds: alive:500")
            })?),
            _ => bail!(
                "'{text}' must be line:REGEX, file:PATH, port:N, command:LINE or alive:MILLISECONDS"
            ),
        })
    }

    /// Refuses daemons that no host can run.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.run.is_blank(), "run is empty: name the program");
        for (name, length) in
            [("ready_timeout_s", self.ready_timeout_s), ("stop_timeout_s", self.stop_timeout_s)]
        {
            ensure!(
                (1e-3..=1e6).contains(&length),
                "{name} is {length}, must be 0.001 to 1 000 000"
            );
        }
        self.ready.check()?;
        let started = self.started(PathBuf::new(), Vec::new())?;
        for (_, words) in started.programs() {
            ensure!(!words.is_empty(), "one of its lines is a comment: name a program");
        }
        Ok(())
    }

    /// The daemon as a worker starts it, on these CPUs, with a directory of its own.
    pub fn started(&self, directory: PathBuf, cpus: Vec<u32>) -> Result<StartedServer> {
        let environment = self.environment.iter();
        let split = |line: &CommandLine| match line {
            CommandLine::Text(text) => parse::words(text).map(CommandLine::Words),
            words => Ok(words.clone()),
        };
        Ok(StartedServer {
            run: split(&self.run)?.words().to_vec(),
            data: directory,
            template: None,
            user: None,
            setup: Vec::new(),
            ready: match &self.ready {
                Readiness::Command(line) => Readiness::Command(split(line)?),
                other => other.clone(),
            },
            ready_timeout_s: self.ready_timeout_s,
            warmup_s: 0.0,
            drain_s: 0.0,
            stop: match stop(&self.stop)? {
                crate::command::Stop::Signal(_) => self.stop.clone(),
                crate::command::Stop::Command(line) => split(line)?,
            },
            stop_timeout_s: self.stop_timeout_s,
            environment: environment.map(|(name, word)| (name.clone(), word.0.clone())).collect(),
            address: Ipv4Addr::LOCALHOST.to_string(),
            client_cpus: cpus,
        })
    }
}
