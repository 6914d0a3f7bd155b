//! How long a change takes to try: the release build after one workload was touched, and a
//! fresh clone to its first curve.

use std::fs::File;
use std::process::Command;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result};

use crate::report::{Figure, Limit};
use crate::{Bench, output, workspace};

const REPEATS: usize = 3;

/// Wall times of the release build, one workload changed.
pub fn incremental() -> Result<Figure> {
    let workload = workspace().join("crates/workloads/src/brk.rs");
    build()?;
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("rebuild: {repeat} of {REPEATS}");
        File::options()
            .write(true)
            .open(&workload)
            .and_then(|file| file.set_modified(SystemTime::now()))
            .with_context(|| format!("touching {}", workload.display()))?;
        values.push(build()?);
    }
    Ok(Figure {
        name: "release build after one workload changed".to_string(),
        unit: "s",
        limit: Limit::AtMost(10.0),
        values,
    })
}

/// Builds knee; returns the wall time in s.
fn build() -> Result<f64> {
    let since = Instant::now();
    let arguments = ["build", "--release", "-p", "knee"];
    output(Command::new("cargo").args(arguments).current_dir(workspace()))?;
    Ok(since.elapsed().as_secs_f64())
}

/// Wall time of `git clone` and `make run`. Crates come from cargo's cache if it has them.
pub fn fresh_clone(bench: &Bench) -> Result<Figure> {
    eprintln!("a fresh clone to its first curve");
    let home = bench.fresh_directory()?;
    let clone = home.path().join("knee");
    let since = Instant::now();
    output(Command::new("git").arg("clone").arg(workspace()).arg(&clone))?;
    let records = home.path().join("records");
    output(Command::new("make").arg("run").current_dir(&clone).env("KNEE_RECORDS", records))?;
    Ok(Figure {
        name: "fresh clone to first curve".to_string(),
        unit: "s",
        limit: Limit::AtMost(300.0),
        values: vec![since.elapsed().as_secs_f64()],
    })
}
