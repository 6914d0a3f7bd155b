//! The speed of simulations: accesses per second on one core with 80 contending CPUs, and the time
//! for the curves of six locks, with draws of the uncertain inputs.

use std::env::temp_dir;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const REPEATS: usize = 5;
const HOST: &str = "westmere-ex-8s";

/// Arguments of the algorithm, simulated time, and the least accesses per second, in millions.
const SPEEDS: &[(&[&str], &str, f64)] = &[
    (&["parking"], "600ms", 15.0),
    (&["file_locks", "--design", "before"], "150ms", 15.0),
    (&["queued"], "150ms", 30.0),
    (&["mcs"], "150ms", 30.0),
    (&["ticket"], "150ms", 30.0),
];

/// Measures the speeds, and the time of the curves.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for &(algorithm, length, limit) in SPEEDS {
        let name = algorithm[0];
        let mut values = Vec::new();
        for repeat in 1..=REPEATS {
            eprintln!("simulating {name} at 80 CPUs: {repeat} of {REPEATS}");
            values.push(accesses_per_s(bench, algorithm, length)? / 1e6);
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

/// The difference of a long and a short run, which excludes what knee does besides simulating.
fn accesses_per_s(bench: &Bench, algorithm: &[&str], length: &str) -> Result<f64> {
    let run = |length: &str| -> Result<(f64, f64)> {
        let start = Instant::now();
        let arguments = [algorithm, &["--cpus", "80", "--draws", "0", "--length", length]].concat();
        let result = simulate(bench, &arguments)?;
        let accesses = result["algorithms"][0]["points"][0]["accesses"].as_f64();
        Ok((accesses.context("accesses are missing")?, start.elapsed().as_secs_f64()))
    };
    let (short, long) = (run("1ms")?, run(length)?);
    Ok((long.0 - short.0) / (long.1 - short.1))
}

/// Seconds for six locks at twelve CPU counts, each with the middle of all inputs and four draws.
fn curves(bench: &Bench) -> Result<Figure> {
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("curves of six locks: {repeat} of {REPEATS}");
        let start = Instant::now();
        let locks = "clh,mcs,queued,test_and_set,test_and_test_and_set,ticket";
        let cpus = "1,2,4,8,10,16,20,32,40,64,80,160";
        let result = simulate(bench, &[locks, "--cpus", cpus, "--draws", "4"])?;
        let points = result["algorithms"][0]["points"].as_array().map_or(0, Vec::len);
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
