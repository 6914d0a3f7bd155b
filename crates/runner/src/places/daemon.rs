//! The daemon of a variant, as its runs have it: a worker of its own holds it from before a run until after it. If knee
//! dies, the daemon is stopped all the same, by the worker or by that one's guard.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use host::{affinity, children, signals};
use records::{Daemon, Event, Job, Until, Warning, Work};

use super::worker_output::{readable, whole_lines};

/// A daemon that is ready.
pub struct RunningDaemon {
    holder: Child,
    output: ChildStdout,
    /// What was read of it and is no whole line yet.
    text: Vec<u8>,
    /// How long its end may take.
    patience: Duration,
}

/// Some more than the worker gives the daemon.
const HOLDER_PATIENCE: Duration = Duration::from_secs(20);

impl RunningDaemon {
    /// Starts the daemon of a run and waits until it is ready.
    pub fn start(daemon: &Daemon, run: &Job) -> Result<RunningDaemon> {
        let job = holders_job(daemon, run)?;
        let mut command = Command::new("/proc/self/exe");
        command.args(["worker", "--parent", &std::process::id().to_string()]);
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = children::spawn(&mut command).context("starting the daemon's worker")?;
        let mut input = holder.stdin.take().context("the worker's input is a pipe")?;
        let output = holder.stdout.take().context("the worker's output is a pipe")?;
        let patience = Duration::from_secs_f64(daemon.stop_timeout_s) + HOLDER_PATIENCE;
        let mut running = RunningDaemon { holder, output, text: Vec::new(), patience };
        // A worker that died before it read all sends no event.
        let _ = input.write_all(serde_json::to_string(&job)?.as_bytes());
        drop(input);
        while let Some(events) = running.events() {
            for event in events {
                match event {
                    Event::Ready { .. } => return Ok(running),
                    Event::Failed { reason } => return Err(anyhow!(reason)),
                    _ => (),
                }
            }
            ensure!(signals::received().is_none(), "interrupted");
        }
        Err(anyhow!("the worker that starts the daemon ended"))
    }

    /// The process that holds it: the daemon and what that starts are its descendants.
    pub fn holder(&self) -> u32 {
        self.holder.id()
    }

    /// Stops it. Returns warnings about its end, or why it ended before.
    pub fn stop(mut self) -> Result<Vec<Warning>, String> {
        self.end();
        let (mut warnings, mut is_whole) = (Vec::new(), false);
        while let Some(events) = self.events() {
            for event in events {
                match event {
                    Event::Failed { reason } => return Err(reason),
                    Event::Warning(warning) => warnings.push(warning),
                    Event::Finished => is_whole = true,
                    _ => (),
                }
            }
        }
        is_whole.then_some(warnings).ok_or("the worker that held the daemon died".to_string())
    }

    /// The events that the worker sends within a second; `None` once it has ended.
    fn events(&mut self) -> Option<Vec<Event>> {
        if !readable(self.output.as_raw_fd(), Duration::from_secs(1)) {
            return Some(Vec::new());
        }
        let mut chunk = vec![0; 1 << 16];
        match self.output.read(&mut chunk) {
            Ok(n) if n > 0 => {
                self.text.extend_from_slice(&chunk[..n]);
                Some(whole_lines(&mut self.text).collect())
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => Some(Vec::new()),
            _ => None,
        }
    }

    /// Asks the worker to stop the daemon, and kills it if that takes too long.
    fn end(&mut self) {
        if !matches!(self.holder.try_wait(), Ok(None)) {
            return;
        }
        // SAFETY: a child that has not been waited for.
        unsafe { libc::kill(self.holder.id() as i32, libc::SIGTERM) };
        let since = Instant::now();
        while matches!(self.holder.try_wait(), Ok(None)) {
            if since.elapsed() > self.patience {
                let _ = self.holder.kill();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for RunningDaemon {
    fn drop(&mut self) {
        self.end();
    }
}

/// The job of the worker that holds a daemon, beside the directory of the run.
fn holders_job(daemon: &Daemon, run: &Job) -> Result<Job> {
    let name = run.scratch.file_name().context("a run has a directory")?.to_string_lossy();
    let scratch = run.scratch.with_file_name(format!("{name}-daemon"));
    let cpus = affinity::get().context("looking for the CPUs of the daemon")?;
    let started = daemon.started(scratch.join("data"), cpus.clone())?;
    Ok(Job {
        work: Work::Daemon(started),
        beside: None,
        tasks: 1,
        cpus,
        until: Until::End,
        profile: None,
        scratch,
        keep: false,
        allocations: false,
        traced: false,
        daemon: None,
        ..run.clone()
    })
}
