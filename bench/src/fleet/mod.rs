//! A fleet by Slurm, all of whose daemons run on this host: how even the work is spread, whether runs are
//! lost when nodes are killed, how soon the first run starts, and whether verbs answer while the controller
//! does not. Runs sleep, since the nodes share the CPUs of one host.

mod cluster;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::RngExt;
use records::Opened;

use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};
use cluster::Cluster;

const NODES: usize = 6;
const CHUNKS: usize = 60;
const KILLS: usize = 20;

/// Measures all figures.
pub fn measure(bench: &mut Bench, _: &Options) -> Result<Vec<Figure>> {
    let home = fresh_directory(&std::env::temp_dir())?;
    let mut cluster = Cluster::start(home.path(), NODES)?;
    let mut figures = vec![first_run(bench, &cluster)?];
    figures.extend(controller_down(bench, &cluster)?);
    figures.push(spread(bench, &cluster)?);
    figures.extend(killed(bench, &mut cluster)?);
    Ok(figures)
}

fn figure(name: &str, unit: &'static str, limit: Limit, values: Vec<f64>) -> Figure {
    Figure { name: format!("fleet: {name}"), unit, limit, values }
}

/// An experiment whose runs sleep, in blocks of one run, one or more of which are a chunk.
fn line(seconds: f64, blocks: usize, directory: &Path) -> Vec<String> {
    let blocks = blocks.to_string();
    let directory = directory.display().to_string();
    let command = format!("sleep {seconds}");
    let words = ["run", "--command", &command, "--cpus", "1", "--blocks", &blocks, "--on", "slurm"];
    words.into_iter().chain(["--fleet", &directory]).map(str::to_string).collect()
}

/// Submits, and gives the time of it.
fn submit(bench: &Bench, cluster: &Cluster, words: &[String]) -> Result<jiff::Timestamp> {
    let before = jiff::Timestamp::now();
    output(bench.knee(cluster.home()).args(words).envs(cluster.environment()))?;
    Ok(before)
}

