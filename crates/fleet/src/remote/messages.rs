//! What the claimer of a chunk and the host that measures it say to each other.

use std::io::{BufRead, Read, Write};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::plan_file::Plan;

/// Longest line that is read: a plan with many points.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// What the claimer asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Request {
    /// Whether the host can measure this plan; first of all.
    Check { plan: Box<Plan> },
    /// Some of its blocks.
    Measure { blocks: Vec<u32> },
    /// End, and first the run in progress.
    Stop,
}

/// What the host says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Answer {
    Fit,
    Unfit {
        why: String,
    },
    /// The file holds, from `offset` on, only the `bytes` that follow this line.
    File {
        path: String,
        offset: u64,
        bytes: u64,
    },
    Removed {
        path: String,
    },
    /// A record's folder has another name.
    Renamed {
        from: String,
        to: String,
    },
    /// So many runs of these blocks are finished and sent.
    Run {
        runs: u64,
        failed: bool,
    },
    /// The blocks are measured, unless a signal came before.
    Ended {
        interrupted: bool,
    },
    /// Measuring ended with an error. Runs until then were sent.
    Broke {
        why: String,
    },
}

/// Writes one message as a line.
pub fn send(out: &mut impl Write, message: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    out.write_all(&line)?;
    Ok(out.flush()?)
}

/// Reads the next message; `None` where the stream ends.
pub fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> Result<Option<T>> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    ensure!(line.ends_with(b"\n"), "the stream ended within a line");
    let message = serde_json::from_slice(&line).with_context(|| {
        let start = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
        format!("reading what the other side says: {start:?}")
    })?;
    Ok(Some(message))
}
