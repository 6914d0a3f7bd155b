//! Searching: how long `knee check` takes, from the command line to the verdict.

use std::env::temp_dir;

use anyhow::{Result, ensure};

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const REPEATS: usize = 5;

/// Lock, tasks, acquires, and the longest time in s for sequential consistency.
const CASES: &[(&str, u32, u32, f64)] = &[
    ("queued", 3, 1, 0.010),
    ("queued", 4, 1, 0.5),
    ("queued", 3, 2, 15.0),
    ("mcs", 4, 1, 0.050),
    ("mcs", 3, 2, 0.1),
    ("queued", 5, 1, 60.0),
];

/// Times that the searches themselves took, as `knee check` tells them.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for &(lock, threads, acquires, limit) in CASES {
        for (model, flags, times) in [("sc", &[][..], 1.0), ("tso", &["--tso"][..], 5.0)] {
            let mut seconds = Vec::new();
            for repeat in 1..=REPEATS {
                eprintln!("{lock} {threads}x{acquires} {model}: {repeat} of {REPEATS}");
                seconds.push(search(bench, lock, threads, acquires, flags)?);
            }
            figures.push(Figure {
                name: format!("{lock}, {threads} tasks × {acquires}, {model}: searched"),
                unit: "s",
                limit: Limit::AtMost(times * limit),
                values: seconds,
            });
        }
    }
    figures.push(sampled(bench)?);
    Ok(figures)
}

fn search(bench: &Bench, lock: &str, threads: u32, acquires: u32, flags: &[&str]) -> Result<f64> {
    let checked = check(bench, lock, threads, acquires, flags)?;
    ensure!(checked["complete"] == true, "{lock} was not searched to the end");
    Ok(checked["seconds"].as_f64().unwrap_or_default())
}

/// Random schedules of 4 tasks in a second.
fn sampled(bench: &Bench) -> Result<Figure> {
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("schedules: {repeat} of {REPEATS}");
        let checked = check(bench, "queued", 4, 2, &["--sample", "100000"])?;
        values.push(100_000.0 / checked["seconds"].as_f64().unwrap_or(f64::INFINITY));
    }
    let limit = Limit::AtLeast(15_000.0);
    Ok(Figure { name: "queued, 4 tasks × 2: random schedules".into(), unit: "/s", limit, values })
}

fn check(
    bench: &Bench,
    lock: &str,
    threads: u32,
    acquires: u32,
    flags: &[&str],
) -> Result<serde_json::Value> {
    let home = fresh_directory(&temp_dir())?;
    let mut command = bench.knee(home.path());
    let (threads, acquires) = (threads.to_string(), acquires.to_string());
    command.args(["check", lock, "--threads", &threads, "--acquires", &acquires, "--json"]);
    let said = output(command.args(flags))?.stdout;
    let mut all: Vec<serde_json::Value> = serde_json::from_slice(&said)?;
    ensure!(all.len() == 1, "one lock was asked for");
    Ok(all.remove(0))
}
