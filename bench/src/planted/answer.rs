//! What knee says of a pair: it measures the experiment and explains the difference.

use std::env::temp_dir;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use records::{Opened, Run};
use serde_json::Value;

use super::pair::Pair;
use crate::{Bench, Options, fresh_directory, output};

/// What knee says of one variant against the first.
pub struct Answer {
    /// Causes as `knee explain --json` has them, the largest first.
    pub causes: Vec<Value>,
    /// How much more CPU time the workload's tasks took per operation while knee looked, in ns.
    pub work_ns: Option<f64>,
    /// What the change of CPU time per operation is in clean runs, in ns; nothing where no run
    /// tells.
    pub clean_cpu_ns: Option<f64>,
    /// Whether knee refuses to answer, since looking cost too much.
    pub refused: bool,
    /// Whether events were counted.
    pub counts: bool,
}

/// Has perf record all CPUs with call chains while each program runs, and asks.
pub fn from_perf(bench: &Bench, pair: &Pair) -> Result<Vec<Answer>> {
    let fresh = fresh_directory(Path::new("/dev/shm"))?;
    let home = fresh.path();
    let mut operations = Vec::new();
    for (side, line) in pair.lines().into_iter().enumerate() {
        let place = fresh_directory(Path::new("/dev/shm"))?;
        let mut perf = Command::new("perf");
        perf.args(["record", "-q", "-a", "-g", "-o"]).arg(home.join(format!("{side}.data")));
        let said = output(perf.args(["--", "sh", "-c", line]).current_dir(place.path()))?.stdout;
        let said = String::from_utf8_lossy(&said);
        let number = said.lines().find_map(|line| line.strip_prefix("ops: "));
        operations.push(number.context("the program printed no number of operations")?.to_string());
    }
    let mut command = bench.knee(home);
    command.current_dir(home).args(["explain", "0.data", "1.data", "--json", "--operations"]);
    let said = output(command.arg(operations.join(",")))?.stdout;
    let json: Value = serde_json::from_slice(&said)?;
    Ok(vec![Answer {
        causes: json["causes"].as_array().cloned().context("no causes")?,
        work_ns: None,
        clean_cpu_ns: None,
        refused: false,
        counts: false,
    }])
}

/// Measures a pair and asks.
pub fn of(bench: &Bench, pair: &Pair, options: &Options, programs: &Path) -> Result<Vec<Answer>> {
    let kept =
        options.records.as_ref().map(|folder| folder.join(pair.name.replace(['/', ' '], "-")));
    let fresh = fresh_directory(&temp_dir())?;
    let home = kept.as_deref().unwrap_or(fresh.path());
    std::fs::create_dir_all(home).with_context(|| format!("making {}", home.display()))?;
    let file = home.join("planted.toml");
    let what = match only_record(home) {
        Ok(_) => "last".into(),
        Err(_) => {
            let experiment = pair.experiment(options.blocks, options.look_seconds, programs)?;
            std::fs::write(&file, experiment)?;
            file
        }
    };
    let said = bench.knee(home).arg("explain").arg(what).args(["--yes", "--json"]).output()?;
    let why = String::from_utf8_lossy(&said.stderr).trim().to_string();
    // Where looking cost too much, the status says so.
    let json: Value = serde_json::from_slice(&said.stdout)
        .with_context(|| format!("no JSON, but: {}", why.lines().last().unwrap_or_default()))?;
    let opened = store::open(&only_record(home)?)?;
    let points = points(pair, &opened)?;
    let mut told = Vec::new();
    collect(&json, &mut told);
    ensure!(told.len() == points.len() - 1, "knee told of {} differences", told.len());
    let variants = points[1..].iter().zip(told).map(|(point, difference)| Answer {
        causes: difference["causes"].as_array().cloned().unwrap_or_default(),
        work_ns: work_ns(&difference["change"]),
        clean_cpu_ns: clean(&opened, pair, [points[0], *point]),
        refused: !said.status.success(),
        counts: true,
    });
    Ok(variants.collect())
}

pub fn only_record(home: &Path) -> Result<PathBuf> {
    let mut folder = home.join("records");
    while !folder.join("record.json").exists() {
        let inside = std::fs::read_dir(&folder).context("no record is kept yet")?;
        let mut inside = inside.filter_map(|entry| Some(entry.ok()?.path()));
        folder = inside.find(|path| path.is_dir()).context("knee kept no record")?;
    }
    Ok(folder)
}

/// The points of the variants, in their order.
fn points(pair: &Pair, opened: &Opened) -> Result<Vec<usize>> {
    let point = |name: &String| opened.record.points.iter().position(|p| p.variant == *name);
    let points: Vec<usize> = pair.variants().iter().filter_map(point).collect();
    ensure!(points.len() == pair.variants().len(), "the record lacks a variant");
    Ok(points)
}

/// All differences in what knee printed, in their order.
fn collect<'a>(json: &'a Value, differences: &mut Vec<&'a Value>) {
    match json {
        Value::Array(values) => values.iter().for_each(|value| collect(value, differences)),
        Value::Object(fields) => {
            if fields.contains_key("causes") {
                differences.push(json);
            }
            fields.values().for_each(|value| collect(value, differences));
        }
        _ => (),
    }
}

fn work_ns(change: &Value) -> Option<f64> {
    let mut rows = change["rows"].as_array()?.iter();
    rows.find(|row| row["name"] == "the workload")?["change"].as_f64()
}

/// The difference of CPU time per operation between runs that nobody watched.
fn clean(opened: &Opened, pair: &Pair, sides: [usize; 2]) -> Option<f64> {
    let of = |point| {
        let runs: Vec<&Run> = opened.runs_of(point).filter(|run| run.finished()).collect();
        let sum =
            |value: fn(&Run) -> Option<f64>| runs.iter().map(|run| value(run)).sum::<Option<f64>>();
        let cpu_s = sum(|run| Some(run.value("time.user_time")? + run.value("time.system_time")?))?;
        let operations = match pair.operations {
            1.0 => sum(|run| run.value("operations"))?,
            each => each * runs.len() as f64,
        };
        (operations > 0.0).then(|| cpu_s * 1e9 / operations)
    };
    Some(of(sides[1])? - of(sides[0])?)
}
