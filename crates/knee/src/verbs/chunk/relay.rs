//! Kernels that Slurm boots. A chunk goes from job to job on one node: each measures the runs of the kernel that it
//! asked Slurm for, submits the job for the next kernel, and ends.
//!
//!     job of the array ─ needs k61 ─> job with --constraint=k61 ─ needs k612 ─> job with --constraint=k612 ─> …

use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use fleet::slurm::{self, Relay};
use fleet::{Folder, Share};
use host::terminal::hint;
use serde::{Deserialize, Serialize};
use setup::metal::{Arrival, KernelBoot};

/// How a chunk goes on, for the job that does.
#[derive(Serialize, Deserialize)]
struct PassedOn {
    boot: KernelBoot,
    submitted: SystemTime,
}

/// The kernel that Slurm booted for this job; none for the first job of a chunk.
pub fn arrive(folder: &Folder, share: &Share, goes_on: bool) -> Result<Option<Arrival>> {
    if !goes_on {
        return Ok(None);
    }
    let text = folder.read_passed_on(share.chunk, share.claim)?;
    let PassedOn { boot, submitted } =
        serde_json::from_str(&text).context("reading how a chunk goes on")?;
    slurm::check_feature(&node()?, feature(&boot)?)?;
    let up_s = submitted.elapsed().unwrap_or(Duration::ZERO).as_secs_f64();
    let given_up = Vec::new();
    Ok(Some(Arrival { boot, lost: Vec::new(), up_s: Some(up_s), build_id: None, given_up }))
}

/// Submits the job that goes on with a chunk on this node, under another kernel.
pub fn pass_on(folder: &Folder, share: &Share, boot: KernelBoot) -> Result<()> {
    let (node, feature) = (node()?, feature(&boot)?.to_string());
    let partition = std::env::var("SLURM_JOB_PARTITION").ok();
    let directory = std::path::absolute(folder.root())?;
    let relay = Relay {
        directory: &directory,
        chunk: share.chunk,
        claim: share.claim,
        node: &node,
        feature: &feature,
        partition: partition.as_deref(),
    };
    let text = slurm::relay_script(&relay)?;
    let passed_on = PassedOn { boot, submitted: SystemTime::now() };
    folder.pass_on(share.chunk, share.claim, &serde_json::to_string(&passed_on)?)?;
    let name = format!("{}.sh", share.chunk);
    folder.held().create_folder("logs")?.put(&name, text.as_bytes())?;
    let script = folder.root().join("logs").join(name);
    let id = slurm::submit(folder, &script)?;
    hint(format_args!("chunk {}: goes on in job {id} on {node} under {feature}", share.chunk));
    Ok(())
}

fn feature(boot: &KernelBoot) -> Result<&str> {
    boot.guest.feature.as_deref().context(
        "this host has to boot kernels for the chunk: knee run --on metal does that, on a host of one's own",
    )
}

/// The name that Slurm has for this node.
fn node() -> Result<String> {
    std::env::var("SLURMD_NODENAME").context(
        "kernels that are features of nodes (--kernel NAME=feature:F) are booted by Slurm, and this is no job of \
         Slurm: submit the chunks with knee run --on slurm",
    )
}
