//! The JSON of pytest-benchmark: for each test the statistics of its rounds, and the rounds themselves unless they were left
//! out. Source: its documentation, and the output of 3.2 to 5.1.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use records::Better::{Higher, Lower, Neither};
use records::ReplicationUnit;
use serde_json::Value;

use crate::import::json::{document, looks_like, number, text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const LACKS: &[&str] = &[
    "the rounds of a test are samples of one run: replication needs several files of each variant",
    "CPUs are not recorded",
];

const TIME: &str = "pytest.time_s";

/// Statistics by their keys, with metric, unit and direction.
const STATISTICS: [(&str, &str, &str, records::Better); 8] = [
    ("mean", TIME, "s", Lower),
    ("median", "pytest.time_median_s", "s", Lower),
    ("min", "pytest.time_min_s", "s", Lower),
    ("max", "pytest.time_max_s", "s", Lower),
    ("stddev", "pytest.time_stddev_s", "s", Lower),
    ("ops", "operations_per_s", "1/s", Higher),
    ("rounds", "pytest.rounds", "1", Neither),
    ("iterations", "pytest.iterations_per_round", "1", Neither),
];

/// Whether a text has its keys.
pub fn recognise(text: &str) -> bool {
    looks_like(text, &["machine_info", "benchmarks", "stats", "rounds"])
}

/// Reads a run for each test; its rounds are samples.
pub fn read(file: &File) -> Result<Foreign> {
    let document = document(file.text)?;
    let benchmarks = document.get("benchmarks").and_then(Value::as_array);
    let benchmarks = benchmarks.context("no \"benchmarks\": expected pytest --benchmark-json")?;
    let mut foreign = Foreign::new(TIME, ReplicationUnit::Run, LACKS);
    if let Some(machine) = document.get("machine_info") {
        foreign.host.hostname = text(machine, "node").map(str::to_string);
        foreign.host.kernel_release = text(machine, "release").map(str::to_string);
        foreign.host.architecture = text(machine, "machine").map(str::to_string);
    }
    for (_, metric, unit, better) in STATISTICS {
        foreign.describe(metric, unit, better);
    }
    for benchmark in benchmarks {
        let name = text(benchmark, "name").context("a benchmark without a \"name\"")?;
        let run = read_one(&mut foreign, benchmark, name);
        foreign.runs.push(run.with_context(|| format!("in {name}"))?);
    }
    Ok(foreign)
}

fn read_one(foreign: &mut Foreign, benchmark: &Value, name: &str) -> Result<ForeignRun> {
    let stats = benchmark.get("stats").and_then(Value::as_object).context("no \"stats\"")?;
    // "test_lock[8]" has its parameters in "params".
    let mut cell = ForeignCell::new(format!("pytest.{}", name.split('[').next().unwrap_or(name)));
    let parameters = benchmark.get("params").and_then(Value::as_object);
    for (key, value) in parameters.into_iter().flatten() {
        let value = value.as_str().map_or(value.to_string(), str::to_string);
        cell.parameters.insert(key.clone(), value);
    }
    let mut run = ForeignRun { cell, ..ForeignRun::default() };
    for (key, value) in stats {
        let known = STATISTICS.iter().find(|(known, ..)| known == key);
        if let Some((_, metric, ..)) = known {
            let value = value.as_f64().filter(|value| value.is_finite());
            run.values.extend(value.map(|value| (metric.to_string(), value)));
        } else if value.is_number() {
            *foreign.unread.entry("further statistics".to_string()).or_default() += 1;
        }
    }
    let rounds = stats.get("data").and_then(Value::as_array);
    let rounds = rounds.into_iter().flatten().filter_map(Value::as_f64);
    run.samples = rounds.map(|time| BTreeMap::from([(TIME.to_string(), time)])).collect();
    if number(&Value::Object(stats.clone()), "mean").is_none() {
        run.failed = Some("the test has no mean".to_string());
    }
    Ok(run)
}
