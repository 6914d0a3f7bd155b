//! `knee doctor calibrate`: measures this host and prints it as a described host for `knee simulate`.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use calibration;
use calibration::{CpuLayout, Provenance};
use host::terminal::hint;
use host::topology;
use studies::simulations::keep::KeepFit;

/// Measure this host and print it as a described host
///
/// It takes a few seconds, in which nothing else should run:
///
///     knee doctor calibrate > hosts/mine.toml
///     knee simulate ticket,mcs --host mine
///
/// `--host mine` reads hosts/mine.toml below the current directory; a path works from anywhere.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Also fit how often a CPU keeps a contended line (`keep`) to curves of additions and compare-and-exchanges
    ///
    /// By 2, 3, 4, 8 and more CPUs at each distance. Takes up to a minute more. The file then begins with what was
    /// measured and fitted at each point. With 2 CPUs the fit has nothing to be checked by, and knee says so.
    #[arg(long)]
    keep: bool,
    /// Print its numbers as JSON, without the points of --keep
    #[arg(long)]
    pub json: bool,
}

/// Measures this host, and returns its file.
pub fn file(arguments: &Arguments) -> Result<String> {
    let start = Instant::now();
    let host = probes::host(Path::new("/"));
    let sys = Path::new("/sys");
    let allowed = host::affinity::get().context("reading the CPU affinity")?;
    let topology = topology::read(sys)?.restricted_to(&allowed);
    ensure!(!topology.cpus.is_empty(), "no online CPU is in the CPU affinity of knee");
    let layout = CpuLayout::from_topology(&topology, sys);
    ensure!(
        !arguments.keep || layout.described() / layout.threads > 1,
        "--keep: one core shares no cache line with another: leave it out, or allow more CPUs (taskset)"
    );
    let report = |what: &str| hint(format_args!("measuring: {what} …"));
    let mut measured = calibration::measure(&layout, &report)?;
    let now = jiff::Zoned::now();
    let unknown = || "unknown".to_string();
    let provenance = Provenance {
        host: host.hostname.unwrap_or_else(unknown),
        model: host.cpu_model.unwrap_or_else(unknown),
        date: now.strftime("%Y-%m-%d").to_string(),
        time: now.strftime("%Y-%m-%d %H:%M UTC%:z").to_string(),
        seconds: start.elapsed().as_secs_f64(),
    };
    let other = described_hosts::find("generic-2s")?;
    if arguments.keep {
        calibration::measure_keep(&mut measured, &layout, &provenance, &other, &report)?;
        measured.fits.iter().filter_map(KeepFit::why_weak).for_each(hint);
    }
    Ok(calibration::file(&measured, &layout, &provenance, &other))
}
