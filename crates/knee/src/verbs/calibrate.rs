//! `knee calibrate`: measures this host and prints it as a host for `knee simulate`.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use calibration;
use calibration::{CpuLayout, Provenance};
use host::stderr::{print, talk};
use host::topology;
use studies::hosts;

/// Measures this host for `knee simulate`, in some seconds, and prints it as the file of a host:
///
///     knee calibrate > hosts/mine.toml
///     knee simulate ticket,mcs --host mine
///
/// Nothing else should run meanwhile. `--host mine` is found below the directory `hosts` of where
/// knee is called; a path works anywhere.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {}

/// Measures and prints.
pub fn run(_: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let host = probes::host(Path::new("/"));
    let sys = Path::new("/sys");
    let allowed = host::affinity::get().context("asking on which CPUs to run")?;
    let topology = topology::read(sys)?.restricted_to(&allowed);
    ensure!(!topology.cpus.is_empty(), "this host allows no CPU to run on");
    let layout = CpuLayout::from_topology(&topology, sys);
    let measured =
        calibration::measure(&layout, &|what| talk(format_args!("measuring, {what} …")))?;
    let now = jiff::Zoned::now();
    let unknown = || "unknown".to_string();
    let occasion = Provenance {
        host: host.hostname.unwrap_or_else(unknown),
        model: host.cpu_model.unwrap_or_else(unknown),
        date: now.strftime("%Y-%m-%d").to_string(),
        time: now.strftime("%Y-%m-%d %H:%M UTC%:z").to_string(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let text = calibration::file(&measured, &layout, &occasion, &hosts::find("generic-2s")?);
    print(text)?;
    Ok(ExitCode::SUCCESS)
}
