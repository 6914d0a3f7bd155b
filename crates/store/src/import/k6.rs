//! The end of k6's output, and its JSON (--summary-export, or what handleSummary gets). Source: k6's end-of-test summary, and
//! outputs of 0.26 to 1.0.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::{Quantity, ReplicationUnit};
use serde_json::Value;

use crate::import::json::{document, looks_like, numbers};
use crate::import::{File, Foreign, ForeignCell, ForeignRun, metric_word};

const RATE: &str = "operations_per_s";
const LACKS: &[&str] = &[
    "one output is one run: replication needs several files",
    "the server, the stages of the load, CPUs, host and kernel are not recorded",
];

/// Whether a text is of k6.
pub fn recognise(text: &str) -> bool {
    is_json(text)
        || text.contains("iterations")
            && text.contains("http_req_duration")
            && !rows(text).is_empty()
}

fn is_json(text: &str) -> bool {
    looks_like(text, &["metrics", "iterations"]) && text.contains("\"iteration_duration\"")
}

/// Reads the run.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    let mut values = BTreeMap::new();
    if is_json(file.text) {
        let document = document(file.text)?;
        let metrics = document.get("metrics").and_then(Value::as_object);
        let metrics = metrics.context("no \"metrics\": expected the summary of k6")?;
        for (name, metric) in metrics {
            let values_of = metric.get("values").unwrap_or(metric).as_object();
            for (key, value) in values_of.into_iter().flatten() {
                if let Some(value) = value.as_f64() {
                    let is_time = metric.get("contains").and_then(Value::as_str) == Some("time");
                    let unit = if is_time || is_duration(name) { "ms" } else { "" };
                    put(&mut foreign, &mut values, name, key, (value, unit));
                }
            }
        }
        let state = document.pointer("/state/testRunDurationMs").and_then(Value::as_f64);
        if let Some(ms) = state {
            values.insert("wall_s".to_string(), ms / 1e3);
        }
        let checks = document.get("root_group").map_or(0, numbers);
        if checks > 0 {
            foreign.unread.insert("checks".to_string(), checks);
        }
    } else {
        read_text(&mut foreign, &mut values, file.text);
    }
    ensure!(!values.is_empty(), "it has no metric: was k6 interrupted?");
    let cell = ForeignCell::new("k6");
    foreign.runs.push(ForeignRun { cell, values, ..ForeignRun::default() });
    Ok(foreign)
}

fn is_duration(name: &str) -> bool {
    name.ends_with("_duration") || name.starts_with("http_req_") && !name.ends_with("_failed")
}

/// The rows `http_req_duration..............: avg=1.5ms min=…`, by name.
fn rows(text: &str) -> Vec<(&str, &str)> {
    let row = |line: &'_ str| -> Option<(usize, usize)> {
        let dots = line.find("..")?;
        let colon = dots + line[dots..].find(':')?;
        line[dots..colon].chars().all(|c| c == '.').then_some((dots, colon))
    };
    let lines = text.lines().filter_map(|line| {
        let (dots, colon) = row(line)?;
        let name = line[..dots].trim_start_matches(|c: char| !c.is_alphabetic() && c != '{').trim();
        (!name.is_empty()).then(|| (name, line[colon + 1..].trim()))
    });
    lines.collect()
}

fn read_text(foreign: &mut Foreign, values: &mut BTreeMap<String, f64>, text: &str) {
    let all = rows(text);
    for line in text.lines() {
        let Some((name, rest)) = rows(line).first().copied().filter(|row| all.contains(row)) else {
            foreign.leave("other lines", line);
            continue;
        };
        let words: Vec<&str> = rest.split_whitespace().collect();
        if words.iter().any(|word| word.contains('=') && !word.contains("min=0 max")) {
            for (key, value) in words.iter().filter_map(|word| word.split_once('=')) {
                match Quantity::at(value) {
                    Ok(found) => put_quantity(foreign, values, name, key, &found),
                    Err(_) => foreign.leave("other numbers", value),
                }
            }
            foreign.leave("other numbers", words.iter().find(|w| !w.contains('=')).unwrap_or(&""));
            continue;
        }
        // A count and its rate, or a share with what it is of: 100.00% ✓ 300 ✗ 0.
        let found: Vec<Quantity> =
            words.iter().filter_map(|word| Quantity::at(word).ok()).collect();
        let keys: &[&str] = match rest.contains('%') {
            true => &["percent", "passes", "fails"],
            false if words.iter().any(|word| word.ends_with("/s")) => &["count", "rate"],
            false => &["value", "min", "max"],
        };
        for (at, quantity) in found.iter().enumerate() {
            match keys.get(at) {
                Some(key) => put_quantity(foreign, values, name, key, quantity),
                None => *foreign.unread.entry("other numbers".to_string()).or_default() += 1,
            }
        }
    }
}

fn put_quantity(
    foreign: &mut Foreign,
    values: &mut BTreeMap<String, f64>,
    name: &str,
    key: &str,
    found: &Quantity,
) {
    match found.in_unit("ms") {
        Some(ms) if !found.unit.is_empty() => put(foreign, values, name, key, (ms, "ms")),
        _ => put(foreign, values, name, key, (found.value, &found.unit)),
    }
}

/// Adds a number. Requests per second are operations per second.
fn put(
    foreign: &mut Foreign,
    values: &mut BTreeMap<String, f64>,
    name: &str,
    key: &str,
    (value, unit): (f64, &str),
) {
    let key = match key {
        "avg" => "mean".to_string(),
        "med" => "p50".to_string(),
        key => metric_word(key).replace("p_", "p"),
    };
    let (metric, unit, better): (String, &str, Better) = match (name, &key[..]) {
        ("http_reqs", "rate") => (RATE.to_string(), "1/s", Higher),
        ("http_reqs", "count") => ("operations".to_string(), "1", Neither),
        _ if unit == "ms" => (format!("k6.{}_{key}_ms", metric_word(name)), "ms", Lower),
        (_, "rate") if name != "checks" && !name.ends_with("_failed") => {
            (format!("k6.{}_per_s", metric_word(name)), "1/s", Neither)
        }
        _ => {
            let unit = if unit.is_empty() { "1" } else { unit };
            (format!("k6.{}_{key}", metric_word(name)), unit, Neither)
        }
    };
    foreign.describe(&metric, unit, better);
    values.insert(metric, value);
}
