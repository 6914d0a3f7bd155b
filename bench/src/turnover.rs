//! What a fresh file system for every run costs: made, mounted, unmounted, checked and removed, at
//! 8 GiB as a sparse image, for each kind. The time from one run's start to the next one's, less
//! the length of the run; in it are the start of the worker and its reaping, some 50 ms.

use std::env::temp_dir;

use anyhow::{Context, Result};
use records::Run;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const KINDS: &[&str] = &["btrfs", "ext2", "ext3", "ext4", "tmpfs", "xfs"];
const RUNS: &str = "11";
const SECONDS: f64 = 0.02;

/// Turnover times of each kind that can be made here.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for kind in KINDS {
        eprintln!("turnover of {kind}");
        match of_kind(bench, kind) {
            Ok(figure) => figures.push(figure),
            // Only root may; and a kind may lack its programs.
            Err(why) => eprintln!("turnover of {kind} is not measured: {why:#}"),
        }
    }
    Ok(figures)
}

fn of_kind(bench: &Bench, kind: &str) -> Result<Figure> {
    let home = fresh_directory(&temp_dir())?;
    let mut command = bench.knee(home.path());
    command.args(["run", "getppid", "--cpus", "1", "--json", "--blocks", RUNS, "--fs", kind]);
    command.args(["--size", "8G", "--seconds", &SECONDS.to_string(), "--dir"]).arg(home.path());
    let said = output(&mut command)?.stdout;
    let text = String::from_utf8(said).context("knee prints text")?;
    let runs = text.lines().map(Run::read).collect::<Result<Vec<Run>>>()?;
    let between = |pair: &[Run]| pair[1].started.duration_since(pair[0].started).as_secs_f64();
    Ok(Figure {
        name: format!("a fresh {kind} of 8 GiB for a run, made, mounted, unmounted, checked"),
        unit: "s",
        limit: Limit::AtMost(1.0),
        values: runs.windows(2).map(|pair| between(pair) - SECONDS).collect(),
    })
}
