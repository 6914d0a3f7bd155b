//! `knee worker`: reads one job on standard input, prints events. Started by `knee run`;
//! docs/job-protocol.md specifies both.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result};
use records::Job;

/// A job longer than this is not ours.
const JOB_BYTES_MAX: u64 = 1 << 20;

/// Does the job on standard input. A failed run is an event, not an exit status.
pub fn run() -> Result<ExitCode> {
    let mut text = String::new();
    std::io::stdin()
        .take(JOB_BYTES_MAX)
        .read_to_string(&mut text)
        .context("reading the job from standard input")?;
    let job = Job::read(&text)?;
    crate::worker::work(&job);
    Ok(ExitCode::SUCCESS)
}