/// Waits until so many chunks are done.
fn wait_for_chunks(directory: &Path, chunks: usize, limit: Duration) -> Result<()> {
    let since = Instant::now();
    while done(directory) < chunks {
        ensure!(
            since.elapsed() < limit,
            "only {} of {chunks} chunks are done after {limit:?}",
            done(directory)
        );
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

fn done(directory: &Path) -> usize {
    let names = fs::read_dir(directory.join("done")).into_iter().flatten().flatten();
    names.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
}

/// The record that the chunks make.
fn collected(bench: &Bench, cluster: &Cluster, directory: &Path) -> Result<Opened> {
    let mut knee = bench.knee(cluster.home());
    let told = output(knee.args(["fleet", "collect", "--json"]).arg(directory))?;
    let told: serde_json::Value = serde_json::from_slice(&told.stdout)?;
    let folder = told["folder"].as_str().context("knee fleet collect names no folder")?;
    store::open(&PathBuf::from(folder))
}

/// From starting `knee run --on slurm` to the start of the first run on a node.
fn first_run(bench: &Bench, cluster: &Cluster) -> Result<Figure> {
    let mut values = Vec::new();
    for repeat in 0..5 {
        let directory = cluster.home().join(format!("first-{repeat}"));
        let before = submit(bench, cluster, &line(0.1, 1, &directory))?;
        wait_for_chunks(&directory, 1, Duration::from_secs(60))?;
        let record = collected(bench, cluster, &directory)?;
        let first = record.runs.iter().map(|run| run.started).min().context("no run")?;
        values.push(first.duration_since(before).as_secs_f64());
    }
    Ok(figure("submission to first run", "s", Limit::AtMost(1.5), values))
}

/// How long verbs take for the minute that the controller is stopped.
fn controller_down(bench: &Bench, cluster: &Cluster) -> Result<Vec<Figure>> {
    let directory = cluster.home().join("down");
    let place = directory.display().to_string();
    let run = line(0.1, 2, &directory);
    let verbs = [
        ("run --on slurm", run),
        ("fleet status", ["fleet", "status", &place].map(str::to_string).to_vec()),
        ("fleet collect", ["fleet", "collect", &place].map(str::to_string).to_vec()),
        ("chunk", ["chunk", &place, "0"].map(str::to_string).to_vec()),
    ];
    cluster.stop();
    let since = Instant::now();
    let mut slowest = vec![0.0f64; verbs.len()];
    while since.elapsed() < Duration::from_secs(60) {
        for ((_, words), slowest) in verbs.iter().zip(&mut slowest) {
            let began = Instant::now();
            let mut knee = bench.knee(cluster.home());
            let knee = knee.args(words).envs(cluster.environment());
            knee.output().context("starting knee")?;
            *slowest = slowest.max(began.elapsed().as_secs_f64());
            // A job that was submitted makes `knee fleet status` ask Slurm why it waits.
            if !directory.join("slurm-jobs").exists() && directory.exists() {
                fs::write(directory.join("slurm-jobs"), "1\n").context("pretending a job")?;
            }
        }
    }
    cluster.go_on();
    cluster.wait_until_idle()?;
    let figures = verbs.iter().zip(slowest).map(|((verb, _), slowest)| {
        figure(&format!("controller down, slowest {verb}"), "s", Limit::AtMost(5.0), vec![slowest])
    });
    Ok(figures.collect())
}

/// The time of an array against the work in it, shared evenly.
fn spread(bench: &Bench, cluster: &Cluster) -> Result<Figure> {
    let directory = cluster.home().join("spread");
    let mut words = line(15.0, CHUNKS, &directory);
    words.extend(["--chunk", "1s"].map(str::to_string));
    let before = submit(bench, cluster, &words)?;
    wait_for_chunks(&directory, CHUNKS, Duration::from_secs(500))?;
    let wall_s = jiff::Timestamp::now().duration_since(before).as_secs_f64();
    let record = collected(bench, cluster, &directory)?;
    let sessions = record.record.sessions.iter();
    let work = sessions.filter_map(|s| Some(s.finished?.duration_since(s.started).as_secs_f64()));
    let work_s: f64 = work.sum();
    eprintln!("{CHUNKS} chunks: {wall_s:.1} s for {work_s:.1} s of work on {NODES} nodes");
    let ratio = wall_s / (work_s / NODES as f64);
    Ok(figure("60 chunks on 6 nodes / their work by 6", "", Limit::AtMost(1.2), vec![ratio]))
}

/// Kills nodes with their jobs, and counts what comes of it.
fn killed(bench: &mut Bench, cluster: &mut Cluster) -> Result<Vec<Figure>> {
    let directory = cluster.home().join("killed");
    let blocks = 3 * CHUNKS;
    let mut words = line(2.0, blocks, &directory);
    words.extend(["--chunk", "4.5s"].map(str::to_string));
    submit(bench, cluster, &words)?;
    let planned = fs::read_to_string(directory.join("plan.json"))?;
    let planned: serde_json::Value = serde_json::from_str(&planned)?;
    let chunks = planned["chunks"].as_array().context("a plan has chunks")?.len();
    ensure!(chunks == CHUNKS, "{chunks} chunks instead of {CHUNKS}");
    let mut kills = 0;
    while kills < KILLS {
        sleep(Duration::from_millis(bench.random.random_range(500..3000)));
        ensure!(done(&directory) < CHUNKS, "all was done after {kills} kills");
        let node = bench.random.random_range(0..NODES);
        if cluster.kill(node, &directory)? {
            kills += 1;
            cluster.start_again(node)?;
        }
    }
    wait_for_chunks(&directory, CHUNKS, Duration::from_secs(500))?;
    let record = collected(bench, cluster, &directory)?;
    let distinct: BTreeSet<(u32, u32, u32)> =
        record.runs.iter().map(|run| (run.block, run.point, run.repeat)).collect();
    let exactly =
        |name: &str, value: usize| figure(name, "", Limit::AtMost(0.0), vec![value as f64]);
    Ok(vec![
        figure(
            "nodes killed with their jobs",
            "",
            Limit::AtLeast(KILLS as f64),
            vec![kills as f64],
        ),
        figure("chunks done", "", Limit::AtLeast(CHUNKS as f64), vec![done(&directory) as f64]),
        exactly("runs lost", blocks - distinct.len()),
        exactly("runs doubled", record.runs.len() - distinct.len()),
    ])
}
