//! What memtier_benchmark prints, and its JSON (--json-out-file). Source: its `run_stats.cpp` and `JSON_handler.cpp`, and
//! outputs of 1.2 to 2.1.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use records::Better::{self, Higher, Lower, Neither};
use records::ReplicationUnit;
use serde_json::Value;

use crate::import::json::{document, looks_like, number, numbers};
use crate::import::load_tools::MEMTIER;
use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const RATE: &str = "operations_per_s";

/// Whether a text is memtier's table, or its JSON.
pub fn recognise(text: &str) -> bool {
    is_json(text) || MEMTIER.recognise(text)
}

fn is_json(text: &str) -> bool {
    looks_like(text, &["ALL STATS", "Totals"])
}

/// Reads the run; its seconds are samples.
pub fn read(file: &File) -> Result<Foreign> {
    if !is_json(file.text) {
        return MEMTIER.read(file);
    }
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, MEMTIER.lacks);
    let document = document(file.text)?;
    let stats = document.get("ALL STATS").and_then(Value::as_object);
    let stats = stats.context("no \"ALL STATS\": expected the JSON of memtier_benchmark")?;
    let mut run = ForeignRun { cell: cell(&document), ..ForeignRun::default() };
    for (kind, part) in stats {
        // SET, GET and WAIT are distributions, as lists.
        let Some(numbers) = part.as_object().filter(|_| kind != "Runtime") else {
            leave(&mut foreign, "times and distributions", part);
            continue;
        };
        for (key, value) in numbers {
            match (key.as_str(), value) {
                // Its older name, beside Average Latency.
                ("Latency", _) if numbers.contains_key("Average Latency") => {
                    leave(&mut foreign, "numbers that are there twice", value);
                }
                (_, Value::Number(_)) => {
                    put(&mut foreign, &mut run.values, kind, key, value.as_f64());
                }
                ("Percentile Latencies", Value::Object(all)) => {
                    for (percent, value) in all.iter().filter(|(_, value)| value.is_number()) {
                        put(&mut foreign, &mut run.values, kind, percent, value.as_f64());
                    }
                    leave(
                        &mut foreign,
                        "histograms",
                        all.get("Histogram log format").unwrap_or(value),
                    );
                }
                ("Time-Serie", Value::Object(seconds)) if kind == "Totals" => {
                    run.samples = samples(&mut foreign, seconds);
                }
                _ => leave(&mut foreign, "seconds of single operations", value),
            }
        }
    }
    for part in ["configuration", "run information"] {
        leave(&mut foreign, "settings", document.get(part).unwrap_or(&Value::Null));
    }
    foreign.runs.push(run);
    Ok(foreign)
}

fn cell(document: &Value) -> ForeignCell {
    let mut cell = ForeignCell::new("memtier");
    let information = document.get("run information").unwrap_or(&Value::Null);
    for (key, name) in [("Threads", "threads"), ("Connections per thread", "connections")] {
        if let Some(value) = number(information, key) {
            cell.parameters.insert(name.to_string(), value.to_string());
        }
    }
    let configuration = document.get("configuration").unwrap_or(&Value::Null);
    for (key, name) in [("pipeline", "pipeline"), ("data_size", "payload_bytes")] {
        if let Some(value) = number(configuration, key) {
            cell.parameters.insert(name.to_string(), value.to_string());
        }
    }
    if let Some(ratio) = configuration.get("ratio").and_then(Value::as_str) {
        cell.parameters.insert("ratio".to_string(), ratio.to_string());
    }
    cell
}

/// The seconds of the run, in their order.
fn samples(
    foreign: &mut Foreign,
    seconds: &serde_json::Map<String, Value>,
) -> Vec<BTreeMap<String, f64>> {
    let mut ordered: Vec<(u64, &Value)> =
        seconds.iter().filter_map(|(at, second)| Some((at.parse().ok()?, second))).collect();
    ordered.sort_by_key(|(at, _)| *at);
    let mut sample = |second: &Value| {
        let mut values = BTreeMap::new();
        for (key, value) in second.as_object().into_iter().flatten() {
            put(foreign, &mut values, "sample", key, value.as_f64());
        }
        values
    };
    ordered.into_iter().map(|(_, second)| sample(second)).collect()
}

/// Adds a number of an operation. Those of the totals have the names that the table's have.
fn put(
    foreign: &mut Foreign,
    values: &mut BTreeMap<String, f64>,
    kind: &str,
    key: &str,
    value: Option<f64>,
) {
    let Some(value) = value else { return };
    let of = match kind {
        "Totals" => "memtier.".to_string(),
        "sample" => "memtier.sample.".to_string(),
        kind => format!("memtier.{}_", metric_word(kind)),
    };
    let (name, unit, better): (String, &str, Better) = match key {
        "Ops/sec" if kind == "Totals" => (RATE.to_string(), "1/s", Higher),
        "Count" if kind == "Totals" => ("operations".to_string(), "1", Neither),
        "Ops/sec" => (format!("{of}per_s"), "1/s", Higher),
        "Hits/sec" => (format!("{of}hits_per_s"), "1/s", Neither),
        "Misses/sec" => (format!("{of}misses_per_s"), "1/s", Neither),
        "KB/sec" => (format!("{of}kb_per_s"), "KB/s", Higher),
        "Average Latency" | "Latency" => (format!("{of}latency_mean_ms"), "ms", Lower),
        "Min Latency" => (format!("{of}latency_min_ms"), "ms", Lower),
        "Max Latency" => (format!("{of}latency_max_ms"), "ms", Lower),
        percent if percent.starts_with('p') && percent[1..].parse::<f64>().is_ok() => {
            let percent = percent[1..].trim_end_matches('0').trim_end_matches('.');
            (format!("{of}latency_p{}_ms", percent.replace('.', "")), "ms", Lower)
        }
        key => (format!("{of}{}", metric_word(key)), "1", Neither),
    };
    foreign.describe(&name, unit, better);
    values.insert(name, value);
}

fn leave(foreign: &mut Foreign, what: &str, part: &Value) {
    let numbers = numbers(part);
    if numbers > 0 {
        *foreign.unread.entry(what.to_string()).or_default() += numbers;
    }
}
