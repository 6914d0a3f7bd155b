//! The text of `go test -bench`: a line for each benchmark, CPU count (-cpu) and repetition (-count). Source: the Go
//! benchmark data format (golang.org/design/14313-benchmark-format).

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};

use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "the CPUs are those of GOMAXPROCS: which they were is not recorded",
    "a rate is that of all goroutines together if the benchmark calls RunParallel, else that of one",
    "lines of one benchmark were measured one after the other: their order may matter",
];

const RATE: &str = "operations_per_s";

/// Whether a text has a line of a benchmark.
pub fn recognise(text: &str) -> bool {
    text.lines().any(|line| fields(line).is_some())
}

/// A line of a benchmark.
struct Fields<'a> {
    name: &'a str,
    iterations: u64,
    /// Each value with its unit.
    values: Vec<(&'a str, &'a str)>,
}

fn fields(line: &str) -> Option<Fields<'_>> {
    let mut words = line.split_whitespace();
    let name = words.next()?.strip_prefix("Benchmark")?;
    let iterations = words.next()?.parse().ok()?;
    let rest: Vec<&str> = words.collect();
    let values = rest.chunks(2).map(|pair| Some((*pair.first()?, *pair.get(1)?)));
    let values = values.collect::<Option<Vec<_>>>().filter(|values| !values.is_empty())?;
    Some(Fields { name, iterations, values })
}

/// Reads a run for each line of a benchmark.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    let mut package = None;
    for (index, line) in file.text.lines().enumerate() {
        if let Some((key, value)) = line.split_once(": ").filter(|(key, _)| !key.contains(' ')) {
            match key {
                "pkg" => package = Some(value.trim().to_string()),
                "cpu" => foreign.host.cpu_model = Some(value.trim().to_string()),
                "goarch" => foreign.host.architecture = Some(value.trim().to_string()),
                "goos" => (),
                _ => foreign.leave("other lines", line),
            }
        } else if let Some(Fields { name, iterations, values }) = fields(line) {
            let mut run = run(name, iterations);
            run.options.extend(package.iter().map(|one| ("package".to_string(), one.clone())));
            for (value, unit) in values {
                put(&mut foreign, &mut run, value, unit)
                    .with_context(|| format!("line {}", index + 1))?;
            }
            foreign.runs.push(run);
        } else if line.starts_with("ok ") {
            let time = line.split_whitespace().next_back().unwrap_or_default();
            foreign.leave("times of whole packages", time);
        } else {
            foreign.leave("other lines", line);
        }
    }
    // Benchmarks of several packages may have one name.
    let packages = foreign.runs.iter().filter_map(|run| run.options.get("package"));
    if packages.collect::<BTreeSet<_>>().len() > 1 {
        for run in &mut foreign.runs {
            run.cell.parameters.extend(run.options.remove_entry("package"));
        }
    }
    if foreign.runs.iter().all(|run| !run.values.contains_key(RATE)) {
        let first = foreign
            .runs
            .first()
            .and_then(|run| run.values.keys().find(|name| name.starts_with("go.")));
        foreign.primary = first.cloned().unwrap_or_default();
    }
    Ok(foreign)
}

/// The run of "RLock/size=4-8": the last number is GOMAXPROCS, which 1 leaves out.
fn run(name: &str, iterations: u64) -> ForeignRun {
    let split = name.rsplit_once('-').and_then(|(name, cpus)| Some((name, cpus.parse().ok()?)));
    let (name, cpus) = split.unwrap_or((name, 1));
    let mut parts = name.split('/');
    let mut cell = ForeignCell::new(format!("go.{}", parts.next().unwrap_or_default()));
    for (index, part) in parts.enumerate() {
        let (key, value) = match part.split_once('=') {
            Some((key, value)) => (key.to_string(), value),
            None => (format!("part_{}", index + 1), part),
        };
        cell.parameters.insert(key, value.to_string());
    }
    (cell.form, cell.cpus, cell.tasks) = (Form::Threads, cpus, cpus);
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    run.values.insert("operations".to_string(), iterations as f64);
    run
}

fn put(foreign: &mut Foreign, run: &mut ForeignRun, text: &str, unit: &str) -> Result<()> {
    let value: f64 = text.parse().ok().with_context(|| format!("'{text}' is not a number"))?;
    ensure!(value >= 0.0, "{text} {unit} cannot be negative");
    let (name, unit, better): (String, &str, Better) = match unit {
        "ns/op" => ("go.ns_per_op".to_string(), "ns", Lower),
        "B/op" => ("go.bytes_per_op".to_string(), "B", Lower),
        "MB/s" => ("go.mb_per_s".to_string(), "MB/s", Higher),
        unit => {
            let name = format!("go.{}", metric_word(&unit.replace('/', " per ")));
            let better = if unit.ends_with("/op") {
                Lower
            } else if unit.ends_with("/s") {
                Higher
            } else {
                Neither
            };
            (name, "1", better)
        }
    };
    if name == "go.ns_per_op" && value > 0.0 {
        run.values.insert(RATE.to_string(), 1e9 / value);
    }
    foreign.describe(&name, unit, better);
    run.values.insert(name, value);
    Ok(())
}
