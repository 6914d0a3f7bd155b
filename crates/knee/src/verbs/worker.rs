//! `knee worker`: reads one job on standard input, prints events. Started by `knee run`;
//! docs/job-protocol.md specifies both.

use std::io::Read;
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
}

/// Does the job on standard input. A failed run is an event, not an exit status.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.parent.is_some_and(|parent| !die_with(parent)) {
        return Ok(ExitCode::FAILURE);
    }
    let mut text = String::new();
    std::io::stdin()
        .take(JOB_BYTES_MAX)
        .read_to_string(&mut text)
        .context("reading the job from standard input")?;
    let job = Job::read(&text)?;
    crate::worker::work(&job);
    Ok(ExitCode::SUCCESS)
}

/// Asks the kernel to kill us when the parent dies; whether it still lived then.
fn die_with(parent: i32) -> bool {
    // SAFETY: plain calls.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::getppid() == parent
    }
}
