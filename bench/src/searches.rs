//! Searches: how long `knee check` takes, as it reports itself.

use std::env::temp_dir;

use anyhow::{Result, ensure};

use crate::report::{Figure, Limit};
use crate::{Bench, fresh_directory, output};

const REPEATS: usize = 5;

/// A search that has taken this many seconds is not repeated: its relative noise is small.
const ENOUGH_S: f64 = 5.0;

/// How many times as long a search may take with store buffers.
const X86_TIMES: f64 = 5.0;

/// Subject, lock that it is built over, tasks, operations of each, and the longest time in s for
/// sequential consistency.
const CASES: &[(&str, &str, u32, u32, f64)] = &[
    ("queued", "ticket", 3, 1, 0.010),
    ("queued", "ticket", 4, 1, 0.5),
    ("queued", "ticket", 3, 2, 15.0),
    ("mcs", "ticket", 4, 1, 0.050),
    ("mcs", "ticket", 3, 2, 0.1),
    ("queued", "ticket", 5, 1, 60.0),
];

/// Cases without store buffers, in the form of [`CASES`]. An operation of file locks is three calls.
const SC_CASES: &[(&str, &str, u32, u32, f64)] = &[
    ("file_locks:before", "ticket", 3, 1, 2.0),
    ("file_locks:after", "ticket", 3, 1, 2.0),
    ("file_locks:before", "queued", 3, 1, 60.0),
    ("file_locks:after", "queued", 3, 1, 60.0),
];

/// Cases without store buffers that are searched once, because they take minutes.
const LONG_CASES: &[(&str, &str, u32, u32, f64)] = &[("queued", "ticket", 4, 2, 120.0)];

/// Measures the times of searches, as `knee check` reports them.
pub fn measure(bench: &Bench) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for &case in CASES {
        let sc = times(bench, case, "sc", REPEATS)?;
        let x86 = times(bench, case, "x86", REPEATS)?;
        let slower = sc.iter().zip(&x86).map(|(sc, x86)| x86 / sc).collect();
        figures.push(figure(case, "sc", Limit::AtMost(case.4), "s", sc));
        figures.push(figure(case, "x86", Limit::AtMost(X86_TIMES * case.4), "s", x86));
        figures.push(figure(case, "x86 / sc", Limit::AtMost(X86_TIMES), "", slower));
    }
    for (cases, repeats) in [(SC_CASES, REPEATS), (LONG_CASES, 1)] {
        for &case in cases {
            let sc = times(bench, case, "sc", repeats)?;
            figures.push(figure(case, "sc", Limit::AtMost(case.4), "s", sc));
        }
    }
    figures.push(sampled(bench)?);
    Ok(figures)
}

fn figure(
    (subject, over, tasks, each, _): (&str, &str, u32, u32, f64),
    model: &str,
    limit: Limit,
    unit: &'static str,
    values: Vec<f64>,
) -> Figure {
    let over = if subject.contains(':') { format!(" over {over}") } else { String::new() };
    Figure {
        name: format!("{subject}{over}, {tasks} tasks × {each}, {model}: searched"),
        unit,
        limit,
        values,
    }
}

fn times(
    bench: &Bench,
    (subject, over, tasks, each, _): (&str, &str, u32, u32, f64),
    model: &str,
    repeats: usize,
) -> Result<Vec<f64>> {
    // Only a mechanism is built over a lock.
    let over: &[&str] = if subject.contains(':') { &["--over", over] } else { &[] };
    let flags = [over, &["--memory", model]].concat();
    let search = |repeat| -> Result<f64> {
        eprintln!("{subject} {tasks}x{each} {model}: {repeat} of {repeats}");
        let checked = check(bench, subject, tasks, each, &flags)?;
        ensure!(checked["complete"] == true, "{subject} was not searched to the end");
        Ok(checked["seconds"].as_f64().unwrap_or_default())
    };
    let mut seconds = Vec::new();
    while seconds.len() < repeats && seconds.iter().sum::<f64>() < ENOUGH_S {
        seconds.push(search(seconds.len() + 1)?);
    }
    Ok(seconds)
}

/// Random schedules of 4 tasks per second.
fn sampled(bench: &Bench) -> Result<Figure> {
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("schedules: {repeat} of {REPEATS}");
        let checked = check(bench, "queued", 4, 2, &["--memory", "sc", "--sample", "100000"])?;
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
    let json = output(command.args(flags))?.stdout;
    let mut results: Vec<serde_json::Value> = serde_json::from_slice(&json)?;
    ensure!(results.len() == 1, "knee check reported {} results, not one", results.len());
    Ok(results.remove(0))
}
