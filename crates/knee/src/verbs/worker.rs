//! `knee worker`: reads one job from standard input, prints events. Started by `knee run`;
//! docs/formats/job.md specifies both.

use std::io::{BufReader, Read};
use std::process::ExitCode;

use anyhow::{Context, Result};
use records::Job;

/// Longest job that the worker reads; knee's own are far shorter.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// How the worker was started.
#[derive(clap::Args)]
pub struct Arguments {
    /// Process whose death kills the worker; absent if started by hand
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
    /// Started by a wrapper command of the parent
    #[arg(long)]
    under: bool,
}

/// Runs the job from standard input. A failed run is an event, not an exit status.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_orphan = |parent: i32| !(die_with(parent) || arguments.under && has_ancestor(parent));
    if arguments.parent.is_some_and(is_orphan) {
        return Ok(ExitCode::FAILURE);
    }
    let job = Job::read(&first_value(std::io::stdin().take(JOB_BYTES_MAX))?)?;
    worker::work(&job);
    Ok(ExitCode::SUCCESS)
}

/// The text of the first JSON value. Reads no further: a serial line or a socket has no end.
fn first_value(input: impl Read) -> Result<String> {
    let mut values = serde_json::Deserializer::from_reader(BufReader::new(input)).into_iter();
    let value: Option<serde_json::Value> = values.next().transpose().context("reading the job")?;
    Ok(value.map(|value| value.to_string()).unwrap_or_default())
}

/// Whether a process is an ancestor of this one.
fn has_ancestor(ancestor: i32) -> bool {
    // SAFETY: no preconditions.
    let mut process = unsafe { libc::getppid() };
    while process > 1 {
        if process == ancestor {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // State and parent follow the name, which may contain any character.
        let state_and_parent = stat.rsplit_once(')').map_or("", |(_, after)| after);
        process =
            state_and_parent.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    }
    false
}

/// Asks the kernel to kill this process when its parent dies. Returns whether the parent was
/// still alive then.
fn die_with(parent: i32) -> bool {
    // SAFETY: plain calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid() == parent
    }
}
