//! How long a change takes to try: the release build after an operation was edited, and a
//! fresh clone to its first curve.

use std::env::temp_dir;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::report::{Figure, Limit};
use crate::{fresh_directory, output, workspace};

const REPEATS: usize = 5;

/// Wall times of the release build, one workload edited. Leaves file and binary as before.
pub fn incremental() -> Result<Figure> {
    let path = workspace().join("crates/workloads/src/brk.rs");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    build()?;
    let timed = edit_and_build(&path, &text);
    fs::write(&path, &text).with_context(|| format!("restoring {}", path.display()))?;
    build()?;
    Ok(Figure {
        name: "release build after one workload was edited".to_string(),
        unit: "s",
        limit: Limit::AtMost(10.0),
        values: timed?,
    })
}

/// Real edits of the operation: merely touched, an incremental build would do nothing.
fn edit_and_build(path: &Path, text: &str) -> Result<Vec<f64>> {
    const OPERATE: &str = "fn operate(&mut self) -> Result<(), Failure> {";
    ensure!(text.contains(OPERATE), "{} has no operation to edit", path.display());
    let mut values = Vec::new();
    for repeat in 1..=REPEATS {
        eprintln!("rebuild: {repeat} of {REPEATS}");
        let edit = format!("{OPERATE} std::hint::black_box({repeat});");
        fs::write(path, text.replace(OPERATE, &edit))?;
        values.push(build()?);
    }
    Ok(values)
}

/// Builds knee as `make build` does; returns the wall time in s.
fn build() -> Result<f64> {
    let since = Instant::now();
    output(Command::new("sh").arg(".ci/build").current_dir(workspace()))?;
    Ok(since.elapsed().as_secs_f64())
}

/// Wall time of `git clone` and `make run`. Crates come from cargo's cache if it has them.
pub fn fresh_clone() -> Result<Figure> {
    eprintln!("a fresh clone to its first curve");
    let home = fresh_directory(&temp_dir())?;
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
