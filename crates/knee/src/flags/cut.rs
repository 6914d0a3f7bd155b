//! How an experiment is cut into chunks for many hosts, and the plan that comes of it.

use std::time::Duration;

use analysis::PointHistory;
use anyhow::{Result, ensure};
use fleet::{Chunk, Plan, cut};
use host::random;
use records::{Experiment, Many, Record, Scalar, Until};
use runner::{history, new_record};
use setup::foreign::Permitted;
use store::Store;

use super::times::duration;

/// The sizes of chunks and leases.
#[derive(clap::Args)]
pub struct CutFlags {
    /// Length of a chunk, such as 90s, 10m or 1h
    ///
    /// By default a quarter of a host's work if the hosts are named, else a 16th of all; at least 20s, at most 10m, and
    /// never so long that a named host gets none.
    #[arg(long, value_name = "TIME", value_parser = duration, hide_short_help = true)]
    chunk: Option<Duration>,
    /// How long a host may show no run before another takes its chunk over
    ///
    /// By default ten times the longest run, at least 2m. Too short a lease costs time, never runs.
    #[arg(long, value_name = "TIME", value_parser = duration, hide_short_help = true)]
    lease: Option<Duration>,
}

impl CutFlags {
    /// Whether a flag was given.
    pub fn is_given(&self) -> bool {
        self.chunk.is_some() || self.lease.is_some()
    }

    /// The plan of a fleet of so many hosts, if that is known, for this experiment, whose seed is drawn here if it has
    /// none.
    pub fn plan(
        &self,
        experiment: Permitted<Experiment>,
        store: &Store,
        hosts: Option<u32>,
    ) -> Result<Plan> {
        let experiment = experiment.into_inner();
        let experiment =
            Experiment { seed: Some(experiment.seed.unwrap_or_else(random)), ..experiment };
        check_can_be_cut(&experiment)?;
        let record = new_record(experiment.clone())?;
        let past = history::past_runs(&record, store)?;
        let (block_s, longest_s) = block_s(&record, &past);
        let chunks = self.chunks(experiment.blocks(), block_s, hosts);
        // Between two boots a node shows no run for minutes.
        let (shortest_lease_s, kernel) = if experiment.has_metal() {
            (3600.0, String::new())
        } else {
            (120.0, record.host.kernel_release.clone().unwrap_or_default())
        };
        Ok(Plan {
            format: fleet::FORMAT,
            knee: env!("CARGO_PKG_VERSION").to_string(),
            command: host::command_line(),
            architecture: std::env::consts::ARCH.to_string(),
            kernel,
            lease_s: self
                .lease
                .map_or((10.0 * longest_s).max(shortest_lease_s), |lease| lease.as_secs_f64()),
            experiment,
            points: record.points,
            chunks,
        })
    }

    /// All blocks, in chunks of the length that is asked for, or of one that leaves no host idle.
    fn chunks(&self, blocks: u32, block_s: f64, hosts: Option<u32>) -> Vec<Chunk> {
        if let Some(length) = self.chunk {
            return cut(blocks, block_s, length.as_secs_f64(), 1);
        }
        let chunks = CHUNKS_PER_HOST * hosts.unwrap_or(CHUNKS_PER_HOST);
        let share_s = f64::from(blocks) * block_s / f64::from(chunks);
        cut(blocks, block_s, share_s.clamp(CHUNK_S.0, CHUNK_S.1), hosts.unwrap_or(1))
    }
}

/// Shortest and longest chunk unless a length is given, in seconds: each takes a moment to begin, and a host that dies
/// late in a long one leaves others waiting.
const CHUNK_S: (f64, f64) = (20.0, 600.0);

/// Chunks for each host that is known, so that fast hosts take more of them.
const CHUNKS_PER_HOST: u32 = 4;

/// Refuses what chunks cannot decide alone.
pub fn check_can_be_cut(experiment: &Experiment) -> Result<()> {
    ensure!(
        experiment.adaptive.is_none(),
        "an adaptive search decides after each block, but chunks are measured at the same time: name --cpus"
    );
    ensure!(
        !experiment.compare.until_decided,
        "until_decided decides after each block, but chunks are measured at the same time: leave it out and \
         give --blocks"
    );
    ensure!(
        experiment.own_loads().next().is_none(),
        "a load that is compiled lies on this host alone: build it as a program that all hosts have, and \
         name it with --command"
    );
    let named =
        |counts: &Many<Scalar>| counts.0.iter().all(|c| !c.0.contains("all") && c.0 != "cores");
    let axes = experiment.loads.iter().map(|load| &load.axes).chain([&experiment.axes]);
    let all_named = axes.filter_map(|axes| axes.cpus.as_ref()).all(named);
    ensure!(
        all_named,
        "CPU counts such as 'all' differ between hosts: name counts that every host has, such as --cpus 1,2,4"
    );
    Ok(())
}

/// How long a block and the longest run take, in seconds: by earlier records of this host, else by the
/// length of the runs and half a second around each.
fn block_s(record: &Record, past: &[Option<PointHistory>]) -> (f64, f64) {
    let assumed = |until: Until| match until {
        Until::Seconds(seconds) => seconds + 0.5,
        Until::OperationsPerTask(_) | Until::End => 1.5,
    };
    let run_s = |(point, past): (&records::Point, &Option<PointHistory>)| {
        past.as_ref().map_or(assumed(point.until), |past| past.run_s)
    };
    let runs: Vec<f64> = record.points.iter().zip(past).map(run_s).collect();
    let profiles = record.experiment.explain.as_ref().map_or(0, |e| e.profiles.len());
    (runs.iter().sum::<f64>() * (1 + profiles) as f64, runs.iter().copied().fold(0.0, f64::max))
}
