//! Simulating: accesses per second of one core at 80 contended CPUs, and how long the curves of six
//! locks take with the draws of what nobody knows.

use std::env::temp_dir;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const REPEATS: usize = 5;
const HOST: &str = "westmere-ex-8s";

/// Algorithm with its design, simulated time, and accesses per second at least, in millions.
const SPEEDS: &[(&[&str], &str, f64)] = &[
    (&["parking"], "600ms", 15.0),
    (&["file_locks", "--design", "before"], "150ms", 15.0),
    (&["queued"], "150ms", 30.0),
    (&["mcs"], "150ms", 30.0),
    (&["ticket"], "150ms", 30.0),
];

/// Speeds, and the time of curves.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for &(what, length, limit) in SPEEDS {
        let name = what[0];
        let mut values = Vec::new();
        for repeat in 1..=REPEATS {
            eprintln!("simulating {name} at 80 CPUs: {repeat} of {REPEATS}");
            values.push(accesses_per_s(bench, what, length)? / 1e6);
        }
        figures.push(Figure {
            name: format!("simulated {name}, 80 CPUs: accesses"),
            unit: "M/s",
            limit: Limit::AtLeast(limit),
            values,
        });
    }
    figures.push(curves(bench)?);
    Ok(figures)
}

/// Of a long run over a short one, so that what knee does beside simulating falls away.
fn accesses_per_s(bench: &Bench, what: &[&str], length: &str) -> Result<f64> {
    let run = |length: &str| -> Result<(f64, f64)> {
        let start = Instant::now();
        let arguments = [what, &["--cpus", "80", "--draws", "0", "--length", length]].concat();
        let found = simulate(bench, &arguments)?;
        let accesses = found["algorithms"][0]["points"][0]["accesses"].as_f64();
        Ok((accesses.context("accesses are missing")?, start.elapsed().as_secs_f64()))
    };
    let (short, long) = (run("1ms")?, run(length)?);
    Ok((long.0 - short.0) / (long.1 - short.1))
}

/// Seconds of six locks at twelve counts of CPUs, each with the middle of all ranges and four draws.
fn curves(bench: &Bench) -> Result<Figure> {
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("curves of six locks: {repeat} of {REPEATS}");
        let start = Instant::now();
        let locks = "clh,mcs,queued,test_and_set,test_and_test_and_set,ticket";
        let cpus = "1,2,4,8,10,16,20,32,40,64,80,160";
        let found = simulate(bench, &[locks, "--cpus", cpus, "--draws", "4"])?;
        let points = found["algorithms"][0]["points"].as_array().map_or(0, Vec::len);
        ensure!(points == 12, "{points} points of 12");
        values.push(start.elapsed().as_secs_f64());
    }
    Ok(Figure {
        name: "simulated curves: 6 locks × 12 CPU counts × 5 seeds".into(),
        unit: "s",
        limit: Limit::AtMost(30.0),
        values,
    })
}

fn simulate(bench: &Bench, arguments: &[&str]) -> Result<Value> {
    let home = fresh_directory(&temp_dir())?;
    let mut command = bench.knee(home.path());
    command.args(["simulate", "--host", HOST, "--json"]).args(arguments);
    Ok(serde_json::from_slice(&output(&mut command)?.stdout)?)
}
