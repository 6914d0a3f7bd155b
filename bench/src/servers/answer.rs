//! What knee says of a running server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::interrupt::pause;
use super::running::{Process, Running};

/// How much longer than it was asked to look knee may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// The part of `knee explain --pid --json` that is scored.
#[derive(Deserialize)]
pub struct Answer {
    /// The most limiting first.
    pub causes: Vec<Accusation>,
    /// From the call to the answer.
    #[serde(skip)]
    pub wall_s: f64,
}

/// A cause that limits the process.
#[derive(Deserialize)]
pub struct Accusation {
    pub cause: String,
    /// The lock, the line, the thread.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub share: Option<f64>,
    /// Functions that hold the lock.
    #[serde(default)]
    pub held_in: Vec<String>,
    /// What the holder does.
    #[serde(default)]
    pub holder: Vec<HolderState>,
}

/// A state of the holder with its share of the time.
#[derive(Deserialize)]
pub struct HolderState {
    pub reason: String,
    #[serde(default)]
    pub share: f64,
}

impl Answer {
    /// Asks about a running server.
    pub fn ask(knee: &Path, running: &mut Running, seconds: f64) -> Result<Answer> {
        let printed = running.file("knee.log");
        let asked = running.file("answer.json");
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$@" > "$0""#]).arg(&asked).arg(knee);
        command.args(["explain", "--pid"]).arg(running.id().to_string());
        command.args(["--seconds", &seconds.to_string(), "--json"]);
        for (name, folder) in
            [("KNEE_RECORDS", "records"), ("XDG_CACHE_HOME", "cache"), ("XDG_STATE_HOME", "state")]
        {
            command.env(name, running.file(folder));
        }
        running.as_its_user(&mut command);
        let start = Instant::now();
        let mut explain = Process::start(&mut command, &printed, None)?;
        while explain.ended()?.is_none() {
            let is_patient = start.elapsed() < PATIENCE + Duration::from_secs_f64(seconds);
            ensure!(is_patient, "no answer after {:?}", start.elapsed());
            pause(Duration::from_millis(20))?;
        }
        let wall_s = start.elapsed().as_secs_f64();
        running.check_alive().context("while knee looked")?;
        let said = fs::read_to_string(&asked).unwrap_or_default();
        let why = || {
            let printed = fs::read_to_string(&printed).unwrap_or_default();
            format!("no answer, but: {}", printed.lines().last().unwrap_or_default())
        };
        let answer: Answer = serde_json::from_str(&said).with_context(why)?;
        Ok(Answer { wall_s, ..answer })
    }
}

impl Accusation {
    /// What the holder does most of the time.
    pub fn main_reason(&self) -> Option<&str> {
        let most = self.holder.iter().max_by(|a, b| a.share.total_cmp(&b.share));
        most.map(|state| state.reason.as_str())
    }

    /// The accusation in one line.
    pub fn line(&self) -> String {
        let mut line = self.cause.clone();
        if let Some(name) = &self.name {
            line += &format!(" {name}");
        }
        if let Some(share) = self.share {
            line += &format!(" {:.0} %", 100.0 * share);
        }
        if !self.held_in.is_empty() {
            line += &format!(", held in {}", self.held_in.join(" "));
        }
        if let Some(reason) = self.main_reason() {
            line += &format!(", {reason}");
        }
        line
    }
}
