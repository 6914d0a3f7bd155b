//! Comparing: how long it takes to say what a large record says, and how long knee takes to say
//! anything at all.

use std::env::temp_dir;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{Outcome, Point, Run, Sample};
use store::{Id, Store};

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const BLOCKS: u32 = 500;
const SAMPLES_A_RUN: u32 = 1000;
const REPEATS: usize = 10;

/// The curve whose law is looked for.
const COUNTS: [u32; 20] = [1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 60, 64];

/// Wall times of `knee compare`, of `knee scale` and of `knee run --plan`.
pub fn measure(bench: &mut Bench) -> Result<Vec<Figure>> {
    let home = fresh_directory(&temp_dir())?;
    let mut run = bench.knee(home.path());
    run.args(["run", "getppid", "--cpus", "1", "--seconds", "0.02", "--json", "--dir"]);
    run.arg(home.path()).args(["--variant", "a=", "--variant", "b=idle_ns=10"]);
    output(&mut run)?;
    let small = only_record(&home.path().join("records"))?;
    let large = enlarge(bench, home.path(), &small)?;
    let curve = curve(bench, home.path(), &small)?;
    let mut times = [vec![], vec![], vec![], vec![]];
    for repeat in 1..=REPEATS {
        eprintln!("comparing: {repeat} of {REPEATS}");
        times[0].push(timed(bench.knee(home.path()).arg("compare").arg(&large))?);
        times[1].push(timed(bench.knee(home.path()).arg("compare").arg(&small))?);
        times[2].push(timed(bench.knee(home.path()).args(["run", "first-look", "--plan"]))?);
        times[3].push(timed(bench.knee(home.path()).arg("scale").arg(&curve))?);
    }
    let [large, small, plan, curve] = times;
    let figure = |what: &str, limit, values| Figure {
        name: what.to_string(),
        unit: "ms",
        limit: Limit::AtMost(limit),
        values,
    };
    Ok(vec![
        figure("1000 runs with 1 000 000 samples compared", 1000.0, large),
        figure("20 runs compared", 50.0, small),
        figure("first-look planned", 50.0, plan),
        figure("law of a curve of 20 CPU counts and 10 000 runs", 1000.0, curve),
    ])
}

/// The folder of the one record of a store.
pub fn only_record(store: &Path) -> Result<PathBuf> {
    let only = |folder: &Path| -> Result<PathBuf> {
        Ok(fs::read_dir(folder)?.next().context("the store is empty")??.path())
    };
    only(&only(store)?)
}

/// A record of the same two variants with many runs, which differ by chance, and many samples.
fn enlarge(bench: &mut Bench, home: &Path, small: &Path) -> Result<PathBuf> {
    let template = store::open(small)?;
    let mut record = template.record.clone();
    record.experiment.blocks = Some(BLOCKS);
    let store = Store::at(home.join("large"));
    let mut growing = store.begin(record, Id::new(Timestamp::now(), bench.random.random()))?;
    for block in 0..BLOCKS {
        for point in 0..2 {
            let like = template.runs_of(point).find(|run| run.finished() && !run.placebo);
            let mut run =
                Run { run: growing.next_run(), block, ..like.context("a finished run")?.clone() };
            vary(&mut run, &mut bench.random);
            let sample = |at: u32| Sample {
                metric: "interval.operations".to_string(),
                task: None,
                at_ns: Some(at as i64 * 1_000_000),
                value: at as f64,
            };
            growing.append(&run, (0..SAMPLES_A_RUN).map(sample).collect())?;
        }
    }
    growing.complete = true;
    growing.finish(Timestamp::now())?.context("the record has runs")
}

/// Metrics that are a little off those of the run that they are made from.
pub fn vary(run: &mut Run, random: &mut Xoshiro256PlusPlus) {
    if let Outcome::Finished { metrics, .. } = &mut run.outcome {
        let mut varied = |value: f64| value * (1.0 + 0.03 * (random.random::<f64>() - 0.5));
        *metrics = metrics.iter().map(|(name, value)| (name, varied(value))).collect();
    }
}

/// A record of one curve, as of a lock that is slower with its queue.
fn curve(bench: &mut Bench, home: &Path, small: &Path) -> Result<PathBuf> {
    let template = store::open(small)?;
    let mut record = template.record.clone();
    record.experiment.blocks = Some(BLOCKS);
    record.experiment.variants.clear();
    record.variants.clear();
    let point = record.points[0].clone();
    let at = |cpus: u32| Point {
        cpus,
        tasks: cpus,
        cpu_list: (0..cpus).collect(),
        variant: String::new(),
        cell: None,
        ..point.clone()
    };
    record.points = COUNTS.map(at).to_vec();
    let store = Store::at(home.join("curve"));
    let mut growing = store.begin(record, Id::new(Timestamp::now(), bench.random.random()))?;
    let like = template.runs_of(0).find(|run| run.finished()).context("a finished run")?.clone();
    for block in 0..BLOCKS {
        for (point, cpus) in (0..).zip(COUNTS) {
            let mut run = Run { run: growing.next_run(), block, point, ..like.clone() };
            if let Outcome::Finished { metrics, .. } = &mut run.outcome {
                let rate = 1e6 * f64::from(cpus) / (1.0 + 0.05 * f64::from(cpus - 1));
                let noise = 1.0 + 0.1 * (bench.random.random::<f64>() - 0.5);
                metrics.insert("operations_per_s", rate * noise);
            }
            growing.append(&run, Vec::new())?;
        }
    }
    growing.complete = true;
    growing.finish(Timestamp::now())?.context("the record has runs")
}

/// Wall time of a command in ms.
fn timed(command: &mut Command) -> Result<f64> {
    let since = Instant::now();
    let said = output(command)?.stdout;
    let ms = since.elapsed().as_secs_f64() * 1e3;
    ensure!(!said.is_empty(), "{command:?} said nothing");
    Ok(ms)
}
