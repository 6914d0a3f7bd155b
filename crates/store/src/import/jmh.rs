//! The JSON of JMH (-rf json): for each benchmark the scores of each fork and iteration. Source: JMH's
//! `JSONResultFormat`, and the output of 1.37.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use records::Better::{self, Higher, Lower, Neither};
use records::{Form, ReplicationUnit};
use serde_json::Value;

use crate::import::json::{number, text};
use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const LACKS: &[&str] = &[
    "the number of tasks is that of JMH's threads; CPUs, host and kernel are not recorded",
    "forks of one benchmark were made one after the other",
];

/// Whether a text is a list with JMH's keys.
pub fn recognise(text: &str) -> bool {
    text.trim_start().starts_with('[')
        && text.contains("\"primaryMetric\"")
        && text.contains("\"scoreUnit\"")
}

/// Reads a run for each fork of each benchmark; its iterations are samples.
pub fn read(file: &File) -> Result<Foreign> {
    let benchmarks: Vec<Value> =
        serde_json::from_str(file.text).context("expected the JSON of jmh -rf json")?;
    let mut foreign = Foreign::new("operations_per_s", ReplicationUnit::Run, LACKS);
    for benchmark in &benchmarks {
        let name = text(benchmark, "benchmark").context("an entry without \"benchmark\"")?;
        read_one(&mut foreign, benchmark, name).with_context(|| format!("in {name}"))?;
    }
    let has_rate = foreign.runs.iter().any(|run| run.values.contains_key("operations_per_s"));
    if !has_rate {
        foreign.primary = TIME.to_string();
    }
    Ok(foreign)
}

const TIME: &str = "jmh.time_per_operation_ns";

fn read_one(foreign: &mut Foreign, benchmark: &Value, name: &str) -> Result<()> {
    let short: Vec<&str> = name.rsplit('.').take(2).collect();
    let mut cell =
        ForeignCell::new(format!("jmh.{}", short.into_iter().rev().collect::<Vec<_>>().join(".")));
    (cell.form, cell.tasks) = (Form::Threads, number(benchmark, "threads").unwrap_or(1.0) as u32);
    for (key, value) in benchmark.get("params").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map_or(value.to_string(), str::to_string);
        cell.parameters.insert(key.clone(), value);
    }
    let mode = text(benchmark, "mode").unwrap_or_default();
    cell.parameters.insert("mode".to_string(), mode.to_string());
    let primary = benchmark.get("primaryMetric").context("no \"primaryMetric\"")?;
    let secondary = benchmark.get("secondaryMetrics").and_then(Value::as_object);
    let metrics = std::iter::once(("", primary));
    let metrics: Vec<(&str, &Value)> = metrics
        .chain(secondary.into_iter().flatten().map(|(key, value)| (key.as_str(), value)))
        .collect();
    let mut runs: Vec<ForeignRun> = Vec::new();
    for (key, metric) in metrics {
        let (name, unit, better, factor) =
            of_score(key, text(metric, "scoreUnit").unwrap_or_default());
        let forks: Vec<Vec<f64>> = metric
            .get("rawData")
            .and_then(|data| serde_json::from_value(data.clone()).ok())
            .unwrap_or_else(|| vec![number(metric, "score").into_iter().collect()]);
        let derived = ["scoreError", "scorePercentiles", "scoreConfidence"];
        let derived = derived.iter().filter_map(|key| metric.get(*key)).map(numbers).sum::<usize>();
        *foreign
            .unread
            .entry("errors and percentiles that JMH derives".to_string())
            .or_default() += derived;
        foreign.describe(&name, unit, better);
        for (fork, iterations) in
            forks.iter().enumerate().filter(|(_, iterations)| !iterations.is_empty())
        {
            if runs.len() <= fork {
                runs.resize(fork + 1, ForeignRun { cell: cell.clone(), ..ForeignRun::default() });
            }
            let values: Vec<f64> = iterations.iter().map(|one| one * factor).collect();
            let run = &mut runs[fork];
            run.values.insert(name.clone(), values.iter().sum::<f64>() / values.len() as f64);
            run.samples.resize(run.samples.len().max(values.len()), BTreeMap::new());
            for (sample, value) in run.samples.iter_mut().zip(values) {
                sample.insert(name.clone(), value);
            }
        }
    }
    foreign.runs.extend(runs);
    Ok(())
}

/// The metric of a score, and what makes its unit of JMH's: a rate in 1/s, a time per operation in ns, or another.
fn of_score(key: &str, unit: &str) -> (String, &'static str, Better, f64) {
    let seconds = |unit: &str| match unit {
        "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        "min" => Some(60.0),
        _ => None,
    };
    let own = |rest: &str| match key {
        "" => rest.to_string(),
        key => format!("jmh.{}", metric_word(key)),
    };
    if let Some(per) = unit.strip_prefix("ops/").and_then(seconds) {
        return (own("operations_per_s"), "1/s", Higher, 1.0 / per);
    }
    if let Some(time) = unit.strip_suffix("/op").and_then(seconds) {
        return (own(TIME), "ns", Lower, 1e9 * time);
    }
    let unit = if unit == "B/op" { "B" } else { "1" };
    (own("jmh.score"), unit, Neither, 1.0)
}

fn numbers(value: &Value) -> usize {
    match value {
        Value::Number(_) => 1,
        Value::Array(parts) => parts.iter().map(numbers).sum(),
        Value::Object(parts) => parts.values().map(numbers).sum(),
        _ => 0,
    }
}
