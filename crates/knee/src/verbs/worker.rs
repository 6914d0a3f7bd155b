//! `knee worker`: reads one job on standard input, prints events. Started by `knee run`;
//! docs/job-protocol.md specifies both.

use std::io::{BufReader, Read};
use std::process::ExitCode;

use anyhow::{Context, Result};
use records::Job;

/// A job longer than this is not ours.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// Who started it.
#[derive(clap::Args)]
pub struct Arguments {
    /// The process to die with; none when started by hand
    #[arg(long, value_name = "PID")]
    parent: Option<i32>,
    /// Started by a command that the parent started
    #[arg(long)]
    under: bool,
}

/// Does the job on standard input. A failed run is an event, not an exit status.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let may_live = |parent: i32| die_with(parent) || (arguments.under && has_ancestor(parent));
    if arguments.parent.is_some_and(|parent| !may_live(parent)) {
        return Ok(ExitCode::FAILURE);
    }
    let job = Job::read(&first_value(std::io::stdin().take(JOB_BYTES_MAX))?)?;
    worker::work(&job);
    Ok(ExitCode::SUCCESS)
}

/// The text of the first JSON value. Not all there is: a serial line or a socket has no end.
fn first_value(input: impl Read) -> Result<String> {
    let mut values = serde_json::Deserializer::from_reader(BufReader::new(input)).into_iter();
    let value: Option<serde_json::Value> = values.next().transpose().context("reading the job")?;
    Ok(value.map(|value| value.to_string()).unwrap_or_default())
}

/// Whether a process is above us: the parent of our parent, or further up.
fn has_ancestor(ancestor: i32) -> bool {
    // SAFETY: no preconditions.
    let mut process = unsafe { libc::getppid() };
    while process > 1 {
        if process == ancestor {
            return true;
        }
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // After the name, which may hold anything: state and parent.
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        process = after.split_whitespace().nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    }
    false
}

/// Asks the kernel to kill us when the parent dies; whether it still lived then.
fn die_with(parent: i32) -> bool {
    // SAFETY: plain calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid() == parent
    }
}
