//! A record as large as they come: how long it takes to show and to report it, and how much memory.

use std::env::temp_dir;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use rand::RngExt;
use records::Run;
use store::{Id, Store};

use crate::comparing::{only_record, vary};
use crate::perf_data::timed;
use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const RUNS: u32 = 100_000;
const REPEATS: usize = 5;

/// Runs that become durable together.
const BATCH: u32 = 1000;

/// Wall times and largest memory of `knee show` and `knee report`.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    let mut run = bench.knee(home.path());
    run.args(["run", "getppid", "--cpus", "1", "--seconds", "0.02", "--json", "--dir"]);
    run.arg(home.path()).args(["--variant", "a=", "--variant", "b=idle_ns=10"]);
    output(&mut run)?;
    eprintln!("writing {RUNS} runs");
    let large = enlarge(bench, home.path(), &only_record(&home.path().join("records"))?)?;
    let mut figures = Vec::new();
    for verb in ["show", "report"] {
        let (mut ms, mut memory) = (Vec::new(), Vec::new());
        for repeat in 1..=REPEATS {
            eprintln!("{verb} of {RUNS} runs: {repeat} of {REPEATS}");
            let (time, bytes) = timed(bench.knee(home.path()).arg(verb).arg(&large))?;
            ms.push(time);
            memory.push(bytes / f64::from(1 << 20));
        }
        let figure = |what: &str, unit, limit, values| Figure {
            name: format!("{verb} of {RUNS} runs{what}"),
            unit,
            limit: Limit::AtMost(limit),
            values,
        };
        figures.push(figure("", "ms", 3000.0, ms));
        figures.push(figure(", memory", "MiB", 400.0, memory));
    }
    Ok(figures)
}

/// A record of the same two variants with many runs, which differ by chance.
fn enlarge(bench: &mut Bench, home: &Path, small: &Path) -> Result<PathBuf> {
    let template = store::open(small)?;
    let mut record = template.record.clone();
    record.experiment.blocks = Some(RUNS / 2);
    let store = Store::at(home.join("large"));
    let mut growing = store.begin(record, Id::new(Timestamp::now(), bench.random.random()))?;
    let finished = |point| template.runs_of(point).find(|run| run.finished() && !run.placebo);
    let like = [finished(0), finished(1)].map(|run| run.context("a finished run"));
    let [a, b] = like;
    let like = [a?, b?];
    for first in (0..RUNS).step_by(BATCH as usize) {
        let run = |run: u32| {
            let mut one = Run { run, block: run / 2, ..like[run as usize % 2].clone() };
            vary(&mut one, &mut bench.random);
            (one, Vec::new())
        };
        growing.append_all((first..first + BATCH).map(run).collect())?;
    }
    growing.complete = true;
    growing.finish(Timestamp::now())?.context("the record has runs")
}
